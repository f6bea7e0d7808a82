#include "trap/launch/rank_starter.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "trap/linux/unique_fd.h"

namespace phantora {
namespace {

struct Pipe {
  Pipe() {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    reader = UniqueFd(ends[0]);
    writer = UniqueFd(ends[1]);
  }
  // What is written until all writers have ended.
  std::string All() {
    writer.reset();
    std::string text;
    char part[256];
    for (ssize_t size = 0; (size = read(reader.get(), part, sizeof part)) > 0;) {
      text.append(part, static_cast<size_t>(size));
    }
    return text;
  }
  UniqueFd reader, writer;
};

// Runs in a process of its own, since it forks, waits for all children, and handles signals.
class RankStarterTest : public testing::Test {
 protected:
  // `script` for the shell, by as many ranks as there are environments.
  void Start(const std::string& script, std::vector<RankCommand> ranks) {
    starter_ = fork();
    if (starter_ != 0) return;
    std::string copy = script;
    char shell[] = "sh", option[] = "-c";
    char* const argv[] = {shell, option, copy.data(), nullptr};
    _exit(RunRanks(argv, ranks));
  }
  // A Python program, by copies of a process that has imported `modules`.
  void StartPreloaded(const std::string& program, const std::string& modules,
                      std::vector<RankCommand> ranks, const std::string& kind = "code") {
    const Preload preload = {.command = {.interpreter = {"/usr/bin/python3", "-u"},
                                         .kind = kind,
                                         .program = program,
                                         .arguments = {"one", "two"}},
                             .modules = modules};
    starter_ = fork();
    if (starter_ == 0) _exit(RunRanks(nullptr, ranks, preload));
  }
  int ExitStatus() {
    int status = 0;
    EXPECT_EQ(waitpid(starter_, &status, 0), starter_);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::vector<RankCommand> Ranks(int count) {
    std::vector<RankCommand> ranks(static_cast<size_t>(count));
    for (int rank = 0; rank < count; ++rank) {
      ranks[static_cast<size_t>(rank)] = {.environment = {{"RANK", std::to_string(rank)}},
                                          .output = output_.writer.get(),
                                          .errors = errors_.writer.get()};
    }
    return ranks;
  }

  Pipe output_, errors_;
  pid_t starter_ = -1;
};

TEST_F(RankStarterTest, RanksHaveTheirEnvironmentsAndOutputs) {
  Start("echo $RANK; echo e$RANK >&2", Ranks(3));
  std::string out = output_.All(), err = errors_.All();
  EXPECT_EQ(out.size(), 6u);
  EXPECT_EQ(err.size(), 9u);
  for (const char* rank : {"0\n", "1\n", "2\n"}) EXPECT_NE(out.find(rank), std::string::npos);
  EXPECT_NE(err.find("e2\n"), std::string::npos);
  EXPECT_EQ(ExitStatus(), 0);
}

TEST_F(RankStarterTest, OnlyWhoReadsInputHasIt) {
  Pipe input;
  dup2(input.reader.get(), STDIN_FILENO);
  auto ranks = Ranks(2);
  ranks[1].reads_input = true;
  ASSERT_EQ(write(input.writer.get(), "words\n", 6), 6);
  input.writer.reset();
  Start("read word; echo $RANK $word", ranks);
  const std::string out = output_.All();
  EXPECT_NE(out.find("0\n"), std::string::npos) << out;
  EXPECT_NE(out.find("1 words\n"), std::string::npos) << out;
  EXPECT_EQ(ExitStatus(), 0);
}

TEST_F(RankStarterTest, TheFirstFailureIsTheRunsAndEndsTheOthers) {
  Start("test $RANK != 1 || exit 7; exec sleep 1000", Ranks(3));
  EXPECT_EQ(ExitStatus(), 7);
  EXPECT_EQ(output_.All(), "") << "and nobody is left to write";
}

TEST_F(RankStarterTest, ASignalIsToldAsShellsDo) {
  Start("kill -SEGV $$", Ranks(1));
  EXPECT_EQ(ExitStatus(), 128 + SIGSEGV);
}

TEST_F(RankStarterTest, WhoDoesNotEndIsKilled) {
  // Not before the other is deaf.
  const std::string mark = testing::TempDir() + "/deaf_" + std::to_string(getpid());
  Start("if test $RANK = 1; then while ! test -e " + mark +
            "; do sleep 0.01; done; exit 3; fi; trap '' TERM; : > " + mark +
            "; while :; do sleep 0.1; done",
        Ranks(2));
  EXPECT_EQ(ExitStatus(), 3);
  unlink(mark.c_str());
}

TEST_F(RankStarterTest, SignalsOfTheStarterGoToAll) {
  Start("trap 'echo told; exit 5' TERM; echo ready; while :; do sleep 0.05; done", Ranks(2));
  std::string text;
  char byte;
  while (std::count(text.begin(), text.end(), '\n') < 2 &&
         read(output_.reader.get(), &byte, 1) == 1) {
    text += byte;
  }
  kill(starter_, SIGTERM);
  EXPECT_EQ(ExitStatus(), 5);
  EXPECT_EQ(output_.All(), "told\ntold\n");
}

TEST_F(RankStarterTest, CopiesOfOneProcessAreRanksLikeOthers) {
  StartPreloaded(
      "import os, sys, json\n"
      "imported = 'wsgiref.headers' in sys.modules\n"
      "os.write(1, f\"{os.environ['RANK']} {sys.argv} {__name__} {imported}\\n\".encode())\n"
      "os.write(2, f'e {os.getppid()}\\n'.encode())\n"
      "names = sorted(name for name in globals() if name[0] != '_')\n"
      "os.write(1, f'{names} {sys.stdin.read()}\\n'.encode())\n",
      "json,wsgiref.headers", Ranks(3));
  const std::string out = output_.All(), err = errors_.All();
  for (const char* rank : {"0", "1", "2"}) {
    EXPECT_NE(out.find(std::string(rank) + " ['-c', 'one', 'two'] __main__ True\n"),
              std::string::npos)
        << out << err;
  }
  EXPECT_NE(out.find("['imported', 'json', 'os', 'sys'] \n"), std::string::npos)
      << "nothing of the program that imports: " << out;
  const std::string parent = "e " + std::to_string(starter_) + "\n";
  EXPECT_EQ(err, parent + parent + parent);
  EXPECT_EQ(ExitStatus(), 0);
}

TEST_F(RankStarterTest, ACopyThatFailsEndsTheOthers) {
  StartPreloaded(
      "import os, time\n"
      "if os.environ['RANK'] == '1': raise ValueError('no')\n"
      "time.sleep(1000)\n",
      "json", Ranks(3));
  const std::string err = errors_.All();
  EXPECT_NE(
      err.find("Traceback (most recent call last):\n  File \"<string>\", line 2, in <module>\n"
               "ValueError: no\n"),
      std::string::npos)
      << err;
  EXPECT_EQ(ExitStatus(), 1);
}

TEST_F(RankStarterTest, AFileThatIsNotThereIsToldAsTheInterpreterDoes) {
  StartPreloaded("/nowhere/train.py", "json", Ranks(1), "file");
  EXPECT_EQ(errors_.All(),
            "/usr/bin/python3: can't open file '/nowhere/train.py': [Errno 2] No such file or "
            "directory\n");
  EXPECT_EQ(ExitStatus(), 2);
}

TEST_F(RankStarterTest, WhatCannotBeImportedIsTold) {
  StartPreloaded("print('never')", "json,no_such_module", Ranks(2));
  EXPECT_NE(errors_.All().find("No module named 'no_such_module'"), std::string::npos);
  EXPECT_EQ(output_.All(), "");
  EXPECT_EQ(ExitStatus(), 126);
}

TEST_F(RankStarterTest, ACommandThatIsNotThere) {
  const pid_t child = fork();
  if (child == 0) {
    dup2(errors_.writer.get(), STDERR_FILENO);
    char name[] = "/nowhere/at/all";
    char* const argv[] = {name, nullptr};
    ExecCommand(argv);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 127);
  EXPECT_NE(errors_.All().find("cannot run /nowhere/at/all"), std::string::npos);
}

TEST(RankEndTest, IsOneWord) {
  const RankEnd end = RankEnd::From(RankEnd{.rank = 7, .wait_status = 0xff00}.argument());
  EXPECT_EQ(end.rank, 7u);
  EXPECT_EQ(end.wait_status, 0xff00);
}

}  // namespace
}  // namespace phantora
