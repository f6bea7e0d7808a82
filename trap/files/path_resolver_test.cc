#include "trap/files/path_resolver.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <string>
#include <utility>

namespace phantora {
namespace {

class FakeLinks : public ProcessLinks {
 public:
  std::map<std::pair<pid_t, std::string>, std::string> links;
  std::string Read(pid_t process, const std::string& name) const override {
    const auto it = links.find({process, name});
    return it == links.end() ? std::string() : it->second;
  }
};

class PathResolverTest : public testing::Test {
 protected:
  std::string Absolute(const std::string& path, int directory = AT_FDCWD) {
    return PathResolver(&links_).Absolute(kProcess, directory, path);
  }

  static constexpr pid_t kProcess = 7;
  FakeLinks links_;
};

TEST_F(PathResolverTest, AbsolutePathsAreNormalised) {
  EXPECT_EQ(Absolute("/dev/nvidia0"), "/dev/nvidia0");
  EXPECT_EQ(Absolute("//dev/./x/../nvidia0/"), "/dev/nvidia0");
  EXPECT_EQ(Absolute("/../../proc/devices"), "/proc/devices");
}

TEST_F(PathResolverTest, RelativePathsStartSomewhere) {
  links_.links = {{{7, "cwd"}, "/dev"}, {{7, "fd/5"}, "/"}};
  EXPECT_EQ(Absolute("nvidia0"), "/dev/nvidia0");
  EXPECT_EQ(Absolute("../proc/devices"), "/proc/devices");
  EXPECT_EQ(Absolute("sys/bus", 5), "/sys/bus");
  EXPECT_EQ(Absolute("/sys/bus", 5), "/sys/bus");
  EXPECT_EQ(Absolute("sys/bus", 6), "");  // no such descriptor, or a pipe's
}

TEST_F(PathResolverTest, AnEmptyPathIsWhereItStarts) {
  links_.links = {{{7, "cwd"}, "/dev"}};
  EXPECT_EQ(Absolute(""), "/dev");
}

TEST_F(PathResolverTest, LinksOfProcAreGoneThrough) {
  links_.links = {{{7, "cwd"}, "/dev"}, {{9, "cwd"}, "/sys"}, {{7, "fd/3"}, "/proc"}};
  EXPECT_EQ(Absolute("/proc/self/root/dev/nvidia0"), "/dev/nvidia0");
  EXPECT_EQ(Absolute("/proc/thread-self/root/dev/nvidia0"), "/dev/nvidia0");
  EXPECT_EQ(Absolute("/proc/7/root/dev/nvidia0"), "/dev/nvidia0");
  EXPECT_EQ(Absolute("/proc/7/task/8/root/dev/nvidia0"), "/dev/nvidia0");
  EXPECT_EQ(Absolute("/proc/self/cwd/nvidia0"), "/dev/nvidia0");
  EXPECT_EQ(Absolute("/proc/9/cwd/bus"), "/sys/bus");
  EXPECT_EQ(Absolute("/proc/self/fd/3/devices"), "/proc/devices");
  EXPECT_EQ(Absolute("/proc/self/root/proc/self/root/dev/nvidia0"), "/dev/nvidia0");
  EXPECT_EQ(Absolute("/proc/self/fd/3/self/cwd/nvidia0"), "/dev/nvidia0");
  EXPECT_EQ(Absolute("/proc/self/root"), "/");
}

TEST_F(PathResolverTest, WhatIsNoLinkOfProcIsLeftAlone) {
  EXPECT_EQ(Absolute("/proc/self/maps"), "/proc/self/maps");
  EXPECT_EQ(Absolute("/proc/self/fd/3"), "/proc/self/fd/3");  // the link itself
  EXPECT_EQ(Absolute("/proc/self/task/9"), "/proc/self/task/9");
  EXPECT_EQ(Absolute("/proc/self/fd"), "/proc/self/fd");
  EXPECT_EQ(Absolute("/proc/net/root/x"), "/proc/net/root/x");
  EXPECT_EQ(Absolute("/proc/-1/root/x"), "/proc/-1/root/x");
  EXPECT_EQ(Absolute("/proc/self/cwd/nvidia0"), "/proc/self/cwd/nvidia0");  // nowhere
}

TEST_F(PathResolverTest, ACircleOfLinksEnds) {
  links_.links = {{{7, "cwd"}, "/proc/self/cwd"}};
  EXPECT_EQ(Absolute("/proc/self/cwd/x"), "");
}

TEST(PathResolverTextTest, NearlyNothingMatters) {
  EXPECT_TRUE(PathResolver::MayMatter("/dev/nvidia0"));
  EXPECT_TRUE(PathResolver::MayMatter("/tmp/../proc/devices"));
  EXPECT_TRUE(PathResolver::MayMatter("anything"));  // relative: who knows
  EXPECT_TRUE(PathResolver::MayMatter("/usr/lib/libnccl.so.2"));
  EXPECT_FALSE(PathResolver::MayMatter("/usr/lib/python3/os.py"));
  EXPECT_FALSE(PathResolver::MayMatter(""));
}

TEST(ProcessLinksTest, ReadsThisProcesss) {
  const ProcessLinks links;
  char directory[4096];
  ASSERT_NE(getcwd(directory, sizeof directory), nullptr);
  EXPECT_EQ(links.Read(getpid(), "cwd"), directory);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_EQ(links.Read(getpid(), "fd/" + std::to_string(ends[0])), "");
  EXPECT_EQ(links.Read(getpid(), "fd/9999"), "");
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace phantora
