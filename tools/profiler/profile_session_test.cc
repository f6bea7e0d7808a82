#include "tools/profiler/profile_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace phantora {
namespace {

using testing::HasSubstr;

// A worker is a shell script that answers lines; `$line` is the one at hand, and $n counts the
// launches that this worker has had.
constexpr char kBegin[] = R"(
echo '{"gpu": "A GPU", "driver": "12.4", "sms": 132, "clock_mhz": 1980}'
n=0
while read -r line; do
  case "$line" in *'"zstd"'*) continue ;; esac
  id=$(echo "$line" | sed 's/.*"launch":\([0-9]*\).*/\1/')
  n=$((n + 1))
)";
constexpr char kGood[] = R"(
  echo "{\"launch\": $id, \"us\": $((id + 10)), \"error\": 0.02, \"samples\": 5, \"launches_each\": 9}"
)";

class ProfileSessionTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<ProfileSession>> Start(const std::string& script,
                                                        const std::string& product = "A GPU") {
    const std::string path = absl::StrCat(testing::TempDir(), "/worker.sh");
    std::ofstream(path) << "#!/bin/sh\n" << script;
    chmod(path.c_str(), 0755);
    return ProfileSession::Start({{"/bin/sh", path}, std::chrono::seconds(2), false},
                                 {"a-gpu", product});
  }
  static LaunchRequest Launch(uint64_t id) {
    LaunchRequest request;
    request.id = id;
    request.image = 1;
    request.row = absl::StrCat("gemm\tbf16\tforward\tk", id % 2, "\t1x2\t3\t4\t5");
    return request;
  }
};

TEST_F(ProfileSessionTest, WhatTheWorkerMeasures) {
  auto session = Start(absl::StrCat(kBegin, kGood, "done"));
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ((*session)->gpu().sms, 132);
  (*session)->AddImage(1, R"({"image": 1, "bytes": 0, "zstd": ""})");
  for (uint64_t id = 0; id < 5; ++id) {
    const ReplayResult result = (*session)->Measure(Launch(id));
    EXPECT_EQ(result.failed, "");
    EXPECT_EQ(result.time.microseconds, static_cast<double>(id) + 10);
  }
  EXPECT_EQ((*session)->restarts(), 0);
}

TEST_F(ProfileSessionTest, AWorkerThatDiesCostsOneLaunch) {
  auto session = Start(absl::StrCat(kBegin, "[ $id = 3 ] && kill -9 $$\n", kGood, "done"));
  ASSERT_TRUE(session.ok());
  EXPECT_EQ((*session)->Measure(Launch(2)).failed, "");
  EXPECT_THAT((*session)->Measure(Launch(3)).failed, HasSubstr("Killed"));
  EXPECT_EQ((*session)->Measure(Launch(4)).failed, "");
  EXPECT_EQ((*session)->restarts(), 2);
}

TEST_F(ProfileSessionTest, ASpoiltContextIsTriedAgainWithZeros) {
  auto session = Start(absl::StrCat(kBegin, R"(
  case "$line" in *'"zeros":false'*)
    echo "{\"launch\": $id, \"failed\": \"an illegal address\", \"gave_up\": true}"; exit 1 ;;
  esac
)",
                                    kGood, "done"));
  ASSERT_TRUE(session.ok());
  LaunchRequest request = Launch(7);
  request.zeros = false;
  EXPECT_EQ((*session)->Measure(request).failed, "");
  EXPECT_EQ((*session)->restarts(), 1);
}

TEST_F(ProfileSessionTest, AWorkerThatHangsIsGivenUp) {
  auto session = Start(absl::StrCat(kBegin, "[ $id = 1 ] && sleep 100\n", kGood, "done"));
  ASSERT_TRUE(session.ok());
  EXPECT_THAT((*session)->Measure(Launch(1)).failed, HasSubstr("does not answer"));
  EXPECT_EQ((*session)->Measure(Launch(2)).failed, "");
}

TEST_F(ProfileSessionTest, Refusals) {
  EXPECT_THAT(std::string(Start(absl::StrCat(kBegin, "done"), "Another GPU").status().message()),
              HasSubstr("the GPU here is an A GPU"));
  EXPECT_THAT(std::string(Start("echo '{\"refused\": \"no driver\"}'").status().message()),
              HasSubstr("no driver"));
  EXPECT_THAT(std::string(Start("exit 3").status().message()), HasSubstr("status 3"));
  EXPECT_THAT(std::string(Start("echo hello; sleep 9").status().message()),
              HasSubstr("no answer of a profiler"));
}

TEST(ProfiledRowsTest, OneForEachKindOfWork) {
  ProfiledRows rows;
  LaunchRequest request;
  request.row = "gemm\tbf16\tforward\tk\t1x2\t3\t4\t5";
  request.launches = 3;
  rows.Add(request, {.microseconds = 10, .error = 0.01, .samples = 5, .launches_each = 1});
  request.launches = 1;
  rows.Add(request, {.microseconds = 14, .error = 0.02, .samples = 5, .launches_each = 1});
  EXPECT_EQ(rows.size(), 1);
  const std::string text = rows.Text({"A GPU", "12.4", 132, 1980}, "2026-01-02");
  // The mean of four launches; half of what the two differ by.
  EXPECT_THAT(text,
              HasSubstr("gemm\tbf16\tforward\tk\t1x2\t3\t4\t5\t11\t0.18\tprofiled-2026-01-02\n"));
  EXPECT_THAT(text, HasSubstr("# profiled-2026-01-02: phantora-profile on an A GPU"));
}

}  // namespace
}  // namespace phantora
