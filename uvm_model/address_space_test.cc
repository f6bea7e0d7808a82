#include "uvm_model/address_space.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

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
  EXPECT_EQ(memory.ResidentBytes(), 0u);
  std::vector<uint8_t> data(1 << 20, 0xab);
  EXPECT_TRUE(memory.Write(12345, data.data(), data.size()));
  EXPECT_GE(memory.ResidentBytes(), data.size());
  EXPECT_TRUE(memory.Zero(12345, data.size()));
  EXPECT_LE(memory.ResidentBytes(), 2 * 4096u);
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

TEST(AddressSpaceTest, UnmapSplitsAndReportsTheFirstUnmappedByte) {
  AddressSpace space;
  auto memory = Vidmem(0x10000);
  ASSERT_TRUE(space.Map(0x100000, 0x10000, memory, 0));
  space.Unmap(0x104000, 0x2000);
  EXPECT_EQ(space.Check(0x100000, 0x10000), 0x104000u);
  EXPECT_EQ(space.Check(0x100000, 0x4000), std::nullopt);
  EXPECT_EQ(space.Find(0x106000)->offset, 0x6000u);
  EXPECT_EQ(space.MappedBytes(), 0xe000u);
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
  EXPECT_EQ(space.MappedBytes(), 0u);
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
