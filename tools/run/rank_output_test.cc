#include "tools/run/rank_output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

namespace phantora {
namespace {

// What is written to a descriptor of this process meanwhile.
class Captured {
 public:
  explicit Captured(int file) : file_(file), kept_(dup(file)), memory_(memfd_create("output", 0)) {
    dup2(memory_.get(), file_);
  }
  ~Captured() { dup2(kept_.get(), file_); }

  std::string text() const {
    std::string text(static_cast<size_t>(lseek(memory_.get(), 0, SEEK_CUR)), '\0');
    EXPECT_EQ(pread(memory_.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    return text;
  }

 private:
  const int file_;
  const UniqueFd kept_, memory_;
};

class RankOutputTest : public testing::Test {
 protected:
  void Create(const std::string& where, const std::vector<std::string>& labels) {
    auto output = RankOutput::Create(where, labels);
    ASSERT_TRUE(output.ok()) << output.status();
    output_ = *std::move(output);
    for (size_t rank = 0; rank < labels.size(); ++rank) {
      const auto [out, err] = output_->DescriptorsOf(static_cast<int>(rank));
      out_.emplace_back(dup(out));
      err_.emplace_back(dup(err));
    }
    output_->Start();
  }
  static void Write(const UniqueFd& file, const std::string& text) {
    ASSERT_EQ(write(file.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  // Each piece is read before the next is written.
  void WritePieces(const std::vector<std::string>& pieces) {
    for (const std::string& piece : pieces) {
      Write(out_[0], piece);
      output_->Flush();
    }
  }
  static std::string Contents(const std::string& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  const Captured stdout_{STDOUT_FILENO}, stderr_{STDERR_FILENO};
  std::vector<UniqueFd> out_, err_;
  std::unique_ptr<RankOutput> output_;
};

TEST_F(RankOutputTest, LinesGetTheirRank) {
  Create("prefix", {"rank 0", "host 1"});
  Write(out_[0], "one\ntwo\n");
  output_->Flush();
  Write(out_[1], "three\n\nfour\n");
  Write(err_[0], "five\n");
  output_->Flush();
  EXPECT_EQ(stdout_.text(),
            "[rank 0] one\n[rank 0] two\n[host 1] three\n[host 1] \n[host 1] four\n");
  EXPECT_EQ(stderr_.text(), "[rank 0] five\n");
}

TEST_F(RankOutputTest, PartsOfALineWaitForItsEnd) {
  Create("prefix", {"rank 0", "rank 1"});
  WritePieces({"be", "gin"});
  Write(out_[1], "other\n");
  output_->Flush();
  EXPECT_EQ(stdout_.text(), "[rank 1] other\n");
  WritePieces({"ning\nnext"});
  EXPECT_EQ(stdout_.text(), "[rank 1] other\n[rank 0] beginning\n");
  output_->Stop();
  EXPECT_EQ(stdout_.text(), "[rank 1] other\n[rank 0] beginning\n[rank 0] next\n");
  output_->Stop();
  output_.reset();
  EXPECT_EQ(stdout_.text(), "[rank 1] other\n[rank 0] beginning\n[rank 0] next\n");
}

TEST_F(RankOutputTest, TheLastLineOfARankThatEndsIsWritten) {
  Create("prefix", {"rank 0"});
  WritePieces({"last words"});
  out_[0].reset();
  output_->Flush();
  EXPECT_EQ(stdout_.text(), "[rank 0] last words\n");
  output_->Flush();
  output_->Stop();
  EXPECT_EQ(stdout_.text(), "[rank 0] last words\n");
}

TEST_F(RankOutputTest, CarriageReturnsEndLines) {
  Create("prefix", {"rank 0"});
  WritePieces({"10%\r20%\r", "30%\rdone\n"});
  EXPECT_EQ(stdout_.text(), "[rank 0] 10%\n[rank 0] 20%\n[rank 0] 30%\n[rank 0] done\n");
}

TEST_F(RankOutputTest, CarriageReturnsMayBeginLines) {
  Create("prefix", {"rank 0"});
  WritePieces({"\r10%", "\r20%", "\r\r30%\n", "text\n"});
  EXPECT_EQ(stdout_.text(), "[rank 0] 10%\n[rank 0] 20%\n[rank 0] 30%\n[rank 0] text\n");
}

TEST_F(RankOutputTest, ACarriageReturnAndANewlineAreOneEnd) {
  for (const std::vector<std::string>& pieces :
       {std::vector<std::string>{"one\r\ntwo\r\n"}, {"one\r", "\ntwo", "\r", "\n"}}) {
    Create("prefix", {"rank 0"});
    const std::string before = stdout_.text();
    WritePieces(pieces);
    EXPECT_EQ(stdout_.text().substr(before.size()), "[rank 0] one\n[rank 0] two\n");
    out_.clear(), err_.clear();
  }
}

TEST_F(RankOutputTest, EmptyLinesStay) {
  Create("prefix", {"rank 0"});
  WritePieces({"\n", "\n\na\n\n"});
  EXPECT_EQ(stdout_.text(), "[rank 0] \n[rank 0] \n[rank 0] \n[rank 0] a\n[rank 0] \n");
}

TEST_F(RankOutputTest, BytesOfAnyKindStay) {
  Create("prefix", {"rank 0"});
  const std::string bytes("\0\x1b[31m\xff\xc3", 8);
  WritePieces({bytes + "\n"});
  EXPECT_EQ(stdout_.text(), "[rank 0] " + bytes + "\n");
}

TEST_F(RankOutputTest, EndlessLinesAreWrittenInParts) {
  Create("prefix", {"rank 0"});
  for (int i = 0; i < 100; ++i) WritePieces({std::string(4096, 'x')});
  output_->Stop();
  std::istringstream lines(stdout_.text());
  std::string line;
  size_t total = 0, longest = 0;
  while (std::getline(lines, line)) {
    EXPECT_EQ(line.substr(0, 9), "[rank 0] ");
    total += line.size() - 9;
    longest = std::max(longest, line.size());
  }
  EXPECT_EQ(total, 100u * 4096);
  EXPECT_LT(longest, size_t{100000});
}

// By itself, on a thread of its own.
TEST_F(RankOutputTest, WhatIsWrittenComesWithoutFlush) {
  Create("prefix", {"rank 0"});
  Write(out_[0], "hello\n");
  for (int i = 0; i < 1000 && stdout_.text().empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  output_->Stop();
  EXPECT_EQ(stdout_.text(), "[rank 0] hello\n");
}

// Nobody waits for one that writes without end.
TEST_F(RankOutputTest, OneThatWritesWithoutEndDoesNotKeepTheOthers) {
  Create("prefix", {"rank 0", "rank 1"});
  std::atomic<bool> over = false;
  std::thread endless([&] {
    const std::string lines(1 << 14, '\n');
    fcntl(out_[0].get(), F_SETFL, O_NONBLOCK);
    while (!over) {
      if (write(out_[0].get(), lines.data(), lines.size()) < 0) std::this_thread::yield();
    }
  });
  Write(out_[1], "other\n");
  output_->Flush();
  EXPECT_NE(stdout_.text().find("[rank 1] other\n"), std::string::npos);
  output_->Stop();
  over = true;
  endless.join();
}

TEST_F(RankOutputTest, ManyRanks) {
  std::vector<std::string> labels;
  for (int rank = 0; rank < 64; ++rank) labels.push_back("rank " + std::to_string(rank));
  Create("prefix", labels);
  std::vector<std::thread> ranks;
  for (const UniqueFd& file : out_) {
    ranks.emplace_back([&file] {
      for (int i = 0; i < 100; ++i) Write(file, "a line\n");
    });
  }
  for (std::thread& rank : ranks) rank.join();
  output_->Stop();
  const std::string text = stdout_.text();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 6400);
}

TEST_F(RankOutputTest, MergedOutputIsTheRanksOwn) {
  auto output = RankOutput::Create("merged", {"rank 0", "rank 1"});
  ASSERT_TRUE(output.ok());
  EXPECT_EQ((*output)->DescriptorsOf(1), std::pair(-1, -1));
  (*output)->Start();
  (*output)->Flush();
  (*output)->Stop();
}

TEST_F(RankOutputTest, ADirectoryGetsTwoFilesOfEachRank) {
  const std::string where = testing::TempDir() + "/rank_output";
  for (int run = 0; run < 2; ++run) {  // the second finds it
    Create(where, {"rank 0", "rank 1"});
    Write(out_[0], "one");
    Write(out_[1], run == 0 ? "a long line\r\n" : "two\n");
    Write(err_[1], "three\n");
    output_->Flush();
    output_->Stop();
    out_.clear(), err_.clear();
  }
  EXPECT_EQ(Contents(where + "/rank-0.out"), "one");
  EXPECT_EQ(Contents(where + "/rank-0.err"), "");
  EXPECT_EQ(Contents(where + "/rank-1.out"), "two\n");
  EXPECT_EQ(Contents(where + "/rank-1.err"), "three\n");
  EXPECT_EQ(stdout_.text(), "");
}

TEST_F(RankOutputTest, DirectoriesThatCannotBe) {
  auto output = RankOutput::Create("/dev/null/a/b", {"rank 0"});
  EXPECT_EQ(output.status().message(), "--output /dev/null/a/b: Not a directory");
  output = RankOutput::Create("/dev/null", {"rank 0"});
  EXPECT_FALSE(output.ok());
}

TEST_F(RankOutputTest, DirectoriesAboveAreMade) {
  const std::string directory =
      testing::TempDir() + "/rank_output_above/" + std::to_string(getpid());
  EXPECT_TRUE(RankOutput::Create(directory + "/a", {"rank 0"}).ok());
  EXPECT_EQ(access((directory + "/a/rank-0.out").c_str(), F_OK), 0);
}

TEST_F(RankOutputTest, RanksDoNotInheritTheDescriptors) {
  auto output = RankOutput::Create("prefix", {"rank 0"});
  ASSERT_TRUE(output.ok());
  const auto [out, err] = (*output)->DescriptorsOf(0);
  EXPECT_EQ(fcntl(out, F_GETFD), FD_CLOEXEC);
  EXPECT_EQ(fcntl(err, F_GETFD), FD_CLOEXEC);
  EXPECT_EQ(fcntl(out, F_GETFL) & O_NONBLOCK, 0);  // programs do not expect it
}

}  // namespace
}  // namespace phantora
