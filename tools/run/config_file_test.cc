#include "tools/run/config_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tools/run/run_options.h"

namespace phantora {
namespace {

namespace fs = std::filesystem;

// In a folder of its own.
class ConfigFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) /
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    before_ = fs::current_path();
    fs::current_path(folder_);
  }
  void TearDown() override { fs::current_path(before_); }

  static void Write(const std::string& text, const std::string& file = kConfigFile) {
    std::ofstream(file) << text;
  }

  static RunRequest Parsed(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--", "true"});
    return ParseRunOptions(arguments);
  }

  // Of `text` in phantora.toml.
  static void ExpectWrong(const std::string& text, const std::string& said) {
    Write(text);
    const RunRequest request = Parsed({});
    EXPECT_EQ(request.exit_status, kCannotSetUp) << text;
    EXPECT_TRUE(absl::StrContains(request.errors, said)) << text << ": " << request.errors;
  }

  fs::path folder_, before_;
};

TEST_F(ConfigFileTest, ValuesAreWordsOfACommandLine) {
  Write(
      "gpus = 2\nhost-scale = 0.1\nverbose = true\nrank-env = ['torch', 'slurm']\n"
      "[env]\nA = 'x y'\nB = 3\n");
  const auto items = ReadConfigFile(kConfigFile);
  ASSERT_TRUE(items.ok()) << items.status().message();
  EXPECT_EQ(*items, (std::vector<ConfigItem>{{"gpus", "2", 1},
                                             {"host-scale", "0.1", 2},
                                             {"verbose", "true", 3},
                                             {"rank-env", "torch,slurm", 4},
                                             {"env", "A=x y", 6},
                                             {"env", "B=3", 7}}));
}

TEST_F(ConfigFileTest, TheFileOfThisFolderIsRead) {
  Write("gpus = 4\nverbose = true\nno-status = false\n[env]\nA = 1\n");
  const RunRequest request = Parsed({"--env", "B=2"});
  EXPECT_EQ(request.action, RunAction::kSession) << request.errors;
  EXPECT_EQ(request.options.gpus, 4);
  EXPECT_TRUE(request.options.verbose);
  EXPECT_TRUE(request.options.status);
  EXPECT_EQ(request.options.environment, (std::vector<std::string>{"A=1", "B=2"}));
  EXPECT_EQ(request.options.configured, "from phantora.toml: --gpus=4 --verbose --env=A=1");
  EXPECT_EQ(Parsed({"--no-config"}).options.gpus, 1);
  // What runs no command needs no options.
  EXPECT_EQ(ParseRunOptions({"doctor"}).action, RunAction::kDoctor);
  EXPECT_EQ(ParseRunOptions({"gpus"}).exit_status, 0);
}

TEST_F(ConfigFileTest, TheCommandLineGoesBefore) {
  Write("cluster = 'dgx-h100:4'\nranks-per-host = 2\nhost-time = 'fixed'\n");
  EXPECT_EQ(Parsed({}).options.job.cluster, "dgx-h100:4");
  EXPECT_EQ(Parsed({"--cluster", "dgx-h100"}).options.job.cluster, "dgx-h100");
  EXPECT_EQ(Parsed({"--cluster", "dgx-h100"}).options.job.ranks_per_host, 2);
  // It excludes a cluster, and what needs one.
  const RunRequest machine = Parsed({"--gpus", "2", "--host-time", "zero"});
  EXPECT_EQ(machine.action, RunAction::kSession) << machine.errors;
  EXPECT_EQ(machine.options.job.cluster, "");
  EXPECT_EQ(machine.options.host_time.mode, HostTimeMode::kZero);
  EXPECT_EQ(machine.options.configured, "");
}

TEST_F(ConfigFileTest, AnotherFileIsRead) {
  Write("gpus = 4\n");
  Write("gpus = 8\n", "other.toml");
  EXPECT_EQ(Parsed({"--config", "other.toml"}).options.gpus, 8);
  const RunRequest missing = Parsed({"--config", "none.toml"});
  EXPECT_EQ(missing.exit_status, kCannotSetUp);
  EXPECT_TRUE(absl::StrContains(missing.errors, "cannot read none.toml")) << missing.errors;
  EXPECT_TRUE(absl::StrContains(Parsed({"--config", "/dev/zero"}).errors, "too long"));
  EXPECT_TRUE(absl::StrContains(Parsed({"--config", "."}).errors, "cannot read ."));
}

TEST_F(ConfigFileTest, WhatIsWrongIsToldWithItsLine) {
  ExpectWrong("gpus = 2\ngpuz = 3\n", "phantora.toml:2: there is no option 'gpuz'");
  ExpectWrong("\ngpus = 99\n", "phantora.toml:2: --gpus");
  ExpectWrong("gpus = 'many'\n", "phantora.toml:1: ");
  ExpectWrong("host-time = 'Fixed'\n", "is none of measured");
  ExpectWrong("verbose = 'yes'\n", "phantora.toml:1: verbose is true or false");
  ExpectWrong("gpus = \n", "phantora.toml:1: ");
  ExpectWrong("gpus = 1\ngpus = 2\n", "phantora.toml:2: ");
  ExpectWrong("[machine]\ngpus = 2\n", "phantora.toml:1: there is a table [env] only");
  ExpectWrong("rank-env = [['torch']]\n", "is a list of words or numbers");
  ExpectWrong("trace = 2020-01-01\n", "is a word, a number, true or false");
  ExpectWrong("[env]\nA = [1]\n", "phantora.toml:2: a variable of [env]");
  ExpectWrong("[env]\n'A B' = 1\n", "is no NAME=VALUE");
  for (const char* name : {"config", "no-config", "compare", "help", "version"}) {
    ExpectWrong(absl::StrCat(name, " = 'x'\n"), "is for the command line alone");
  }
}

TEST_F(ConfigFileTest, AFileOfOthersIsNotReadUnasked) {
  Write("gpus = 4\n");
  ASSERT_EQ(chmod(kConfigFile, 0666), 0);
  const RunRequest request = Parsed({});
  EXPECT_EQ(request.options.gpus, 1);
  EXPECT_TRUE(absl::StrContains(request.options.configured, "is not read: everybody can write"));
  EXPECT_EQ(Parsed({"--config", kConfigFile}).options.gpus, 4);
  ASSERT_EQ(chmod(kConfigFile, 0644), 0);
  // Only root may give it away, and only where there are other users.
  if (chown(kConfigFile, 65534, 65534) != 0) return;
  EXPECT_TRUE(absl::StrContains(Parsed({}).options.configured, "belongs to another user"));
}

}  // namespace
}  // namespace phantora
