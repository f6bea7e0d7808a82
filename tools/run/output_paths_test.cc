#include "tools/run/output_paths.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace phantora {
namespace {

class OutputPathsTest : public testing::Test {
 protected:
  OutputPathsTest() {
    std::filesystem::create_directories(In("directory"));
    std::ofstream(In("file")) << "old";
    std::filesystem::create_directories(In("closed"));
    chmod(In("closed").c_str(), 0500);
  }
  ~OutputPathsTest() override {
    chmod(In("closed").c_str(), 0700);
    std::filesystem::remove_all(root_);
  }
  std::string In(const std::string& name) const { return root_ + "/" + name; }
  static bool File(const std::string& path) { return OutputPaths().File(path).ok(); }
  static bool Directory(const std::string& path) { return OutputPaths().Directory(path).ok(); }

  const std::string root_ = testing::TempDir() + "/output_paths_" + std::to_string(getpid());
};

TEST_F(OutputPathsTest, FilesAreMadeInDirectoriesThatAreThere) {
  EXPECT_TRUE(File(""));
  EXPECT_TRUE(File(In("file")));
  EXPECT_TRUE(File(In("directory/new")));
  EXPECT_TRUE(File("/dev/null"));
  EXPECT_FALSE(File(In("directory")));
  EXPECT_FALSE(File(In("file/new")));
  EXPECT_FALSE(File(In("missing/new")));
  EXPECT_EQ(OutputPaths().File(In("directory")).message(),
            "cannot write " + In("directory") + ": Is a directory");
}

TEST_F(OutputPathsTest, DirectoriesAreMadeWithAllAboveThem) {
  EXPECT_TRUE(Directory(""));
  EXPECT_TRUE(Directory(In("directory")));
  EXPECT_TRUE(Directory(In("directory/a/b/c")));
  EXPECT_TRUE(Directory(In("a/b")));
  EXPECT_FALSE(Directory(In("file")));
  EXPECT_FALSE(Directory(In("file/a")));
}

TEST_F(OutputPathsTest, RightsAreAsked) {
  if (geteuid() == 0) GTEST_SKIP() << "to root nothing is forbidden";
  EXPECT_FALSE(File(In("closed/new")));
  EXPECT_FALSE(Directory(In("closed/new")));
}

TEST_F(OutputPathsTest, RelativeNamesAreOfTheWorkingDirectory) {
  std::filesystem::current_path(In("directory"));
  EXPECT_TRUE(File("new"));
  EXPECT_TRUE(Directory("new/more"));
  EXPECT_FALSE(File("new/more"));
  std::filesystem::current_path("/");
}

TEST_F(OutputPathsTest, LinksLeadToWhatIsMade) {
  std::filesystem::create_symlink("directory/new", In("to_new"));
  std::filesystem::create_symlink("missing/new", In("to_nowhere"));
  std::filesystem::create_symlink("to_nowhere", In("to_link"));
  std::filesystem::create_symlink("round", In("round"));
  EXPECT_TRUE(File(In("to_new")));
  EXPECT_FALSE(File(In("to_nowhere")));
  EXPECT_FALSE(File(In("to_link")));
  EXPECT_FALSE(File(In("round")));
  EXPECT_FALSE(Directory(In("to_new")));
  EXPECT_FALSE(Directory(In("to_new/more")));
}

TEST_F(OutputPathsTest, WhatWasMadeBeforeIsThere) {
  OutputPaths paths;
  EXPECT_FALSE(paths.File(In("a/b/file")).ok());
  EXPECT_TRUE(paths.Directory(In("a/b/")).ok());
  EXPECT_TRUE(paths.File(In("a/b/file")).ok());
  EXPECT_TRUE(paths.File(In("a/file")).ok());
  EXPECT_FALSE(paths.File(In("a/b")).ok()) << "it is a directory by then";
  EXPECT_FALSE(paths.File(In("a/c/file")).ok());
  EXPECT_EQ(OutputPaths().File(In("new/")).message(),
            "cannot write " + In("new/") + ": Is a directory");
}

TEST_F(OutputPathsTest, NothingIsMadeOrEmptied) {
  File(In("directory/new"));
  Directory(In("directory/a/b"));
  File(In("file"));
  EXPECT_TRUE(std::filesystem::is_empty(In("directory")));
  EXPECT_EQ(std::filesystem::file_size(In("file")), 3u);
}

}  // namespace
}  // namespace phantora
