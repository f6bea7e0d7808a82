#include "trap/gpu/sass/tensor_map.h"

#include <gtest/gtest.h>

#include <vector>

#include "trap/gpu/sass/memory_barrier.h"

namespace phantora::sass {
namespace {

std::vector<uint8_t> Map(std::vector<std::pair<int, uint32_t>> words) {
  std::vector<uint8_t> bytes(TensorMap::kBytes);
  for (const auto& [at, word] : words) {
    std::memcpy(&bytes[static_cast<size_t>(at) * 4], &word, sizeof word);
  }
  return bytes;
}

// What driver 550's cuTensorMapEncodeTiled makes of float16, sizes {256, 64, 5, 7, 9}, strides
// {512, 32768, 163840, 1146880}, a box {64, 32, 2, 3, 1} and steps {1, 2, 1, 3, 1}.
const std::vector<std::pair<int, uint32_t>> kTiled = {
    {0, 0x34567800}, {1, 0x7f12},  {2, 0x340},       {3, 0x20},    {4, 0x800},
    {5, 0x2800},     {6, 0x11800}, {8, 0xff},        {9, 0x3f},    {10, 4},
    {11, 6},         {12, 8},      {13, 0x3f000408}, {14, 0x2011f}};

TEST(TensorMapTest, SaysWhatItWasMadeOf) {
  const auto map = TensorMap::Read(Map(kTiled).data());
  ASSERT_TRUE(map);
  EXPECT_EQ(map->address, 0x7f1234567800u);
  EXPECT_EQ(map->dimensions, 5);
  EXPECT_EQ(map->type, TensorMap::Type::kHalf);
  EXPECT_EQ(map->swizzle, Swizzle::kNone);
  EXPECT_EQ(map->sizes, (std::array<uint64_t, 5>{256, 64, 5, 7, 9}));
  EXPECT_EQ(map->strides, (std::array<uint64_t, 5>{2, 512, 32768, 163840, 1146880}));
  EXPECT_EQ(map->steps, (std::array<uint32_t, 5>{1, 2, 1, 3, 1}));
  // Of every second of 32 there are 16, and of every third of three there is one.
  EXPECT_EQ(map->box, (std::array<uint32_t, 5>{64, 16, 2, 1, 1}));
  EXPECT_EQ(map->BoxBytes(), 64u * 16 * 2 * 2);
}

TEST(TensorMapTest, OfImages) {
  // cuTensorMapEncodeIm2col: {64, 20, 30, 5}, corners {3, 5} and {-7, -9}, 32 channels, 64 pixels.
  const auto map = TensorMap::Read(Map({{2, 0x331},
                                        {3, 8},
                                        {4, 0xa0},
                                        {5, 0x12c0},
                                        {8, 0x3f},
                                        {9, 0x13},
                                        {10, 0x1d},
                                        {11, 4},
                                        {13, 0x1f000000},
                                        {14, 0xf7f90503},
                                        {15, 0x3f}})
                                       .data());
  ASSERT_TRUE(map);
  EXPECT_TRUE(map->is_of_images);
  EXPECT_EQ(map->spatial(), 2);
  EXPECT_EQ(map->box[0], 32u);
  EXPECT_EQ(map->box[1], 64u);
  EXPECT_EQ(map->first, (std::array<int64_t, 3>{3, 5, 0}));
  EXPECT_EQ(map->last, (std::array<int64_t, 3>{12, 20, 0}));
}

TEST(TensorMapTest, WhatIsNotKnownIsRefused) {
  for (const auto& [word, bit] : {std::pair{2, 11}, {2, 2}, {2, 19}, {7, 16}, {13, 15}, {15, 0}}) {
    auto words = kTiled;
    words.emplace_back(word, uint32_t{1} << bit);
    for (const auto& [at, value] : kTiled) {
      if (at == word) words.back().second |= value;
    }
    EXPECT_FALSE(TensorMap::Read(Map(words).data())) << word << " " << bit;
  }
  auto half_as_tf32 = kTiled;
  half_as_tf32[2].second |= 1 << 16;
  EXPECT_FALSE(TensorMap::Read(Map(half_as_tf32).data()));
}

TEST(SwizzleTest, ChunksChangePlacesByTheirLine) {
  EXPECT_EQ(Swizzled(Swizzle::kNone, 0x1390), 0x1390u);
  EXPECT_EQ(Swizzled(Swizzle::k128, 0x080), 0x090u);  // line 1: chunk 0 is where chunk 1 was
  EXPECT_EQ(Swizzled(Swizzle::k128, 0x3f4), 0x384u);  // line 7: chunk 7 comes first
  EXPECT_EQ(Swizzled(Swizzle::k64, 0x1f0), 0x1c0u);
  EXPECT_EQ(Swizzled(Swizzle::k32, 0x190), 0x180u);
}

class MemoryBarrierTest : public testing::Test {
 protected:
  // As ptxas makes one.
  void Make(uint32_t arrivals) {
    const uint32_t missing = (1u << 20) - arrivals;
    const uint32_t words[2] = {missing << 1, missing << 11};
    std::memcpy(bytes_, words, sizeof words);
  }
  bool phase() { return MemoryBarrier(bytes_).phase(); }
  void Change(uint32_t arrivals, uint32_t leaving, int64_t bytes) {
    MemoryBarrier(bytes_).Change(arrivals, leaving, bytes);
  }
  uint8_t bytes_[MemoryBarrier::kBytes];
};

TEST_F(MemoryBarrierTest, APhaseEndsWithItsLastArrival) {
  Make(2);
  Change(1, 0, 0);
  EXPECT_FALSE(phase());
  Change(1, 0, 0);
  EXPECT_TRUE(phase());
  Change(2, 0, 0);
  EXPECT_FALSE(phase());
}

TEST_F(MemoryBarrierTest, BytesAreWaitedFor) {
  Make(1);
  Change(1, 0, 4096);
  EXPECT_FALSE(phase());
  Change(0, 0, -2048);
  EXPECT_FALSE(phase());
  Change(0, 0, -2048);
  EXPECT_TRUE(phase());
}

TEST_F(MemoryBarrierTest, BytesMayComeBeforeAnybodyExpectsThem) {
  Make(1);
  Change(0, 0, -512);
  EXPECT_FALSE(phase());
  Change(1, 0, 512);
  EXPECT_TRUE(phase());
}

TEST_F(MemoryBarrierTest, WhoLeavesIsNotWaitedForAgain) {
  Make(2);
  Change(1, 1, 0);
  Change(1, 0, 0);
  EXPECT_TRUE(phase());
  Change(1, 0, 0);
  EXPECT_FALSE(phase());
}

}  // namespace
}  // namespace phantora::sass
