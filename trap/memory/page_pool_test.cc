#include "trap/memory/page_pool.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace phantora {
namespace {

std::vector<uint8_t> Page(uint8_t value) { return std::vector<uint8_t>(kPageBytes, value); }

TEST(PagePoolTest, TakesInWhatASecondProcessHas) {
  auto made = PagePool::Create();
  ASSERT_TRUE(made.ok()) << made.status();
  PagePool& pool = **made;
  const auto one = Page(1), two = Page(2);
  EXPECT_FALSE(pool.Offer(10, one.data()));
  EXPECT_FALSE(pool.Offer(10, one.data()));  // the same process again
  EXPECT_FALSE(pool.Offer(11, two.data()));
  EXPECT_EQ(pool.Offer(11, one.data()), 0u);
  EXPECT_EQ(pool.Offer(12, one.data()), 0u);
  EXPECT_EQ(pool.Offer(12, two.data()), 1u);
  EXPECT_EQ(pool.pages(), 2u);
  EXPECT_TRUE(pool.Equals(1, two.data()));
  EXPECT_FALSE(pool.Equals(0, two.data()));
  EXPECT_FALSE(pool.Equals(2, two.data()));
}

TEST(PagePoolTest, WhatNobodyHasMakesRoomAndWhatSomebodyHasStays) {
  auto made = PagePool::Create();
  ASSERT_TRUE(made.ok()) << made.status();
  PagePool& pool = **made;
  const auto one = Page(1), two = Page(2), three = Page(3), four = Page(4);
  for (const pid_t process : {10, 11}) {
    for (const auto* page : {&one, &two}) pool.Offer(process, page->data());
  }
  std::vector<bool> used(pool.places());
  used[1] = true;
  pool.Recycle(used);
  EXPECT_EQ(pool.pages(), 1u);
  EXPECT_FALSE(pool.Equals(0, one.data())) << "nobody has it";
  EXPECT_TRUE(pool.Equals(1, two.data()));
  EXPECT_FALSE(pool.Offer(12, one.data())) << "as if it had never been there";
  // A process whose memory is mapped from the file there may take the place; others do not then.
  pool.Offer(10, three.data(), 0);
  EXPECT_EQ(pool.Offer(11, three.data(), 0), 0u);
  pool.Offer(10, four.data());
  const auto other = pool.Offer(11, four.data());
  ASSERT_TRUE(other);
  EXPECT_TRUE(pool.Equals(0, three.data()));
  EXPECT_TRUE(pool.Equals(1, two.data()));
  EXPECT_TRUE(pool.Equals(*other, four.data()));
  // The same of places that nobody has had yet.
  const uint32_t next = *other + 1;
  const auto five = Page(5), six = Page(6);
  for (const pid_t process : {10, 11}) pool.Offer(process, five.data(), next);
  for (const pid_t process : {10, 11}) pool.Offer(process, six.data());
  EXPECT_TRUE(pool.Equals(next, five.data()));
  // Zeros take the place of what was there.
  pool.Recycle(std::vector<bool>(pool.places()));
  EXPECT_TRUE(pool.TakeZeros(1));
  std::vector<uint8_t> read(kPageBytes, 1);
  EXPECT_EQ(pread(pool.file(), read.data(), kPageBytes, kPageBytes), ssize_t{kPageBytes});
  EXPECT_EQ(read, Page(0));
}

TEST(PagePoolTest, EveryAddressHasAPlaceOfItsOwn) {
  auto made = PagePool::Create();
  ASSERT_TRUE(made.ok()) << made.status();
  PagePool& pool = **made;
  constexpr uint64_t kHere = 0x5555'0000'0000, kThere = kHere + PagePool::kWindowBytes;
  const uint32_t here = *pool.PlaceOf(kHere), next = *pool.PlaceOf(kHere + kPageBytes);
  EXPECT_EQ(next, here + 1);
  const uint32_t there = *pool.PlaceOf(kThere);
  EXPECT_NE(there, here);
  const auto one = Page(1), two = Page(2), three = Page(3);
  EXPECT_FALSE(pool.Offer(10, one.data(), next));
  EXPECT_EQ(pool.Offer(11, one.data(), next), next);
  // The same somewhere else gets its place there, too.
  EXPECT_EQ(pool.Offer(11, one.data(), there), there);
  // What comes later to a place that is taken goes elsewhere.
  EXPECT_FALSE(pool.Offer(10, two.data(), next));
  const auto other = pool.Offer(11, two.data(), next);
  ASSERT_TRUE(other);
  EXPECT_NE(*other, next);
  EXPECT_TRUE(pool.Equals(*other, two.data()));
  EXPECT_TRUE(pool.Equals(next, one.data()));
  // Zeros stay zeros.
  EXPECT_FALSE(pool.TakeZeros(next));
  EXPECT_TRUE(pool.TakeZeros(here));
  EXPECT_TRUE(pool.TakeZeros(here));
  EXPECT_FALSE(pool.Offer(10, three.data(), here));
  EXPECT_NE(pool.Offer(11, three.data(), here), here);
  EXPECT_FALSE(pool.TakeZeros(1u << 31));
}

TEST(PagePoolTest, TellsWhoOfferedInVainBefore) {
  auto made = PagePool::Create();
  ASSERT_TRUE(made.ok()) << made.status();
  PagePool& pool = **made;
  for (uint8_t value = 1; value <= 3; ++value) pool.Offer(10, Page(value).data());
  pool.Offer(11, Page(1).data());
  pool.Offer(12, Page(1).data());  // it is there already
  pool.Offer(12, Page(2).data());
  EXPECT_EQ(pool.given(10), 2u);
  EXPECT_EQ(pool.given(11), 0u);
  EXPECT_EQ(pool.TakeGiven(10), 2u);
  EXPECT_EQ(pool.given(10), 0u);
}

TEST(PagePoolTest, OthersReadAndCopyButDoNotWrite) {
  auto made = PagePool::Create();
  ASSERT_TRUE(made.ok()) << made.status();
  PagePool& pool = **made;
  const auto one = Page(1);
  pool.Offer(1, one.data());
  ASSERT_EQ(pool.Offer(2, one.data()), 0u);
  void* mapped = mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, pool.file(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  auto* bytes = static_cast<uint8_t*>(mapped);
  EXPECT_EQ(bytes[17], 1);
  bytes[17] = 9;
  EXPECT_TRUE(pool.Equals(0, one.data()));
  munmap(mapped, kPageBytes);
  EXPECT_EQ(mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, pool.file(), 0),
            MAP_FAILED);
  // Not even opened anew, by one who may (root).
  const int again =
      open(("/proc/self/fd/" + std::to_string(pool.file())).c_str(), O_RDWR | O_CLOEXEC);
  if (again >= 0) {
    EXPECT_LT(pwrite(again, "x", 1, 0), 0);
    EXPECT_EQ(mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0), MAP_FAILED);
    close(again);
  }
}

TEST(PagePoolTest, GrowsPageByPage) {
  auto made = PagePool::Create();
  ASSERT_TRUE(made.ok()) << made.status();
  PagePool& pool = **made;
  auto page = Page(0);
  constexpr uint32_t kPages = 10'000;
  for (const pid_t process : {1, 2}) {
    for (uint32_t i = 0; i < kPages; ++i) {
      std::copy_n(reinterpret_cast<const uint8_t*>(&i), sizeof i, page.begin());
      const auto number = pool.Offer(process, page.data());
      ASSERT_EQ(number, process == 2 ? std::optional<uint32_t>(i) : std::nullopt);
    }
  }
  EXPECT_EQ(pool.pages(), kPages);
}

}  // namespace
}  // namespace phantora
