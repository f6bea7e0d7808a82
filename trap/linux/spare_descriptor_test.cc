#include "trap/linux/spare_descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <vector>

#include "trap/linux/proc.h"

namespace phantora {
namespace {

// No descriptors are left while it lives.
class Exhausted {
 public:
  Exhausted() {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit few = before_;
    few.rlim_cur = 64;
    setrlimit(RLIMIT_NOFILE, &few);
    for (;;) {
      UniqueFd file(open("/", O_PATH | O_CLOEXEC));
      if (!file.valid()) break;
      taken_.push_back(std::move(file));
    }
    EXPECT_EQ(errno, EMFILE);
  }
  ~Exhausted() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
  std::vector<UniqueFd> taken_;
};

TEST(SpareDescriptorTest, OpensWhenThereAreNoOthersAgainAndAgain) {
  SpareDescriptor spare;
  const Exhausted none;
  for (int i = 0; i < 3; ++i) {
    int times = 0;
    spare.Open("/proc/self/stat", O_RDONLY, [&](UniqueFd file) {
      ++times;
      EXPECT_TRUE(file.valid());
    });
    EXPECT_EQ(times, 1);
  }
}

TEST(SpareDescriptorTest, SaysWhyAFileCannotBeHad) {
  SpareDescriptor spare;
  int error = 0;
  const auto use = [&](UniqueFd file) { error = file.valid() ? 0 : errno; };
  spare.Open("/proc/none", O_RDONLY, use);
  EXPECT_EQ(error, ENOENT);
  const Exhausted none;
  spare.Open("/proc/none", O_RDONLY, use);
  EXPECT_EQ(error, ENOENT);
}

TEST(SpareDescriptorTest, WhatProcTellsIsToldWithoutDescriptorsLeft) {
  const Proc& proc = Proc::Host();
  const pid_t self = getpid();
  const Exhausted none;
  char text[512];
  EXPECT_TRUE(proc.Read(self, "stat", text));
  EXPECT_FALSE(proc.Text(self, "status").empty());
  EXPECT_EQ(proc.Threads(self), std::vector<pid_t>{self});
  EXPECT_FALSE(proc.Processes().empty());
}

}  // namespace
}  // namespace phantora
