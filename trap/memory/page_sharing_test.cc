#include "trap/memory/page_sharing.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <string>

#include "trap/linux/fake_listener.h"
#include "trap/linux/fake_proc.h"
#include "trap/linux/fake_real_clock.h"

namespace phantora {
namespace {

constexpr uint64_t kPages = 512, kBytes = kPages * kPageBytes;
constexpr int64_t kSecond = 1'000'000'000;

bool NoneHeld(pid_t) { return false; }

// Children have the descriptors of this process.
class InheritedListener : public FakeListener {
 public:
  absl::StatusOr<int> AddDescriptor(uint64_t, int file) override { return dup(file); }
};

// What lies behind a child's memory.
enum class Behind {
  kNothing,
  kFile,           // what the child does not write to is the file's
  kProtectedFile,  // and it protects all when it has written
};

// A child with memory whose pages are zeros or say what they are.
class Child {
 public:
  // With `mixed`, pages of each kind lie between each other, not in runs.
  explicit Child(char mark, bool mixed = false, Behind behind = Behind::kNothing)
      : mixed_(mixed), behind_(behind) {
    EXPECT_EQ(pipe(orders_), 0);
    EXPECT_EQ(pipe(answers_), 0);
    const int file = behind == Behind::kNothing ? -1 : NewFile();
    memory_ = static_cast<char*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | (file < 0 ? MAP_ANONYMOUS : 0), file, 0));
    if (file >= 0) close(file);
    pid_ = static_cast<pid_t>(syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0));
    if (pid_ != 0) {
      Await();
      return;
    }
    Run(mark);
  }
  ~Child() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    munmap(memory_, kBytes);
    for (const int file : {orders_[0], orders_[1], answers_[0], answers_[1]}) close(file);
  }

  pid_t pid() const { return pid_; }
  uint64_t memory() const { return reinterpret_cast<uint64_t>(memory_); }
  // Is everything as it was written? 'c': what is there; 'w': after writing to all pages, 'r': to
  // some, 'n': what is the same in others is another now, '0': zeros.
  bool Ask(char order) {
    EXPECT_EQ(write(orders_[1], &order, 1), 1);
    return Await();
  }
  // KiB that are the child's own (smaps), of this memory.
  uint64_t Private() const { return Field("Private_Dirty:"); }
  std::string Mapping() const {
    std::ifstream maps("/proc/" + std::to_string(pid_) + "/maps");
    for (std::string line; std::getline(maps, line);) {
      if (std::stoull(line, nullptr, 16) == memory()) return line;
    }
    return "";
  }
  // Of this memory.
  int Mappings() const {
    std::ifstream maps("/proc/" + std::to_string(pid_) + "/maps");
    int count = 0;
    for (std::string line; std::getline(maps, line);) {
      const uint64_t begin = std::stoull(line, nullptr, 16);
      count += begin >= memory() && begin < memory() + kBytes ? 1 : 0;
    }
    return count;
  }

 private:
  static constexpr char kOfFile = '#';
  static constexpr uint64_t kPagesOfFile = 64;  // not written to, the last ones

  static int NewFile() {
    const int file = memfd_create("a library", MFD_CLOEXEC);
    const std::string bytes(kBytes, kOfFile);
    EXPECT_EQ(write(file, bytes.data(), kBytes), static_cast<ssize_t>(kBytes));
    return file;
  }

  // A third of the pages are zeros, a third the same in all children, a third are not.
  char MarkOf(uint64_t page, char mark) const {
    if (mixed_) page *= 32;
    return static_cast<char>(page % 96 < 32 ? 0 : page % 96 < 64 ? 'A' : mark);
  }
  void Set(uint64_t page, char mark) {
    char* at = memory_ + page * kPageBytes;
    memset(at, 1, 1);  // zeros that have a page
    memset(at, mark, kPageBytes);
    if (mark != 0) memcpy(at + 8, &page, sizeof page);
    marks_[page] = mark;
  }
  // What is the same in all children is another at each turn.
  void Fill(char mark, int turn = 0) {
    for (uint64_t page = 0; page < kPages; ++page) {
      if (behind_ != Behind::kNothing && page >= kPages - kPagesOfFile) {
        marks_[page] = kOfFile;
        continue;
      }
      const char is = MarkOf(page, mark);
      Set(page, is == 'A' ? static_cast<char>('A' + turn) : is);
    }
  }
  // A few pages become zeros, or what they may become in others, or what no other has.
  void WriteAtRandom(char mark) {
    for (int i = 0; i < 100; ++i) {
      const char kinds[] = {0, 'A', 'B', mark};
      Set(random_() % kPages, kinds[random_() % 4]);
    }
  }
  bool Check() const {
    for (uint64_t page = 0; page < kPages; ++page) {
      const char* at = memory_ + page * kPageBytes;
      for (uint64_t i = 0; i < kPageBytes; ++i) {
        if (marks_[page] != 0 && marks_[page] != kOfFile && i >= 8 && i < 16) continue;
        if (at[i] != marks_[page]) return false;
      }
      if (marks_[page] != 0 && marks_[page] != kOfFile && memcmp(at + 8, &page, sizeof page) != 0)
        return false;
    }
    return true;
  }
  [[noreturn]] void Run(char mark) {
    Fill(mark);
    if (behind_ == Behind::kProtectedFile) mprotect(memory_, kBytes, PROT_READ);
    random_.seed(static_cast<unsigned>(mark));
    char answer = 'y', order = 0;
    int turn = 0;
    while (write(answers_[1], &answer, 1) == 1 && read(orders_[0], &order, 1) == 1) {
      if (order == 'w') Fill(mark = 'z');
      if (order == 'n') Fill(mark, ++turn);
      if (order == 'r') WriteAtRandom(mark);
      if (order == '0') Fill(mark, -'A');
      answer = Check() ? 'y' : 'n';
    }
    _exit(0);
  }
  bool Await() {
    char answer = 0;
    return read(answers_[0], &answer, 1) == 1 && answer == 'y';
  }
  uint64_t Field(const std::string& name) const {
    std::ifstream smaps("/proc/" + std::to_string(pid_) + "/smaps");
    uint64_t kib = 0;
    bool here = false;
    for (std::string line; std::getline(smaps, line);) {
      if (line.find('-') < line.find(' ')) {
        const uint64_t begin = std::stoull(line, nullptr, 16);
        here = begin >= memory() && begin < memory() + kBytes;
      } else if (here && line.rfind(name, 0) == 0) {
        kib += std::stoull(line.substr(name.size()));
      }
    }
    return kib;
  }

  const bool mixed_;
  const Behind behind_;
  // Of the child.
  char marks_[kPages] = {};
  std::mt19937 random_;

  char* memory_ = nullptr;
  pid_t pid_ = 0;
  int orders_[2] = {-1, -1}, answers_[2] = {-1, -1};
};

class PageSharingTest : public testing::Test {
 protected:
  PageSharingTest() {
    auto made = PageSharing::Create({.children = &children_});
    EXPECT_TRUE(made.ok());
    sharing_ = *std::move(made);
  }
  bool Share(const Child& child) { return sharing_->Share(child.pid(), 1, listener_, NoneHeld); }
  FakeListener::Answer Serve(pid_t process, int number, std::initializer_list<uint64_t> arguments) {
    Tracee tracee(process);
    const seccomp_notif call = listener_.Call(process, number, arguments);
    EXPECT_TRUE(sharing_->Serve({call, tracee, listener_}));
    return *listener_.AnswerOf(call);
  }

  KernelWaitCalls waits_;
  Children children_{&waits_};
  InheritedListener listener_;
  std::unique_ptr<PageSharing> sharing_;
};

TEST_F(PageSharingTest, EqualPagesBecomeOneAndKeepTheirBytes) {
  Child one('1'), two('2'), three('3');
  EXPECT_GT(one.Private(), kBytes / 1024 * 9 / 10);
  // Zeros go at the first look; what is the same is known at the second child's.
  ASSERT_TRUE(Share(one));
  EXPECT_LT(one.Private(), kBytes / 1024 * 7 / 10);
  ASSERT_TRUE(Share(two));
  ASSERT_TRUE(Share(three));
  ASSERT_TRUE(Share(one));
  for (Child* child : {&one, &two, &three}) {
    EXPECT_TRUE(child->Ask('c'));
    EXPECT_LT(child->Private(), kBytes / 1024 * 4 / 10);
    EXPECT_GT(child->Private(), kBytes / 1024 * 3 / 10);
  }
  EXPECT_NE(sharing_->Describe(), "");
}

TEST_F(PageSharingTest, WhatWasWrittenInTheMappingOfAFileIsSharedToo) {
  for (const Behind behind : {Behind::kFile, Behind::kProtectedFile}) {
    Child one('1', false, behind), two('2', false, behind), three('3', false, behind);
    for (int look = 0; look < 2; ++look) {
      for (Child* child : {&one, &two, &three}) ASSERT_TRUE(Share(*child));
    }
    for (Child* child : {&one, &two, &three}) {
      EXPECT_TRUE(child->Ask('c'));
      EXPECT_LT(child->Private(), kBytes / 1024 * 4 / 10);
    }
    EXPECT_NE(one.Mapping().find(behind == Behind::kFile ? " rw-p " : " r--p "), std::string::npos)
        << one.Mapping();
    if (behind == Behind::kFile) {
      EXPECT_TRUE(one.Ask('w'));
      ASSERT_TRUE(Share(one));
    }
    EXPECT_TRUE(one.Ask('c'));
    EXPECT_TRUE(two.Ask('c'));
  }
}

TEST_F(PageSharingTest, PagesOfAFileAreNoZerosThatAreGivenBack) {
  auto made = PageSharing::Create({.children = &children_, .zeros_only = true});
  ASSERT_TRUE(made.ok());
  sharing_ = *std::move(made);
  Child child('1', false, Behind::kFile);
  ASSERT_TRUE(Share(child));
  EXPECT_TRUE(child.Ask('c'));
}

TEST_F(PageSharingTest, PagesBetweenOthersAreSharedByFewMappings) {
  Child one('1', true), two('2', true), three('3', true);
  for (int look = 0; look < 2; ++look) {
    for (Child* child : {&one, &two, &three}) ASSERT_TRUE(Share(*child));
  }
  for (Child* child : {&one, &two, &three}) {
    EXPECT_TRUE(child->Ask('c'));
    EXPECT_LT(child->Private(), kBytes / 1024 * 4 / 10);
    EXPECT_LE(child->Mappings(), 4);
  }
  // What one writes there, and shares anew, is its own.
  EXPECT_TRUE(one.Ask('w'));
  EXPECT_GT(one.Private(), kBytes / 1024 * 9 / 10);
  ASSERT_TRUE(Share(one));
  EXPECT_LT(one.Private(), kBytes / 1024 * 4 / 10);
  EXPECT_LE(one.Mappings(), 4);
  // Zeros of which there are none in others do not become theirs.
  Child four('A', true);
  for (int look = 0; look < 2; ++look) {
    for (Child* child : {&one, &two, &three, &four}) ASSERT_TRUE(Share(*child));
  }
  for (Child* child : {&one, &two, &three, &four}) EXPECT_TRUE(child->Ask('c'));
}

TEST_F(PageSharingTest, WhateverIsWrittenStaysItsWriters) {
  Child children[] = {Child('1', true), Child('2'), Child('3', true), Child('4')};
  for (int round = 0; round < 60; ++round) {
    Child& writer = children[round % 4];
    ASSERT_TRUE(writer.Ask('r')) << round;
    ASSERT_TRUE(Share(children[round * 7 % 4])) << round;
    for (Child& child : children) ASSERT_TRUE(child.Ask('c')) << round;
  }
  for (Child& child : children) ASSERT_TRUE(Share(child));
  for (Child& child : children) {
    EXPECT_TRUE(child.Ask('c'));
    EXPECT_LT(child.Private(), kBytes / 1024 * 8 / 10);
  }
}

TEST_F(PageSharingTest, WhatNobodyHasMakesRoom) {
  Child one('1'), two('2');
  uint64_t taken = 0;
  for (int turn = 0; turn < 8; ++turn) {
    // What was the same is nobody's after this; what is the same now is new.
    for (Child* child : {&one, &two}) ASSERT_TRUE(child->Ask('n'));
    ASSERT_TRUE(sharing_->Recycle());
    for (Child* child : {&one, &two, &one}) ASSERT_TRUE(Share(*child));
    for (Child* child : {&one, &two}) {
      EXPECT_TRUE(child->Ask('c'));
      EXPECT_LT(child->Private(), kBytes / 1024 * 4 / 10);
    }
    // Writing takes room in the file, once, also for pages of zeros between others.
    if (turn == 2) taken = sharing_->PoolBytes();
  }
  EXPECT_GT(taken, 0u);
  EXPECT_LE(sharing_->PoolBytes(), taken);
}

TEST_F(PageSharingTest, WhatAnyoneHasStays) {
  Child children[] = {Child('1', true), Child('2'), Child('3', true), Child('4')};
  for (int round = 0; round < 60; ++round) {
    ASSERT_TRUE(children[round % 4].Ask('r')) << round;
    ASSERT_TRUE(sharing_->Recycle());
    ASSERT_TRUE(Share(children[round * 7 % 4])) << round;
    for (Child& child : children) ASSERT_TRUE(child.Ask('c')) << round;
  }
}

TEST_F(PageSharingTest, ZerosAloneCanBeGivenBack) {
  auto made = PageSharing::Create({.children = &children_, .zeros_only = true});
  ASSERT_TRUE(made.ok());
  sharing_ = *std::move(made);
  Child one('1'), two('2');
  const std::string mapping = one.Mapping();
  for (int look = 0; look < 2; ++look) {
    ASSERT_TRUE(Share(one));
    ASSERT_TRUE(Share(two));
  }
  for (Child* child : {&one, &two}) {
    EXPECT_TRUE(child->Ask('c'));
    EXPECT_LT(child->Private(), kBytes / 1024 * 7 / 10);
    EXPECT_GT(child->Private(), kBytes / 1024 * 6 / 10);
  }
  EXPECT_EQ(one.Mapping(), mapping);
  EXPECT_EQ(sharing_->PoolBytes(), 0u);
  // Nothing of it can be noticed.
  EXPECT_EQ(Serve(one.pid(), SYS_madvise, {one.memory(), kBytes, MADV_DONTNEED}),
            FakeListener::Continue());
}

TEST_F(PageSharingTest, WhatHadNoZerosIsReadAgainOnceInAWhile) {
  auto made = PageSharing::Create({.children = &children_, .zeros_only = true});
  ASSERT_TRUE(made.ok());
  sharing_ = *std::move(made);
  Child child('1');
  ASSERT_TRUE(Share(child));
  // Pages that were zeros are it again, and those beside them are now, too.
  ASSERT_TRUE(child.Ask('0'));
  ASSERT_TRUE(Share(child));
  EXPECT_LT(child.Private(), kBytes / 1024 * 7 / 10);
  EXPECT_GT(child.Private(), kBytes / 1024 * 6 / 10);
  for (int look = 0; look < 7; ++look) ASSERT_TRUE(Share(child));
  EXPECT_LT(child.Private(), kBytes / 1024 * 4 / 10);
  EXPECT_TRUE(child.Ask('c'));
}

TEST_F(PageSharingTest, WhatOneWritesTheOthersDoNotSee) {
  Child one('1'), two('2');
  ASSERT_TRUE(Share(one));
  ASSERT_TRUE(Share(two));
  ASSERT_TRUE(Share(one));
  EXPECT_TRUE(one.Ask('w'));
  EXPECT_TRUE(two.Ask('c'));
  EXPECT_TRUE(one.Ask('c'));
  // What was written is looked at again like everything else.
  ASSERT_TRUE(Share(one));
  EXPECT_TRUE(one.Ask('c'));
  EXPECT_TRUE(two.Ask('c'));
}

TEST_F(PageSharingTest, CallsThatWouldSeeTheFileAreRefused) {
  Child one('1'), two('2');
  // Nothing is shared yet.
  EXPECT_EQ(Serve(one.pid(), SYS_madvise, {one.memory(), kBytes, MADV_DONTNEED}),
            FakeListener::Continue());
  ASSERT_TRUE(Share(one));
  ASSERT_TRUE(Share(two));
  ASSERT_TRUE(Share(one));
  EXPECT_EQ(Serve(one.pid(), SYS_madvise, {one.memory(), kBytes, MADV_DONTNEED}),
            FakeListener::Error(EINVAL));
  EXPECT_EQ(Serve(one.pid(), SYS_mremap, {one.memory(), kBytes, 2 * kBytes, MREMAP_MAYMOVE}),
            FakeListener::Error(ENOMEM));
  EXPECT_EQ(Serve(one.pid(), SYS_mremap, {one.memory(), kBytes, kBytes / 2, 0}),
            FakeListener::Continue());
  // Memory beside it is nobody's affair.
  EXPECT_EQ(Serve(one.pid(), SYS_madvise, {4096, kBytes, MADV_DONTNEED}), FakeListener::Continue());
  Tracee tracee(one.pid());
  EXPECT_FALSE(sharing_->Serve({listener_.Call(one.pid(), SYS_read), tracee, listener_}));
}

TEST_F(PageSharingTest, AProcessThatIsGoneIsNotShared) {
  pid_t gone = 0;
  {
    Child child('1');
    gone = child.pid();
  }
  EXPECT_FALSE(sharing_->Share(gone, 1, listener_, NoneHeld));
  // And not tried again soon.
  EXPECT_FALSE(sharing_->Wants(gone, true));
}

TEST_F(PageSharingTest, WithoutADescriptorNothingChanges) {
  Child one('1');
  class Full : public FakeListener {
    absl::StatusOr<int> AddDescriptor(uint64_t, int) override {
      return absl::ResourceExhaustedError("no descriptors");
    }
  } full;
  EXPECT_FALSE(sharing_->Share(one.pid(), 1, full, NoneHeld));
  EXPECT_TRUE(one.Ask('c'));
  EXPECT_GT(one.Private(), kBytes / 1024 * 9 / 10);
}

// --- When ---

class PageSharingTimesTest : public testing::Test {
 protected:
  PageSharingTimesTest() {
    auto made = PageSharing::Create({.children = &children_, .proc = &proc_, .clock = &clock_});
    EXPECT_TRUE(made.ok());
    sharing_ = *std::move(made);
    clock_.Pass(100 * kSecond);
  }
  void SetPages(uint64_t anonymous) {
    proc_.SetFile(7, 7, "statm", "99999999 " + std::to_string(anonymous + 1000) + " 1000 0 0 0 0");
  }

  KernelWaitCalls waits_;
  Children children_{&waits_};
  FakeProc proc_;
  FakeRealClock clock_;
  std::unique_ptr<PageSharing> sharing_;
};

TEST_F(PageSharingTimesTest, AProcessIsLookedAtWhenItHasGrown) {
  SetPages(1000);
  EXPECT_FALSE(sharing_->Wants(7, false));
  SetPages(100'000);
  EXPECT_FALSE(sharing_->Wants(7, false)) << "not more than once a second";
  clock_.Pass(2 * kSecond);
  EXPECT_TRUE(sharing_->Wants(7, false));
}

TEST_F(PageSharingTimesTest, AnUrgentLookIsWorthLess) {
  auto made = PageSharing::Create({.children = &children_, .proc = &proc_, .clock = &clock_});
  ASSERT_TRUE(made.ok());
  sharing_ = *std::move(made);  // no time has passed since
  SetPages(8000);               // 31 MiB
  EXPECT_FALSE(sharing_->Wants(7, false));
  EXPECT_TRUE(sharing_->Wants(7, true));
}

TEST_F(PageSharingTimesTest, LooksThatHaveTakenLittleTimeAreWorthLess) {
  SetPages(8000);
  EXPECT_TRUE(sharing_->Wants(7, false));
  SetPages(2000);
  clock_.Pass(2 * kSecond);
  EXPECT_FALSE(sharing_->Wants(7, false));
}

TEST_F(PageSharingTimesTest, ForZerosAloneOnlyLargeProcessesAreLookedAt) {
  auto made = PageSharing::Create(
      {.children = &children_, .proc = &proc_, .clock = &clock_, .zeros_only = true});
  ASSERT_TRUE(made.ok());
  sharing_ = *std::move(made);
  SetPages(250'000);  // a bit less than 1 GiB
  EXPECT_FALSE(sharing_->Wants(7, false));
  EXPECT_FALSE(sharing_->Wants(7, true));
  clock_.Pass(2 * kSecond);
  SetPages(300'000);
  EXPECT_TRUE(sharing_->Wants(7, false));
}

TEST_F(PageSharingTimesTest, ALimitIsAsUrgentAsTheMachine) {
  EXPECT_FALSE(sharing_->IsUrgent());
  bool is_short = false;
  auto made = PageSharing::Create(
      {.children = &children_, .proc = &proc_, .clock = &clock_, .is_short = [&is_short] {
         return is_short;
       }});
  ASSERT_TRUE(made.ok());
  sharing_ = *std::move(made);
  EXPECT_FALSE(sharing_->IsUrgent());
  is_short = true;
  EXPECT_TRUE(sharing_->IsUrgent());
}

TEST_F(PageSharingTimesTest, AProcessThatCannotBeReadIsLeftAlone) {
  EXPECT_FALSE(sharing_->Wants(8, true));
}

TEST_F(PageSharingTimesTest, ItIsUrgentWhenLittleIsLeft) {
  proc_.memory = {.total = 90, .available = 31};
  EXPECT_FALSE(sharing_->IsUrgent());
  proc_.memory.available = 29;
  EXPECT_TRUE(sharing_->IsUrgent());
}

}  // namespace
}  // namespace phantora
