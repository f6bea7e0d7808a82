#include "trap/linux/scratch_directory.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace phantora {
namespace {

class ScratchDirectoryTest : public testing::Test {
 protected:
  ScratchDirectoryTest() {
    std::filesystem::remove_all(place_);
    std::filesystem::create_directories(place_);
    setenv("TMPDIR", place_.c_str(), 1);
  }
  ~ScratchDirectoryTest() override {
    unsetenv("TMPDIR");
    std::filesystem::remove_all(place_);
  }
  const std::string place_ = testing::TempDir() + "/scratch_directory_test";
};

TEST_F(ScratchDirectoryTest, IsForItsOwnerAlone) {
  const std::string made = MakeScratchDirectory();
  struct stat status {};
  ASSERT_EQ(stat(made.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  EXPECT_NE(MakeScratchDirectory(), made);
}

TEST_F(ScratchDirectoryTest, WhatAKilledProcessLeftIsRemovedAndNothingElse) {
  const std::string own = MakeScratchDirectory();
  const pid_t child = fork();
  if (child == 0) {
    const std::string made = MakeScratchDirectory();
    std::filesystem::create_directories(made + "/deep");
    std::ofstream(made + "/deep/file") << "text";
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  const auto count = [this] {
    return std::distance(std::filesystem::directory_iterator(place_),
                         std::filesystem::directory_iterator());
  };
  EXPECT_EQ(count(), 2);
  RemoveScratchDirectoriesOf(child);
  EXPECT_EQ(count(), 1);
  EXPECT_TRUE(std::filesystem::exists(own));
}

TEST_F(ScratchDirectoryTest, WithoutAPlaceThereIsNone) {
  setenv("TMPDIR", (place_ + "/none").c_str(), 1);
  EXPECT_EQ(MakeScratchDirectory(), "");
  RemoveScratchDirectoriesOf(1);
}

}  // namespace
}  // namespace phantora
