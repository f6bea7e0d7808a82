#include "trap/check/memory_check.h"

#include <cerrno>
#include <cstring>
#include <memory>

#include "gtest/gtest.h"
#include "uvm_model/memory_object.h"

namespace phantora {
namespace {

constexpr pid_t kProcess = 7;
constexpr uint64_t kBase = 0x7f0000000000, kPiece = 2 << 20;

class MemoryCheckTest : public testing::Test {
 protected:
  MemoryCheckTest() {
    memory_.Map(kBase, kPiece, std::make_shared<OwnedMemory>(MemoryKind::kVidmem, kPiece), 0);
  }

  int Allocate(uint64_t address, uint64_t bytes, check::Kind kind = check::Kind::kDevice) {
    check::Allocated allocated = {.address = address, .bytes = bytes, .kind = kind};
    std::strcpy(allocated.where, "a.py:3 in f");
    return check_.Allocated(kProcess, allocated);
  }
  int Free(uint64_t address, check::Freeing what, int error = 0) {
    check::Freed freed = {.address = address, .what = what, .error = error};
    std::strcpy(freed.where, "a.py:9 in g");
    return check_.Freed(kProcess, freed);
  }
  void Copy(uint64_t address, uint64_t bytes, MemoryCheck::Transferred what) {
    check_.Transfer(kProcess, memory_, {address, bytes, 1, 0}, what);
  }

  AddressSpace memory_;
  std::vector<std::string> told_;
  MemoryCheck check_{{.name = [](pid_t) { return std::string("rank 3"); },
                      .each_space =
                          [this](pid_t process, const auto& use) {
                            if (process == kProcess) use(memory_);
                          },
                      .tell = [this](const std::string& what) { told_.push_back(what); }}};
};

TEST_F(MemoryCheckTest, CopiesBeyondTheEndAreToldOnceAndCounted) {
  ASSERT_EQ(Allocate(kBase, 4000), 0);
  Copy(kBase, 4000, MemoryCheck::Transferred::kCopied);
  EXPECT_TRUE(told_.empty());
  for (int i = 0; i < 3; ++i) Copy(kBase + 8, 4000, MemoryCheck::Transferred::kCopied);
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_EQ(
      told_[0],
      "[1] rank 3: a copy writes 4,000 bytes at 0x7f0000000008, the last 8 bytes behind the end "
      "of an allocation of 4,000 bytes at 0x7f0000000000 (a.py:3 in f)");
  EXPECT_EQ(check_.errors(), 3u);
  EXPECT_EQ(check_.Summary(5)[0], "3 errors ([1] 3 times) in 0 kernels");
  Copy(kBase + 4096, 1, MemoryCheck::Transferred::kFilled);
  ASSERT_EQ(told_.size(), 2u);
  EXPECT_NE(told_[1].find("a fill writes 1 byte at 0x7f0000001000, 96 bytes behind"),
            std::string::npos);
}

TEST_F(MemoryCheckTest, WhatNobodyHasWrittenIsNotForTheHost) {
  ASSERT_EQ(Allocate(kBase, 4000), 0);
  EXPECT_TRUE(memory_.IsUnwritten(kBase, 4000));
  // From one place of the GPU to another it may be copied.
  Copy(kBase, 4000, MemoryCheck::Transferred::kRead);
  EXPECT_TRUE(told_.empty());
  Copy(kBase, 4000, MemoryCheck::Transferred::kReadByHost);
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_NE(told_[0].find("that nobody has written"), std::string::npos);
  memory_.Zero(kBase, 4000);
  Copy(kBase, 4000, MemoryCheck::Transferred::kReadByHost);
  EXPECT_EQ(check_.errors(), 1u);
  // Once nobody knows what a kernel has written.
  ASSERT_EQ(Allocate(kBase + 4096, 100), 0);
  check_.NotLaunched(kProcess, true);
  Copy(kBase + 4096, 8, MemoryCheck::Transferred::kReadByHost);
  EXPECT_EQ(check_.errors(), 2u);
  check_.NotLaunched(kProcess, false);
  Copy(kBase + 4096, 8, MemoryCheck::Transferred::kReadByHost);
  EXPECT_EQ(check_.errors(), 2u);
  EXPECT_EQ(check_.Summary(9)[0],
            "2 errors ([1] 2 times) in 0 kernels; what 2 others access nobody has seen");
  EXPECT_NE(check_.Summary(9)[1].find("in 1 process from"), std::string::npos);
}

TEST_F(MemoryCheckTest, KernelsAreLookedAtWhereTheyMayBeWrong) {
  EXPECT_EQ(check_.Of(kProcess, memory_), nullptr);
  ASSERT_EQ(Allocate(kBase, 4096), 0);
  ASSERT_EQ(Allocate(kBase + 4096, 100), 0);
  memory_.Zero(kBase, 2 * 4096);
  sass::AccessCheck& view = *check_.Of(kProcess, memory_);
  EXPECT_TRUE(view.IsAllRight(kBase, 4096));
  EXPECT_FALSE(view.IsAllRight(kBase + 4096, 4096));
  EXPECT_TRUE(view.IsAllRight(kBase + kPiece, 4096));
  EXPECT_EQ(view.Look(kBase + 4096, 4), sass::Wrong::kNothing);
  EXPECT_EQ(view.Look(kBase + 4096 + 100, 4), sass::Wrong::kOutside);
  EXPECT_EQ(view.Look(kBase + kPiece, 4), sass::Wrong::kNothing);
  const sass::WrongAccess wrong = {.wrong = sass::Wrong::kOutside,
                                   .writes = true,
                                   .address = kBase + 4096 + 100,
                                   .bytes = 4,
                                   .instruction = 2,
                                   .block = {1, 2, 3},
                                   .thread = 37,
                                   .count = 8};
  check_.Launched(kProcess, "k", {&wrong, 1}, [](uint32_t i) { return i * 16; }, {32, 4, 1});
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_EQ(told_[0],
            "[1] rank 3: kernel k writes 4 bytes at 0x7f0000001064, directly behind the end of an "
            "allocation of 100 bytes at 0x7f0000001000 (a.py:3 in f) (instruction 0x20, thread "
            "5,1,0 of block 1,2,3)");
  EXPECT_EQ(check_.errors(), 8u);
}

TEST_F(MemoryCheckTest, WhatIsFreedIsNobodysAndWhatIsNotIsTold) {
  ASSERT_EQ(Allocate(kBase, 100), 0);
  ASSERT_EQ(Allocate(kBase + 512, 200), 0);
  EXPECT_EQ(Free(kBase, check::Freeing::kBegins), 0);
  EXPECT_EQ(Free(kBase, check::Freeing::kIsDone), 0);
  EXPECT_FALSE(memory_.IsUnwritten(kBase, 100));
  Copy(kBase, 4, MemoryCheck::Transferred::kRead);
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_NE(told_[0].find("in memory that was freed"), std::string::npos);
  EXPECT_EQ(Free(kBase, check::Freeing::kFailed, 1), 0);
  ASSERT_EQ(told_.size(), 2u);
  EXPECT_NE(told_[1].find("(error 1): it was freed before"), std::string::npos);
  EXPECT_EQ(Free(kBase + 520, check::Freeing::kFailed, 1), 0);
  check_.ProcessDied(kProcess);
  bool found = false;
  for (const std::string& line : check_.Summary(9)) {
    found |=
        line == "not freed at the end: 200 bytes, an allocation of rank 3, made in a.py:3 in f";
  }
  EXPECT_TRUE(found);
  EXPECT_EQ(check_.Of(kProcess, memory_), nullptr);
}

TEST_F(MemoryCheckTest, HostilePrograms) {
  EXPECT_EQ(Allocate(kBase, 0), EINVAL);
  EXPECT_EQ(Allocate(kBase, ~uint64_t{0}), ENOSPC);
  EXPECT_EQ(check_.Summary(9)[1],
            "1 allocation beyond what is followed: what happens there was not looked at");
  EXPECT_EQ(Allocate(kBase, 8, static_cast<check::Kind>(77)), EINVAL);
  EXPECT_EQ(Free(kBase, static_cast<check::Freeing>(9)), EINVAL);
  check::Allocated allocated = {.address = kBase, .bytes = 8, .kind = check::Kind::kDevice};
  std::memset(allocated.where, '\x1b', sizeof allocated.where);  // no end, and an escape sequence
  EXPECT_EQ(check_.Allocated(kProcess, allocated), 0);
  Copy(kBase, 9, MemoryCheck::Transferred::kCopied);
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_EQ(told_[0].find('\x1b'), std::string::npos);
  // Lines without end are looked at in part.
  check_.Transfer(kProcess, memory_, {kBase, 8, ~uint64_t{0}, ~uint64_t{0}},
                  MemoryCheck::Transferred::kCopied);
}

}  // namespace
}  // namespace phantora
