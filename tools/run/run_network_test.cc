#include "tools/run/run_network.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace phantora {
namespace {

TEST(RunNetworkTest, RunsAtOneTimeHaveDifferentOnes) {
  std::vector<RunNetwork> runs;
  std::set<int> numbers;
  for (int i = 0; i < 20; ++i) {
    auto network = RunNetwork::Take();
    ASSERT_TRUE(network.ok()) << network.status();
    EXPECT_TRUE(numbers.insert(network->number()).second) << network->number();
    runs.push_back(*std::move(network));
  }
}

TEST(RunNetworkTest, AnotherProcesssIsRespected) {
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  const auto ours = RunNetwork::Take();
  ASSERT_TRUE(ours.ok());
  const pid_t child = fork();
  if (child == 0) {
    const auto theirs = RunNetwork::Take();
    const int number = theirs.ok() ? theirs->number() : -1;
    _exit(write(pipes[1], &number, sizeof number) == sizeof number ? 0 : 1);
  }
  int number = 0;
  ASSERT_EQ(read(pipes[0], &number, sizeof number), static_cast<ssize_t>(sizeof number));
  EXPECT_NE(number, -1);
  EXPECT_NE(number, ours->number());
  waitpid(child, nullptr, 0);
  close(pipes[0]);
  close(pipes[1]);
}

TEST(RunNetworkTest, WhatARunHadIsFreeAfterIt) {
  int first = 0;
  {
    auto network = RunNetwork::Take();
    ASSERT_TRUE(network.ok());
    first = network->number();
  }
  const auto again = RunNetwork::Take();
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->number(), first);
}

TEST(RunNetworkTest, WhenAllAreTakenThatIsSaid) {
  std::vector<RunNetwork> runs;
  for (int i = 0; i < 200; ++i) {
    auto network = RunNetwork::Take();
    if (!network.ok()) {
      EXPECT_TRUE(absl::IsResourceExhausted(network.status()));
      EXPECT_NE(std::string(network.status().message()).find("127.100.0.0/16"), std::string::npos);
      return;
    }
    runs.push_back(*std::move(network));
  }
  FAIL() << "there are not so many";
}

}  // namespace
}  // namespace phantora
