#include "tools/run/learned_host_time.h"

#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace phantora {
namespace {

using ::testing::HasSubstr;

constexpr HostTime kLearned = {.mode = HostTimeMode::kLearned};

std::string FileNamed(const char* name) { return testing::TempDir() + name; }

TEST(LearnedHostTimeTest, WhatIsLearnedIsWhatTheNextRunKnows) {
  const std::string file = FileNamed("learned");
  auto first = LearnedHostTime::Open(kLearned, file);
  ASSERT_TRUE(first.ok()) << first.status();
  (*first)->segments().Ends(1, 1, 7, 0, 5000);
  EXPECT_TRUE((*first)->Close().ok());
  EXPECT_THAT((*first)->Line(), HasSubstr("written to " + file));
  EXPECT_FALSE(std::ifstream(file + ".partial").good());

  auto second = LearnedHostTime::Open(kLearned, file);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ((*second)->segments().Ends(1, 1, 7, 0, 99), VirtualSpan::Nanoseconds(5000));
  (*second)->segments().Ends(1, 1, 8, 0, 99);
  EXPECT_THAT((*second)->Line(), HasSubstr("1 pieces are not known"));
  EXPECT_TRUE((*second)->Close().ok());
}

TEST(LearnedHostTimeTest, WhatIsNoProfileIsNamedWithItsLine) {
  const std::string file = FileNamed("other");
  std::ofstream(file) << "something\n";
  const auto opened = LearnedHostTime::Open(kLearned, file);
  ASSERT_FALSE(opened.ok());
  EXPECT_THAT(std::string(opened.status().message()), HasSubstr(file + ": line 1: "));
  EXPECT_FALSE(LearnedHostTime::Check(file).ok());
}

TEST(LearnedHostTimeTest, WhatCannotBeWrittenIsToldBeforeTheRun) {
  const auto opened = LearnedHostTime::Open(kLearned, FileNamed("no/such/folder"));
  ASSERT_FALSE(opened.ok());
  EXPECT_THAT(std::string(opened.status().message()), HasSubstr("cannot write"));
  EXPECT_FALSE(LearnedHostTime::Open(kLearned, testing::TempDir()).ok());
}

}  // namespace
}  // namespace phantora
