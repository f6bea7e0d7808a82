#include "uvm_model/device_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "uvm_model/address_space.h"
#include "uvm_model/equal_pages.h"
#include "uvm_model/memory_object.h"
#include "uvm_model/page_store.h"

namespace phantora {
namespace {

constexpr uint64_t kPage = PageStore::kPageBytes;
constexpr uint64_t kMiB = uint64_t{1} << 20;

class DeviceMemoryTest : public testing::Test {
 protected:
  DeviceMemoryTest() { store_->set_compares(true); }
  ~DeviceMemoryTest() override { EXPECT_EQ(store_->differences(), 0u); }

  std::shared_ptr<DeviceMemory> Memory(uint64_t size) {
    return std::make_shared<DeviceMemory>(store_, size);
  }
  uint64_t pages() const { return store_->used() / kPage; }
  static std::vector<uint8_t> Bytes(uint64_t length, unsigned seed = 1) {
    std::mt19937 random(seed);
    std::vector<uint8_t> bytes(length);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random() | 1);
    return bytes;
  }
  static std::vector<uint8_t> Read(MemoryObject& memory, uint64_t offset, uint64_t length) {
    std::vector<uint8_t> bytes(length, 0xcd);
    EXPECT_TRUE(memory.Read(offset, bytes.data(), length));
    return bytes;
  }

  const std::shared_ptr<PageStore> store_ = std::make_shared<PageStore>(256 * kMiB);
};

TEST_F(DeviceMemoryTest, WhatIsZeroTakesNothing) {
  auto memory = Memory(uint64_t{80} << 30);
  EXPECT_EQ(Read(*memory, uint64_t{40} << 30, 8), std::vector<uint8_t>(8));
  const std::vector<uint8_t> zeros(3 * kPage), ones = Bytes(3 * kPage);
  EXPECT_TRUE(memory->Write(100, zeros.data(), zeros.size()));
  EXPECT_EQ(pages(), 0u);
  EXPECT_TRUE(memory->Write(100, ones.data(), ones.size()));
  EXPECT_EQ(pages(), 4u);
  EXPECT_TRUE(memory->Write(100, zeros.data(), 2 * kPage));  // but for the last page and a bit
  EXPECT_EQ(pages(), 2u);
  EXPECT_TRUE(memory->Zero(0, 4 * kPage));
  EXPECT_EQ(pages(), 0u);
  EXPECT_EQ(store_->held(), 2 * kMiB);  // a spare block
}

TEST_F(DeviceMemoryTest, RefusesToLeaveTheObject) {
  auto memory = Memory(100);
  EXPECT_EQ(memory->size(), kPage);
  uint8_t byte = 1;
  EXPECT_TRUE(memory->Write(kPage - 1, &byte, 1));
  EXPECT_FALSE(memory->Write(kPage, &byte, 1));
  EXPECT_FALSE(memory->Read(UINT64_MAX, &byte, 2));
  EXPECT_FALSE(memory->Zero(1, UINT64_MAX));
  EXPECT_FALSE(memory->CopyFrom(*memory, 1, 0, kPage));
  EXPECT_FALSE(memory->CopyFrom(*memory, 0, 1, kPage));
}

TEST_F(DeviceMemoryTest, ACopyTakesReferencesUntilSomebodyWrites) {
  auto from = Memory(8 * kMiB), to = Memory(16 * kMiB);
  const auto bytes = Bytes(kMiB);
  EXPECT_TRUE(from->Write(3 * kPage, bytes.data(), bytes.size()));
  const uint64_t own = pages();
  EXPECT_TRUE(to->CopyFrom(*from, 0, 5 * kPage, 8 * kMiB));
  EXPECT_EQ(pages(), own);
  EXPECT_EQ(Read(*to, 8 * kPage, bytes.size()), bytes);
  const uint8_t byte = 2;
  EXPECT_TRUE(to->Write(8 * kPage + 17, &byte, 1));
  EXPECT_EQ(pages(), own + 1);
  EXPECT_EQ(Read(*from, 3 * kPage, bytes.size()), bytes);
  EXPECT_EQ(Read(*to, 8 * kPage + 17, 1)[0], 2);
  // Who is left has it to himself.
  from.reset();
  EXPECT_EQ(pages(), own);
  EXPECT_TRUE(to->Write(9 * kPage, &byte, 1));
  EXPECT_EQ(pages(), own);
}

TEST_F(DeviceMemoryTest, ACopyOfOtherAlignmentCopiesBytesButNoZeros) {
  auto from = Memory(4 * kMiB), to = Memory(4 * kMiB);
  const auto bytes = Bytes(kPage);
  EXPECT_TRUE(from->Write(kMiB, bytes.data(), bytes.size()));
  EXPECT_TRUE(to->CopyFrom(*from, 0, 512, 3 * kMiB));
  EXPECT_EQ(pages(), 3u);  // one, and what lies across two
  EXPECT_EQ(Read(*to, kMiB + 512, kPage), bytes);
  // Zeros over data give it back.
  EXPECT_TRUE(to->CopyFrom(*from, 2 * kMiB, 512, kMiB + 2 * kPage));
  EXPECT_EQ(pages(), 1u);
}

TEST_F(DeviceMemoryTest, RunsAreWhatIsKnownToBeZero) {
  auto memory = Memory(16 * kMiB);
  const auto run = [&](uint64_t offset, uint64_t length) {
    const MemoryObject::Run run = memory->RunAt(offset, length);
    return std::pair(run.empty, run.length);
  };
  EXPECT_EQ(run(0, 16 * kMiB), std::pair(true, 16 * kMiB));
  EXPECT_EQ(run(12345, 100), std::pair(true, uint64_t{100}));
  const auto bytes = Bytes(0x3000);
  EXPECT_TRUE(memory->Write(9 * kMiB + 0x800, bytes.data(), bytes.size()));
  EXPECT_EQ(run(1, 16 * kMiB - 1), std::pair(true, 9 * kMiB - 1));
  EXPECT_EQ(run(9 * kMiB + 1, 2 * kMiB), std::pair(false, uint64_t{0x3fff}));
  EXPECT_EQ(run(9 * kMiB + 1, 2), std::pair(false, uint64_t{2}));
  EXPECT_EQ(run(9 * kMiB + 0x4000, kMiB), std::pair(true, kMiB));
  // Data across leaves.
  const auto much = Bytes(4 * kMiB);
  EXPECT_TRUE(memory->Write(0, much.data(), much.size()));
  EXPECT_EQ(run(100, 16 * kMiB - 100), std::pair(false, 4 * kMiB - 100));
}

TEST_F(DeviceMemoryTest, AFillIsOnePage) {
  AddressSpace space;
  auto memory = Memory(64 * kMiB);
  ASSERT_TRUE(space.Map(0x100000000, 64 * kMiB, memory, 0));
  const std::vector<uint8_t> pattern = {1, 2, 3, 4};
  EXPECT_EQ(space.Fill(0x100000000 + 100, 60 * kMiB, pattern, 0), std::nullopt);
  EXPECT_EQ(pages(), 3u);  // its two ends, and one for all between
  const auto bytes = Read(*memory, 0, 61 * kMiB);
  for (uint64_t i = 0; i < bytes.size(); ++i) {
    const bool filled = i >= 100 && i < 100 + 60 * kMiB;
    ASSERT_EQ(bytes[i], filled ? pattern[(i - 100) % 4] : 0) << i;
  }
  // A pattern that does not divide a page, from the middle of itself.
  const std::vector<uint8_t> three = {7, 8, 9};
  EXPECT_EQ(space.Fill(0x100000000, 3 * kPage, three, 2), std::nullopt);
  const auto odd = Read(*memory, 0, 3 * kPage);
  for (uint64_t i = 0; i < odd.size(); ++i) ASSERT_EQ(odd[i], three[(i + 2) % 3]) << i;
  EXPECT_EQ(space.Fill(0x100000000, 64 * kMiB, {0, 0}, 1), std::nullopt);
  EXPECT_EQ(pages(), 0u);
}

TEST_F(DeviceMemoryTest, OnceMappedItIsAnOrdinaryFile) {
  auto memory = Memory(4 * kMiB), other = Memory(4 * kMiB);
  const auto bytes = Bytes(kMiB);
  EXPECT_TRUE(memory->Write(kPage, bytes.data(), bytes.size()));
  EXPECT_TRUE(other->CopyFrom(*memory, 0, 0, 4 * kMiB));
  EXPECT_EQ(memory->HostPointer(), nullptr);
  const int file = memory->MappableFd();
  ASSERT_GE(file, 0);
  auto* mapping =
      static_cast<uint8_t*>(mmap(nullptr, 4 * kMiB, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  ASSERT_NE(mapping, MAP_FAILED);
  EXPECT_EQ(std::memcmp(mapping + kPage, bytes.data(), bytes.size()), 0);
  mapping[kPage] = 99;
  EXPECT_EQ(Read(*memory, kPage, 1)[0], 99);
  EXPECT_EQ(Read(*other, kPage, 1)[0], bytes[0]);
  mapping[2 * kMiB + 5] = 98;
  EXPECT_EQ(CopyMemory(*other, 0, *memory, 2 * kMiB, kPage).copied, kPage);
  EXPECT_EQ(Read(*other, 5, 1)[0], 98);
  EXPECT_EQ(CopyMemory(*memory, 3 * kMiB, *other, 0, kPage).copied, kPage);
  EXPECT_EQ(mapping[3 * kMiB + 5], 98);
  EXPECT_TRUE(memory->Zero(0, 4 * kMiB));
  EXPECT_EQ(mapping[2 * kMiB + 5], 0);
  munmap(mapping, 4 * kMiB);
}

TEST_F(DeviceMemoryTest, WithoutMemoryAWriteFails) {
  auto store = std::make_shared<PageStore>(2 * kMiB);
  DeviceMemory memory(store, 8 * kMiB), copy(store, 8 * kMiB);
  const auto bytes = Bytes(4 * kMiB);
  EXPECT_FALSE(memory.Write(0, bytes.data(), bytes.size()));
  EXPECT_TRUE(copy.CopyFrom(memory, 0, 0, 8 * kMiB));  // takes none
  const uint8_t other = static_cast<uint8_t>(bytes[0] + 1);
  EXPECT_FALSE(copy.Write(0, &other, 1));
  EXPECT_TRUE(memory.Zero(0, 8 * kMiB));
  EXPECT_TRUE(copy.Zero(0, 8 * kMiB));
  EXPECT_EQ(store->used(), 0u);
  EXPECT_TRUE(memory.Write(0, bytes.data(), kMiB));
}

TEST_F(DeviceMemoryTest, EqualPagesBecomeOneOnceTheyAreAtRest) {
  auto one = Memory(64 * kMiB), two = Memory(64 * kMiB);
  const auto bytes = Bytes(20 * kMiB);
  EqualPages equal(store_.get());
  EXPECT_TRUE(one->Write(0, bytes.data(), bytes.size()));
  EXPECT_TRUE(two->Write(6 * kPage, bytes.data(), bytes.size()));
  // Zeros that came in pieces.
  const std::vector<uint8_t> ones(2048, 1), zeros(32);
  EXPECT_TRUE(one->Write(40 * kMiB, ones.data(), ones.size()));
  for (uint64_t i = 0; i < 2048; i += 32) one->Write(40 * kMiB + i, zeros.data(), 32);
  const uint64_t before = pages();
  EXPECT_EQ(before, 2 * 20 * kMiB / kPage + 1);
  equal.Step(100'000);
  EXPECT_EQ(pages(), before);  // it may still be being written
  for (int step = 0; step < 200; ++step) equal.Step(100);
  EXPECT_EQ(pages(), 20 * kMiB / kPage);
  EXPECT_LT(equal.looked(), 2 * before);
  EXPECT_EQ(equal.found(), 20 * kMiB / kPage + 1);
  EXPECT_EQ(Read(*two, 6 * kPage, bytes.size()), bytes);
  const uint8_t byte = 0;
  EXPECT_TRUE(two->Write(6 * kPage, &byte, 1));
  EXPECT_EQ(Read(*one, 0, 1)[0], bytes[0]);
}

// Everything that GPUs do to memory, at random, in several address spaces of which some map the
// same memory, beside the host's; all of it done plainly too, and compared (set_compares).
TEST_F(DeviceMemoryTest, AgreesWithPlainMemoryUnderRandomOperations) {
  constexpr uint64_t kSize = 3 * kMiB, kBase = uint64_t{1} << 32;
  std::mt19937_64 random(11);
  const auto below = [&random](uint64_t bound) { return random() % bound; };
  std::vector<std::shared_ptr<MemoryObject>> objects;
  std::vector<std::vector<uint8_t>> expected;
  std::vector<AddressSpace> spaces(3);
  const auto replace = [&](size_t i) {
    const bool host = i == 0;
    objects[i] = host ? std::static_pointer_cast<MemoryObject>(
                            std::make_shared<OwnedMemory>(MemoryKind::kSysmem, kSize))
                      : Memory(kSize);
    expected[i].assign(kSize, 0);
    // As a duplicate in another process does, all spaces reach all objects.
    for (AddressSpace& space : spaces)
      ASSERT_TRUE(space.Map(kBase + i * kSize, kSize, objects[i], 0));
  };
  objects.resize(4), expected.resize(4);
  for (size_t i = 0; i < objects.size(); ++i) replace(i);
  std::vector<uint8_t> data(64 * 1024);
  EqualPages equal(store_.get(), 1);
  // More: bazel test --test_env=OPERATIONS=1000000.
  const char* wanted = std::getenv("OPERATIONS");
  const int operations = wanted == nullptr ? 100'000 : std::atoi(wanted);
  for (int step = 0; step < operations; ++step) {
    AddressSpace& space = spaces[below(spaces.size())];
    const size_t to = below(objects.size()), from = below(objects.size());
    // Mostly short, often aligned.
    const uint64_t length = 1 + below(below(8) == 0 ? kMiB : below(2) == 0 ? 3 * kPage : 64);
    const auto place = [&] {
      const uint64_t offset = below(kSize - length);
      return below(2) == 0 ? offset / kPage * kPage : offset;
    };
    const uint64_t at = place(), source = place();
    uint8_t* const model = expected[to].data() + at;
    switch (below(9)) {
      case 0:
      case 1: {
        const uint64_t bytes = std::min<uint64_t>(length, data.size());
        const bool zeros = below(3) == 0;
        for (uint64_t i = 0; i < bytes; ++i) data[i] = zeros ? 0 : static_cast<uint8_t>(random());
        ASSERT_EQ(space.Write(kBase + to * kSize + at, data.data(), bytes), std::nullopt);
        std::memcpy(model, data.data(), bytes);
        break;
      }
      case 2:
        ASSERT_EQ(space.Zero(kBase + to * kSize + at, length), std::nullopt);
        std::memset(model, 0, length);
        break;
      case 3: {
        const std::vector<uint8_t> pattern(std::vector<uint64_t>{1, 2, 3, 4, 8, 16}[below(6)],
                                           static_cast<uint8_t>(below(4)));
        ASSERT_EQ(space.Fill(kBase + to * kSize + at, length, pattern, below(16)), std::nullopt);
        std::memset(model, pattern[0], length);
        break;
      }
      case 4:
        if (below(200) == 0) replace(to);  // freed, and allocated anew
        break;
      case 5:
        // A process maps it.
        if (below(100) == 0 && to == 1) {
          ASSERT_GE(objects[to]->MappableFd(), 0);
        }
        break;
      default:
        if (to == from) break;
        ASSERT_EQ(space.Copy(kBase + to * kSize + at, spaces[below(spaces.size())],
                             kBase + from * kSize + source, length),
                  std::nullopt);
        std::memcpy(model, expected[from].data() + source, length);
    }
    equal.Step(below(64));
    ASSERT_EQ(store_->differences(), 0u) << step;
    const uint64_t looked = std::min<uint64_t>(length, data.size());
    ASSERT_EQ(space.Read(kBase + to * kSize + at, data.data(), looked), std::nullopt);
    ASSERT_EQ(std::memcmp(data.data(), model, looked), 0) << step;
  }
  for (size_t i = 0; i < objects.size(); ++i) EXPECT_EQ(Read(*objects[i], 0, kSize), expected[i]);
  objects.clear();
  for (AddressSpace& space : spaces) space.Unmap(0, UINT64_MAX);
  EXPECT_EQ(store_->used(), 0u);
}

}  // namespace
}  // namespace phantora
