#include "trap/gpu/sass/launch_memory.h"

#include <memory>
#include <utility>

#include "gtest/gtest.h"
#include "uvm_model/memory_object.h"

namespace phantora::sass {
namespace {

constexpr uint64_t kBase = 0x10000, kPage = LaunchMemory::kPage;

// Of the first page only [0, 100) may be used, and [50, 60) nobody has written.
class FirstPage : public AccessCheck {
 public:
  bool IsAllRight(uint64_t address, uint64_t) override { return address != kBase; }
  Wrong Look(uint64_t address, uint64_t bytes) override {
    return address >= kBase + kPage || address + bytes <= kBase + 100 ? Wrong::kNothing
                                                                      : Wrong::kOutside;
  }
  bool IsUnwritten(uint64_t address, uint64_t bytes) override {
    return address < kBase + 60 && address + bytes > kBase + 50;
  }
};

class CheckedLaunchMemoryTest : public testing::Test {
 protected:
  CheckedLaunchMemoryTest() {
    space_.Map(kBase, 2 * kPage, std::make_shared<OwnedMemory>(MemoryKind::kVidmem, 2 * kPage), 0);
    space_.SetUnwritten(kBase + 50, 10, true);
  }
  // False, with what is wrong noted as of this instruction.
  bool Access(uint64_t into, uint64_t bytes, bool writes, uint32_t instruction = 0) {
    const uint8_t* at =
        writes ? memory_.Write(kBase + into, bytes) : memory_.Read(kBase + into, bytes);
    if (at != nullptr) return true;
    EXPECT_TRUE(memory_.met_wrong());
    EXPECT_NE(memory_.GoOn({.instruction = instruction}), nullptr);
    EXPECT_FALSE(memory_.met_wrong());
    return false;
  }

  AddressSpace space_;
  PagePool pool_;
  FirstPage check_;
  LaunchPages pages_{space_, pool_, 1 << 20, Tracking::kNone, false, &check_};
  LaunchMemory memory_{pages_};
};

TEST_F(CheckedLaunchMemoryTest, EveryAccessOfAPageThatIsNotAllRightIsLookedAt) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(Access(0, 4, false));
    EXPECT_TRUE(Access(96, 4, true));
    EXPECT_FALSE(Access(98, 4, true, 7));
    EXPECT_FALSE(Access(100, 4, false, 9));
    EXPECT_TRUE(Access(kPage, 16, true));
  }
  ASSERT_EQ(memory_.wrong().size(), 2u);
  const WrongAccess& first = memory_.wrong()[0];
  EXPECT_EQ(first.wrong, Wrong::kOutside);
  EXPECT_TRUE(first.writes);
  EXPECT_EQ(first.address, kBase + 98);
  EXPECT_EQ(first.bytes, 4u);
  EXPECT_EQ(first.instruction, 7u);
  EXPECT_EQ(first.count, 3u);
  EXPECT_FALSE(memory_.wrong()[1].writes);
}

TEST_F(CheckedLaunchMemoryTest, WhatTheLaunchHasWrittenItMayRead) {
  EXPECT_FALSE(Access(48, 4, false));
  EXPECT_TRUE(Access(50, 2, true));
  EXPECT_TRUE(Access(48, 4, false));
  EXPECT_FALSE(Access(48, 8, false));
  EXPECT_EQ(memory_.wrong()[0].wrong, Wrong::kUnwritten);
  EXPECT_EQ(memory_.wrong()[0].count, 2u);
  // And then anybody may.
  uint64_t host_bytes = 0;
  LaunchMemory* const memory = &memory_;
  EXPECT_EQ(LaunchMemory::Commit({&memory, 1}, host_bytes), std::nullopt);
  EXPECT_FALSE(space_.IsUnwritten(kBase, 52));
  EXPECT_TRUE(space_.IsUnwritten(kBase + 52, 1));
}

TEST_F(CheckedLaunchMemoryTest, ReadingAndWritingByOneInstructionIsOneAccess) {
  for (uint64_t lane = 0; lane < 4; ++lane) {
    EXPECT_FALSE(Access(100 + 4 * lane, 4, false, 5));
    EXPECT_FALSE(Access(100 + 4 * lane, 4, true, 5));
  }
  ASSERT_EQ(memory_.wrong().size(), 1u);
  EXPECT_EQ(memory_.wrong()[0].count, 4u);
}

}  // namespace
}  // namespace phantora::sass
