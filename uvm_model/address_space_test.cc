#include "uvm_model/address_space.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "uvm_model/memory_for_test.h"
#include "uvm_model/vidmem_heap.h"

namespace phantora {
namespace {

std::shared_ptr<OwnedMemory> Vidmem(uint64_t size) {
  return std::make_shared<OwnedMemory>(MemoryKind::kVidmem, size);
}

TEST(OwnedMemoryTest, UntouchedAndZeroedMemoryCostsNothing) {
  OwnedMemory memory(MemoryKind::kVidmem, uint64_t{64} << 30);
  uint64_t value = 1;
  EXPECT_TRUE(memory.Read(uint64_t{40} << 30, &value, 8));
  EXPECT_EQ(value, 0u);
  EXPECT_EQ(ResidentBytes(memory), 0u);
  std::vector<uint8_t> data(1 << 20, 0xab);
  EXPECT_TRUE(memory.Write(12345, data.data(), data.size()));
  EXPECT_GE(ResidentBytes(memory), data.size());
  EXPECT_TRUE(memory.Zero(12345, data.size()));
  EXPECT_LE(ResidentBytes(memory), 2 * 4096u);
  EXPECT_TRUE(memory.Read(12345 + 500000, &value, 8));
  EXPECT_EQ(value, 0u);
}

TEST(OwnedMemoryTest, RefusesToLeaveTheObject) {
  OwnedMemory memory(MemoryKind::kSysmem, 100);
  EXPECT_EQ(memory.size(), 4096u);
  uint8_t byte = 0;
  EXPECT_TRUE(memory.Write(4095, &byte, 1));
  EXPECT_FALSE(memory.Write(4096, &byte, 1));
  EXPECT_FALSE(memory.Read(UINT64_MAX, &byte, 2));
  EXPECT_FALSE(memory.Zero(1, UINT64_MAX));
}

TEST(OwnedMemoryTest, TellsWhatWasNeverWritten) {
  constexpr uint64_t kSize = 1 << 20;
  for (const MemoryKind kind : {MemoryKind::kVidmem, MemoryKind::kManaged}) {
    OwnedMemory memory(kind, kSize);
    const auto run = [&](uint64_t offset, uint64_t length) {
      const MemoryObject::Run run = memory.RunAt(offset, length);
      return std::pair(run.empty, run.length);
    };
    EXPECT_EQ(run(0, kSize), std::pair(true, kSize));
    EXPECT_EQ(memory.MappableFd() >= 0, true);  // now there is a file, and nothing in it
    EXPECT_EQ(run(12345, 100), std::pair(true, uint64_t{100}));
    const std::vector<uint8_t> data(0x3000, 1);
    EXPECT_TRUE(memory.Write(0x10800, data.data(), data.size()));  // pages 0x10 to 0x13
    EXPECT_EQ(run(0, kSize), std::pair(true, uint64_t{0x10000}));
    EXPECT_EQ(run(0x5001, 0x100), std::pair(true, uint64_t{0x100}));
    EXPECT_EQ(run(0xfff0, kSize - 0xfff0), std::pair(true, uint64_t{0x10}));
    EXPECT_EQ(run(0x10000, kSize - 0x10000), std::pair(false, uint64_t{0x4000}));
    EXPECT_EQ(run(0x11234, 0x1000), std::pair(false, uint64_t{0x1000}));
    EXPECT_EQ(run(0x11234, kSize - 0x11234), std::pair(false, uint64_t{0x14000 - 0x11234}));
    EXPECT_EQ(run(0x14000, kSize - 0x14000), std::pair(true, kSize - 0x14000));
    EXPECT_EQ(run(kSize - 1, 1), std::pair(true, uint64_t{1}));
    // To the end.
    EXPECT_TRUE(memory.Write(kSize - 1, data.data(), 1));
    EXPECT_EQ(run(kSize - 0x1000, 0x1000), std::pair(false, uint64_t{0x1000}));
    EXPECT_EQ(ResidentBytes(memory), 0x5000u);  // looking wrote nothing
  }
}

TEST(AddressSpaceTest, RangesGoOnOverNeighboursAndEndAtGaps) {
  AddressSpace space;
  ASSERT_TRUE(space.Map(0x10000, 0x1000, Vidmem(0x1000), 0));
  ASSERT_TRUE(space.Map(0x11000, 0x3000, Vidmem(0x3000), 0));
  ASSERT_TRUE(space.Map(0x15000, 0x1000, Vidmem(0x1000), 0));
  using Range = std::pair<uint64_t, uint64_t>;
  for (const uint64_t va : {0x10000, 0x11fff, 0x13fff}) {
    EXPECT_EQ(space.RangeAround(va), Range(0x10000, 0x4000)) << va;
  }
  EXPECT_EQ(space.RangeAround(0x15800), Range(0x15000, 0x1000));
  EXPECT_EQ(space.RangeAround(0x14000), std::nullopt);
  EXPECT_EQ(space.RangeAround(0xffff), std::nullopt);
}

TEST(AddressSpaceTest, UnmapSplitsAndReportsTheFirstUnmappedByte) {
  AddressSpace space;
  auto memory = Vidmem(0x10000);
  ASSERT_TRUE(space.Map(0x100000, 0x10000, memory, 0));
  space.Unmap(0x104000, 0x2000);
  EXPECT_EQ(space.Check(0x100000, 0x10000), 0x104000u);
  EXPECT_EQ(space.Check(0x100000, 0x4000), std::nullopt);
  EXPECT_EQ(space.Find(0x106000)->offset, 0x6000u);
  EXPECT_EQ(space.Check(0x105fff, 0x1000), 0x105fffu);
  EXPECT_EQ(space.Check(0x106000, 0xa000), std::nullopt);
  EXPECT_EQ(space.Check(0x106000, 0xa001), 0x110000u);
  uint32_t value = 7;
  EXPECT_EQ(space.Write(0x103ffe, &value, 4), 0x104000u);
}

TEST(AddressSpaceTest, RejectsRangesOutsideTheObject) {
  AddressSpace space;
  auto memory = Vidmem(0x1000);
  EXPECT_FALSE(space.Map(0, 0x2000, memory, 0));
  EXPECT_FALSE(space.Map(0, 0x1000, memory, 1));
  EXPECT_FALSE(space.Map(UINT64_MAX - 10, 0x1000, memory, 0));
  EXPECT_FALSE(space.Map(0, 0x1000, nullptr, 0));
  for (const uint64_t va : {uint64_t{0}, uint64_t{0x1fff}, UINT64_MAX - 10, UINT64_MAX}) {
    EXPECT_FALSE(space.Find(va).has_value()) << va;
  }
}

// Random maps, unmaps and writes against a byte-by-byte model.
TEST(AddressSpaceTest, AgreesWithAByteMapUnderRandomOperations) {
  constexpr uint64_t kSpan = 4096 * 4;
  std::mt19937 random(7);
  AddressSpace space;
  std::vector<int> owner(kSpan, -1);  // which object, by index
  std::vector<uint64_t> place(kSpan);
  std::vector<std::shared_ptr<OwnedMemory>> objects;
  for (int i = 0; i < 4; ++i) objects.push_back(Vidmem(kSpan));
  for (int step = 0; step < 20000; ++step) {
    const uint64_t va = random() % kSpan;
    const uint64_t length = 1 + random() % (kSpan - va);
    if (random() % 3 == 0) {
      space.Unmap(va, length);
      std::fill_n(owner.begin() + va, length, -1);
    } else {
      const int object = random() % 4;
      const uint64_t offset = random() % (kSpan - length + 1);
      ASSERT_TRUE(space.Map(va, length, objects[object], offset));
      for (uint64_t i = 0; i < length; ++i) owner[va + i] = object, place[va + i] = offset + i;
    }
    const uint64_t probe = random() % kSpan;
    auto piece = space.Find(probe);
    ASSERT_EQ(piece.has_value(), owner[probe] >= 0);
    if (piece) {
      ASSERT_EQ(piece->memory, objects[owner[probe]].get());
      ASSERT_EQ(piece->offset, place[probe]);
    }
  }
}

TEST(AddressSpaceTest, CopiesAcrossSpacesAndObjects) {
  AddressSpace a, b;
  ASSERT_TRUE(a.Map(0x1000, 0x1000, Vidmem(0x1000), 0));
  ASSERT_TRUE(a.Map(0x2000, 0x1000, Vidmem(0x1000), 0));
  ASSERT_TRUE(
      b.Map(0x9000, 0x2000, std::make_shared<OwnedMemory>(MemoryKind::kManaged, 0x10000), 0x3000));
  std::vector<uint8_t> data(0x1800), back(0x1800);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint8_t>(i * 7);
  EXPECT_EQ(a.Write(0x1400, data.data(), data.size()), std::nullopt);
  EXPECT_EQ(b.Copy(0x9100, a, 0x1400, data.size()), std::nullopt);
  EXPECT_EQ(b.Read(0x9100, back.data(), back.size()), std::nullopt);
  EXPECT_EQ(back, data);
  EXPECT_EQ(b.Copy(0x9100, a, 0x2f00, 0x200), 0x3000u);
}

class SparseCopyTest : public testing::Test {
 protected:
  static constexpr uint64_t kSize = 4 << 20, kFrom = 0x1000000, kTo = 0x2000000;
  SparseCopyTest() {
    EXPECT_TRUE(space_.Map(kFrom, kSize, from_, 0));
    EXPECT_TRUE(space_.Map(kTo, kSize, to_, 0));
  }
  void Fill(uint64_t address, uint64_t length, uint8_t value) {
    const std::vector<uint8_t> data(length, value);
    EXPECT_EQ(space_.Write(address, data.data(), length), std::nullopt);
  }
  std::vector<uint8_t> Read(uint64_t address, uint64_t length) {
    std::vector<uint8_t> data(length);
    EXPECT_EQ(space_.Read(address, data.data(), length), std::nullopt);
    return data;
  }

  std::shared_ptr<OwnedMemory> from_ = Vidmem(kSize), to_ = Vidmem(kSize);
  AddressSpace space_;
};

TEST_F(SparseCopyTest, WhatWasNeverWrittenCostsNothing) {
  EXPECT_EQ(space_.Copy(kTo, space_, kFrom, kSize), std::nullopt);
  EXPECT_EQ(ResidentBytes(*from_), 0u);
  EXPECT_EQ(ResidentBytes(*to_), 0u);
  // Two islands, the second not at the start of a page.
  Fill(kFrom + 0x100000, 0x2000, 1);
  Fill(kFrom + 0x300123, 0x100, 2);
  EXPECT_EQ(space_.Copy(kTo, space_, kFrom, kSize), std::nullopt);
  EXPECT_EQ(ResidentBytes(*from_), 0x3000u);
  EXPECT_EQ(ResidentBytes(*to_), 0x3000u);
  EXPECT_EQ(Read(kTo, kSize), Read(kFrom, kSize));
}

TEST_F(SparseCopyTest, WhatWasThereIsOverwrittenWithZeros) {
  Fill(kTo, kSize, 7);
  Fill(kFrom + 0x8000, 0x1000, 1);
  EXPECT_EQ(space_.Copy(kTo + 100, space_, kFrom + 200, kSize - 300), std::nullopt);
  // All but the ends, and little more than what was written: holes take their place.
  EXPECT_LE(ResidentBytes(*to_), 0x20000u);
  std::vector<uint8_t> expected(kSize, 0);
  std::fill_n(expected.begin(), 100, 7);
  std::fill_n(expected.begin() + 0x8000 - 100, 0x1000, 1);
  std::fill_n(expected.end() - 200, 200, 7);
  EXPECT_EQ(Read(kTo, kSize), expected);
}

TEST_F(SparseCopyTest, IntoMemoryThatIsReachedByItsFileOnly) {
  auto managed = std::make_shared<OwnedMemory>(MemoryKind::kManaged, 2 * kSize);
  ASSERT_TRUE(space_.Map(kTo, kSize, managed, 0x1000));
  Fill(kFrom + 0x100800, 0x180000, 3);
  EXPECT_EQ(space_.Copy(kTo, space_, kFrom, kSize), std::nullopt);
  EXPECT_EQ(Read(kTo, kSize), Read(kFrom, kSize));
  EXPECT_EQ(ResidentBytes(*managed), 0x181000u);
  // And back, over what is there.
  Fill(kFrom, kSize, 9);
  EXPECT_EQ(space_.Copy(kFrom, space_, kTo, kSize), std::nullopt);
  EXPECT_EQ(Read(kTo, kSize), Read(kFrom, kSize));
}

TEST_F(SparseCopyTest, AHoleInTheMappingIsAFaultWhereItIs) {
  space_.Unmap(kTo + 0x200000, 0x1000);
  EXPECT_EQ(space_.Copy(kTo, space_, kFrom, kSize), kTo + 0x200000);
  EXPECT_EQ(space_.Copy(kTo, space_, kFrom + kSize - 0x100000, 0x180000), kFrom + kSize);
}

// Random copies against a plain one.
TEST_F(SparseCopyTest, AgreesWithAPlainCopy) {
  std::mt19937 random(5);
  std::vector<uint8_t> from(kSize), to(kSize);
  for (int step = 0; step < 100; ++step) {
    const uint64_t at = random() % kSize,
                   length = 1 + random() % std::min<uint64_t>(0x4000, kSize - at);
    const auto value = static_cast<uint8_t>(random());
    Fill(kFrom + at, length, value);
    std::fill_n(from.begin() + static_cast<ptrdiff_t>(at), length, value);
    const uint64_t source = random() % kSize, destination = random() % kSize;
    const uint64_t bytes =
        std::min(kSize - std::max(source, destination), uint64_t{random() % kSize});
    ASSERT_EQ(space_.Copy(kTo + destination, space_, kFrom + source, bytes), std::nullopt);
    std::copy_n(from.begin() + static_cast<ptrdiff_t>(source), bytes,
                to.begin() + static_cast<ptrdiff_t>(destination));
    if (step % 5 != 4) continue;
    ASSERT_TRUE(Read(kTo, kSize) == to);
    // Reading has made memory of it.
    EXPECT_EQ(space_.Zero(kFrom, kSize), std::nullopt);
    EXPECT_EQ(space_.Zero(kTo, kSize), std::nullopt);
    std::fill(from.begin(), from.end(), 0);
    std::fill(to.begin(), to.end(), 0);
  }
}

TEST(TaintOfMemory, GoesWithCopiesAndEndsWhereSomethingElseIsWritten) {
  constexpr uint64_t kBytes = 0x10000, kHost = 0x900000;
  AddressSpace space, other;
  const auto memory = std::make_shared<OwnedMemory>(MemoryKind::kVidmem, kBytes);
  ASSERT_TRUE(space.Map(0x100000, kBytes, memory, 0));
  ASSERT_TRUE(space.Map(0x100000 + kBytes, kBytes,
                        std::make_shared<OwnedMemory>(MemoryKind::kVidmem, kBytes), 0));
  ASSERT_TRUE(
      space.Map(kHost, kBytes, std::make_shared<OwnedMemory>(MemoryKind::kSysmem, kBytes), 0));
  // The same memory elsewhere, as another process sees it.
  ASSERT_TRUE(other.Map(0x5000, kBytes, memory, 0));

  EXPECT_EQ(space.SetTaint(0x100000 + kBytes - 8, 16, true), 0u);  // over two objects
  EXPECT_TRUE(other.IsTainted(0x5000 + kBytes - 1, 1));
  EXPECT_FALSE(space.IsTainted(0x100000, kBytes - 8));
  space.Copy(0x100000, space, 0x100000 + kBytes, 4);
  EXPECT_TRUE(space.IsTainted(0x100000, 4));
  EXPECT_FALSE(space.IsTainted(0x100004, 4));
  const uint32_t word = 1;
  space.Write(0x100000, &word, 2);
  EXPECT_FALSE(space.IsTainted(0x100000, 2));
  EXPECT_TRUE(space.IsTainted(0x100000, 4));
  space.Write(0x100000, &word, 4, AddressSpace::OnTaint::kKeep);
  EXPECT_TRUE(space.IsTainted(0x100000, 4));
  space.Fill(0x100000, 4, {1, 2}, 0);
  EXPECT_FALSE(space.IsTainted(0x100000, 4));
  // The host's memory is not followed.
  EXPECT_EQ(space.SetTaint(kHost - 8, 16, true), 0u);
  EXPECT_EQ(space.SetTaint(kHost, 16, true), 16u);
  space.Copy(kHost, space, 0x100000 + kBytes, 4);
  EXPECT_FALSE(space.IsTainted(kHost, kBytes));
  space.Copy(0x100000 + kBytes, space, kHost, 4);
  space.Zero(0x100000 + kBytes - 8, 16);
  EXPECT_FALSE(space.IsTainted(0x100000, 2 * kBytes));
}

TEST(VidmemHeapTest, RefusesBeyondCapacityAndReturnsOnRelease) {
  auto heap = std::make_shared<VidmemHeap>(100);
  auto first = VidmemHeap::Reserve(heap, 60);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(VidmemHeap::Reserve(heap, 41), nullptr);
  auto second = VidmemHeap::Reserve(heap, 40);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(heap->free(), 0u);
  first.reset();
  EXPECT_EQ(heap->free(), 60u);
  EXPECT_EQ(heap->peak(), 100u);
}

}  // namespace
}  // namespace phantora
