#include "trap/rm/tracee_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <vector>

namespace phantora {
namespace {

constexpr uint64_t kBytes = 128 << 10;  // more than one; enough to be read at once

// A child process with the page of the test at the same address. It does what it is told to by a
// byte: 'e' executes cat, which answers every byte, 'x' exits.
class TraceeMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    void* page = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(page, MAP_FAILED);
    page_ = static_cast<char*>(page);
    std::strcpy(page_, "of the child");
    ASSERT_EQ(pipe2(to_, O_CLOEXEC) | pipe2(from_, O_CLOEXEC), 0);
    child_ = fork();
    ASSERT_GE(child_, 0);
    if (child_ == 0) Child();
    close(to_[0]);
    close(from_[1]);
    std::strcpy(page_, "of the test");
  }
  void TearDown() override {
    close(to_[1]);
    close(from_[0]);
    if (child_ > 0) {
      kill(child_, SIGKILL);
      waitpid(child_, nullptr, 0);
    }
    munmap(page_, kBytes);
  }

  void Child() {
    char byte;
    dup2(to_[0], 0);
    dup2(from_[1], 1);
    if (read(0, &byte, 1) == 1 && byte == 'e') execlp("cat", "cat", nullptr);
    _exit(0);
  }
  void Tell(char what) { ASSERT_EQ(write(to_[1], &what, 1), 1); }
  void Die() {
    Tell('x');
    ASSERT_EQ(waitpid(child_, nullptr, 0), child_);
    child_ = -1;
  }
  // Returns once the child is the other program.
  void Exec() {
    Tell('e');
    Tell('?');
    char answer = 0;
    ASSERT_EQ(read(from_[0], &answer, 1), 1);
    ASSERT_EQ(answer, '?');
  }
  TraceeMemory Memory() {
    auto space = spaces_.Of(child_);
    EXPECT_TRUE(space.ok()) << space.status();
    return TraceeMemory(*space, RemoteAddress{reinterpret_cast<uint64_t>(page_)}, kBytes);
  }
  // In a small part and as a whole, which are read in different ways.
  static bool Readable(TraceeMemory& memory) {
    std::vector<char> bytes(kBytes);
    const bool one = memory.Read(0, bytes.data(), 1);
    EXPECT_EQ(memory.Read(0, bytes.data(), kBytes), one);
    return one;
  }

  char* page_ = nullptr;
  int to_[2], from_[2];
  pid_t child_ = -1;
  TraceeAddressSpaces spaces_;
};

TEST_F(TraceeMemoryTest, ReadsAndWritesTheProcess) {
  TraceeMemory memory = Memory();
  char text[13];
  ASSERT_TRUE(memory.Read(0, text, sizeof text));
  EXPECT_STREQ(text, "of the child");
  ASSERT_TRUE(memory.Write(3, "our", 3));
  ASSERT_TRUE(memory.Zero(6, kBytes - 6));
  ASSERT_TRUE(memory.Read(0, text, sizeof text));
  EXPECT_STREQ(text, "of our");
  EXPECT_STREQ(page_, "of the test");
}

TEST_F(TraceeMemoryTest, ItEndsWhereItEnds) {
  TraceeMemory memory = Memory();
  char byte = 0;
  EXPECT_TRUE(memory.Read(kBytes - 1, &byte, 1));
  EXPECT_FALSE(memory.Read(kBytes, &byte, 1));
  EXPECT_FALSE(memory.Write(~uint64_t{0}, &byte, 1));
  // Addresses that the process does not have.
  for (uint64_t address : {uint64_t{0}, uint64_t{1} << 63, ~uint64_t{0} - kBytes}) {
    TraceeMemory nowhere(*spaces_.Of(child_), RemoteAddress{address}, 2 * kBytes);
    EXPECT_FALSE(nowhere.Read(0, &byte, 1)) << address;
    EXPECT_FALSE(nowhere.Write(0, &byte, 1)) << address;
  }
}

TEST_F(TraceeMemoryTest, TheMemoryOfADeadProcessIsGone) {
  TraceeMemory memory = Memory();
  Die();
  char byte = 'z';
  EXPECT_FALSE(memory.Read(0, &byte, 1));
  EXPECT_FALSE(memory.Write(0, &byte, 1));
  EXPECT_FALSE(memory.Zero(0, kBytes));
}

TEST_F(TraceeMemoryTest, AnotherProcessWithTheNumberOfADeadOneIsNotTouched) {
  TraceeMemory memory = Memory();
  const pid_t number = child_;
  Die();
  // Another process with that number, and with the test's page at the address.
  clone_args args{};
  args.exit_signal = SIGCHLD;
  args.set_tid = reinterpret_cast<uint64_t>(&number);
  args.set_tid_size = 1;
  child_ = static_cast<pid_t>(syscall(SYS_clone3, &args, sizeof args));
  if (child_ == 0) {
    pause();
    _exit(0);
  }
  if (child_ < 0) GTEST_SKIP() << "numbers cannot be chosen here: " << std::strerror(errno);
  ASSERT_EQ(child_, number);
  TraceeMemory others = Memory();
  EXPECT_TRUE(Readable(others));
  char byte = 'z';
  EXPECT_FALSE(memory.Read(0, &byte, 1));
  EXPECT_FALSE(memory.Write(0, &byte, 1));
}

TEST_F(TraceeMemoryTest, TheMemoryOfAProcessThatExecutesAnotherProgramIsGone) {
  TraceeMemory before = Memory();
  Exec();
  char byte = 'z';
  EXPECT_FALSE(before.Read(0, &byte, 1));
  EXPECT_FALSE(before.Write(0, &byte, 1));
  // What it registers now is of its new address space, of which this page is no part.
  auto space = spaces_.Of(child_);
  ASSERT_TRUE(space.ok()) << space.status();
  EXPECT_FALSE((*space)->HasEnded());
}

TEST_F(TraceeMemoryTest, RegistrationsOfAProcessShareADescriptor) {
  auto first = spaces_.Of(child_), second = spaces_.Of(child_);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(*first, *second);
  TraceeMemory memory = Memory();
  spaces_.ProcessDied(child_);
  EXPECT_NE(*spaces_.Of(child_), *first) << "the number is another process's";
  EXPECT_TRUE(Readable(memory)) << "what is registered keeps its own";
}

TEST_F(TraceeMemoryTest, AProcessThatIsNotThereHasNone) {
  const pid_t child = child_;
  Die();
  EXPECT_TRUE(absl::IsNotFound(spaces_.Of(child).status())) << spaces_.Of(child).status();
}

}  // namespace
}  // namespace phantora
