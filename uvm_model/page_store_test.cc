#include "uvm_model/page_store.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>
#include <set>
#include <vector>

namespace phantora {
namespace {

constexpr uint64_t kBlock = uint64_t{2} << 20;

TEST(PageStoreTest, GivesPagesUntilThereAreNoMore) {
  PageStore store(2 * kBlock);
  EXPECT_EQ(store.capacity(), 2 * kBlock);
  std::set<PageStore::Page> pages;
  for (uint64_t i = 0; i < 2 * kBlock / PageStore::kPageBytes; ++i) {
    const PageStore::Page page = store.New();
    ASSERT_NE(page, PageStore::kNone);
    ASSERT_NE(page, PageStore::kZeros);
    ASSERT_TRUE(pages.insert(page).second);
    std::memset(store.At(page), 0xab, PageStore::kPageBytes);
  }
  EXPECT_EQ(store.New(), PageStore::kNone);
  EXPECT_EQ(store.used(), 2 * kBlock);
  store.Release(*pages.begin());
  EXPECT_EQ(store.New(), *pages.begin());
}

TEST(PageStoreTest, PagesOfALargeCopyLieTogether) {
  PageStore store(8 * kBlock);
  PageStore::Page last = store.New();
  for (int i = 0; i < 1000; ++i) {
    const PageStore::Page page = store.New();
    EXPECT_EQ(page, last + 1);
    last = page;
  }
}

TEST(PageStoreTest, IsThereUntilTheLastPlaceIsGone) {
  PageStore store(kBlock);
  const PageStore::Page page = store.New();
  EXPECT_FALSE(store.is_shared(page));
  EXPECT_TRUE(store.Share(page));
  EXPECT_TRUE(store.is_shared(page));
  EXPECT_EQ(store.used(), PageStore::kPageBytes);
  EXPECT_EQ(store.used_unshared(), 2 * PageStore::kPageBytes);
  store.Release(page);
  EXPECT_FALSE(store.is_shared(page));
  EXPECT_NE(store.New(), page);
  store.Release(page);
  store.Release(PageStore::kZeros);
  EXPECT_EQ(store.used(), PageStore::kPageBytes);
}

TEST(PageStoreTest, GivesBackWhatNobodyHas) {
  PageStore store(64 * kBlock);
  std::vector<PageStore::Page> pages;
  for (uint64_t i = 0; i < 64 * kBlock / PageStore::kPageBytes; ++i) {
    pages.push_back(store.New());
    *store.At(pages.back()) = 1;
  }
  EXPECT_EQ(store.held(), 64 * kBlock);
  for (const PageStore::Page page : pages) store.Release(page);
  EXPECT_EQ(store.used(), 0u);
  EXPECT_LE(store.held(), 16 * kBlock);
}

// Gives `left` bytes.
struct CountedSupply : HostSupply {
  bool Take(uint64_t bytes) override {
    if (bytes > left) return false;
    left -= bytes;
    return true;
  }
  bool MayAllocate() override { return left > 0; }
  bool IsTight() const override { return left < 32 * kBlock; }
  void UsedUp() override { ++used_up; }
  uint64_t left = 64 * kBlock;
  int used_up = 0;
};

TEST(PageStoreTest, TakesNoMoreThanItsSupplyGives) {
  CountedSupply supply;
  PageStore store(256 * kBlock);
  store.set_supply(&supply);
  EXPECT_TRUE(store.MayAllocate());
  std::vector<PageStore::Page> pages;
  for (PageStore::Page page; (page = store.New()) != PageStore::kNone;) pages.push_back(page);
  EXPECT_EQ(pages.size(), 64 * kBlock / PageStore::kPageBytes);
  EXPECT_EQ(supply.used_up, 1);
  EXPECT_FALSE(store.MayAllocate());
  EXPECT_TRUE(store.IsTight());
  // What it has it may use again, but asks anew for what it has given back.
  const size_t quarter = pages.size() / 4;
  for (size_t i = 0; i < quarter; ++i) store.Release(pages[i]);
  for (size_t i = 0; i < quarter; ++i) EXPECT_NE(store.New(), PageStore::kNone);
  EXPECT_EQ(store.New(), PageStore::kNone);
  for (size_t i = quarter; i < pages.size(); ++i) store.Release(pages[i]);
  size_t again = 0;
  while (store.New() != PageStore::kNone) ++again;
  EXPECT_LT(again, pages.size() - quarter);
  supply.left = 64 * kBlock;
  EXPECT_NE(store.New(), PageStore::kNone);
}

TEST(PageStoreTest, KnowsZeros) {
  std::vector<uint8_t> bytes(5000);
  EXPECT_TRUE(PageStore::IsZero(bytes.data(), 0));
  EXPECT_TRUE(PageStore::IsZero(bytes.data(), bytes.size()));
  bytes.back() = 1;
  EXPECT_FALSE(PageStore::IsZero(bytes.data(), bytes.size()));
  EXPECT_TRUE(PageStore::IsZero(bytes.data(), bytes.size() - 1));
}

// Random takers against a model of who has what; what a page holds is its takers' only.
TEST(PageStoreTest, KeepsEveryPageForItsTakers) {
  PageStore store(16 * kBlock);
  std::mt19937 random(3);
  std::map<PageStore::Page, int> taken;
  const auto any = [&] {
    auto it = taken.lower_bound(static_cast<uint32_t>(random() % 8192));
    return it == taken.end() ? taken.begin() : it;
  };
  for (int i = 0; i < 300'000; ++i) {
    // Waves, so that blocks fill and become empty.
    const bool grows = i / 20'000 % 2 == 0;
    const unsigned what = random() % 8;
    if (taken.empty() || what < (grows ? 5u : 2u)) {
      const PageStore::Page page = store.New();
      if (page == PageStore::kNone) continue;
      ASSERT_TRUE(taken.emplace(page, 1).second);
      std::memcpy(store.At(page), &page, sizeof page);
    } else if (what == 7) {
      const auto it = any();
      ASSERT_TRUE(store.Share(it->first));
      ++it->second;
    } else {
      const auto it = any();
      PageStore::Page written;
      std::memcpy(&written, store.At(it->first), sizeof written);
      ASSERT_EQ(written, it->first);
      ASSERT_EQ(store.is_shared(it->first), it->second > 1);
      store.Release(it->first);
      if (--it->second == 0) taken.erase(it);
    }
    ASSERT_EQ(store.used(), taken.size() * PageStore::kPageBytes);
  }
}

}  // namespace
}  // namespace phantora
