#include "trap/uvm/va_ranges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace phantora {
namespace {

using Kind = VaRanges::Kind;
using Outcome = VaRanges::Outcome;
using Piece = VaRanges::Piece;

constexpr uint64_t kPage = 4096;
constexpr size_t kMany = 1000;

std::vector<Piece> PiecesOf(const VaRanges& ranges) {
  std::vector<Piece> pieces;
  for (const auto& [base, range] : ranges.all()) {
    pieces.emplace_back(base / kPage, range.length / kPage);
  }
  return pieces;
}

// In pages.
Outcome Add(VaRanges& ranges, uint64_t base, uint64_t length, Kind kind = Kind::kManaged) {
  return ranges.Add(base * kPage, length * kPage, kind);
}
Outcome Replace(VaRanges& ranges, uint64_t base, uint64_t length,
                std::vector<Piece>* ended = nullptr) {
  std::vector<Piece> bytes;
  const Outcome outcome = ranges.Replace(base * kPage, length * kPage, &bytes);
  for (const auto& [at, size] : bytes) {
    if (ended != nullptr) ended->emplace_back(at / kPage, size / kPage);
  }
  return outcome;
}

TEST(VaRangesTest, RangesDoNotOverlap) {
  VaRanges ranges(kMany);
  EXPECT_EQ(Add(ranges, 10, 10), Outcome::kDone);
  for (const auto& [base, length] :
       std::vector<Piece>{{10, 10}, {9, 2}, {19, 2}, {12, 3}, {0, 100}, {10, 1}, {19, 1}, {5, 6}}) {
    EXPECT_EQ(Add(ranges, base, length), Outcome::kInUse) << base << " " << length;
  }
  EXPECT_EQ(Add(ranges, 20, 1), Outcome::kDone);
  EXPECT_EQ(Add(ranges, 9, 1), Outcome::kDone);
  EXPECT_EQ(PiecesOf(ranges), (std::vector<Piece>{{9, 1}, {10, 10}, {20, 1}}));
}

// A new mapping of pages 10 to 19 over one old range, in every position.
struct Case {
  const char* name;
  Piece old;
  std::vector<Piece> ended, after;
};

class ReplaceTest : public testing::TestWithParam<Case> {};

TEST_P(ReplaceTest, KeepsWhatLiesBesideAndEndsWhatLiesIn) {
  VaRanges ranges(kMany);
  ASSERT_EQ(Add(ranges, GetParam().old.first, GetParam().old.second), Outcome::kDone);
  std::vector<Piece> ended;
  EXPECT_EQ(Replace(ranges, 10, 10, &ended), Outcome::kDone);
  EXPECT_EQ(ended, GetParam().ended);
  EXPECT_EQ(PiecesOf(ranges), GetParam().after);
}

INSTANTIATE_TEST_SUITE_P(
    Positions, ReplaceTest,
    testing::Values(Case{"Before", {2, 8}, {}, {{2, 8}, {10, 10}}},
                    Case{"Behind", {20, 5}, {}, {{10, 10}, {20, 5}}},
                    Case{"Same", {10, 10}, {{10, 10}}, {{10, 10}}},
                    Case{"Inside", {12, 3}, {{12, 3}}, {{10, 10}}},
                    Case{"Around", {5, 20}, {{10, 10}}, {{5, 5}, {10, 10}, {20, 5}}},
                    Case{"ReachesIn", {5, 10}, {{10, 5}}, {{5, 5}, {10, 10}}},
                    Case{"ReachesOut", {15, 10}, {{15, 5}}, {{10, 10}, {20, 5}}},
                    Case{"BeginsWith", {10, 3}, {{10, 3}}, {{10, 10}}},
                    Case{"EndsWith", {17, 3}, {{17, 3}}, {{10, 10}}},
                    Case{"BeginsWithAndGoesOn", {10, 20}, {{10, 10}}, {{10, 10}, {20, 10}}}),
    [](const auto& info) { return info.param.name; });

TEST(VaRangesTest, SeveralAreReplacedAtOnce) {
  VaRanges ranges(kMany);
  for (const uint64_t base : {8, 12, 14, 18}) Add(ranges, base, base == 18 ? 5 : 3 - base % 8 / 4);
  std::vector<Piece> ended;
  EXPECT_EQ(Replace(ranges, 10, 10, &ended), Outcome::kDone);
  EXPECT_EQ(PiecesOf(ranges).front().first, 8u);
  EXPECT_EQ(PiecesOf(ranges).back(), (Piece{20, 3}));
  EXPECT_NE(ranges.Around(10 * kPage, 10 * kPage), nullptr);
}

TEST(VaRangesTest, OtherKindsAreNotReplaced) {
  for (const Kind kind : {Kind::kExternal, Kind::kSparse}) {
    VaRanges ranges(kMany);
    Add(ranges, 8, 4);
    Add(ranges, 15, 10, kind);
    std::vector<Piece> ended;
    EXPECT_EQ(Replace(ranges, 10, 10, &ended), Outcome::kInUse);
    EXPECT_TRUE(ended.empty());
    EXPECT_EQ(PiecesOf(ranges), (std::vector<Piece>{{8, 4}, {15, 10}}));  // as it was
  }
}

TEST(VaRangesTest, ThereIsABound) {
  VaRanges ranges(4);
  for (uint64_t base = 0; base < 4; ++base) EXPECT_EQ(Add(ranges, base * 2, 1), Outcome::kDone);
  EXPECT_EQ(Add(ranges, 100, 1), Outcome::kFull);
  EXPECT_EQ(Replace(ranges, 100, 1), Outcome::kFull);
  EXPECT_EQ(PiecesOf(ranges).size(), 4u);
}

TEST(VaRangesTest, FindsWhatHoldsAllOfIt) {
  VaRanges ranges(kMany);
  Add(ranges, 10, 10, Kind::kExternal);
  EXPECT_NE(ranges.Around(10 * kPage, 10 * kPage), nullptr);
  EXPECT_NE(ranges.Around(15 * kPage, kPage), nullptr);
  EXPECT_EQ(ranges.Around(15 * kPage, 6 * kPage), nullptr);
  EXPECT_EQ(ranges.Around(9 * kPage, 2 * kPage), nullptr);
  EXPECT_EQ(ranges.Around(0, kPage), nullptr);
  EXPECT_EQ(ranges.Around(15 * kPage, ~uint64_t{0}), nullptr);
  EXPECT_NE(ranges.At(10 * kPage), nullptr);
  EXPECT_EQ(ranges.At(11 * kPage), nullptr);
  ranges.Remove(10 * kPage);
  EXPECT_TRUE(ranges.all().empty());
}

// Beside a plain table of pages.
TEST(VaRangesTest, ASemaphorePoolIsMappedAsAWholeOnly) {
  VaRanges ranges(kMany);
  ASSERT_EQ(Add(ranges, 10, 10, Kind::kSemaphorePool), Outcome::kDone);
  std::vector<Piece> ended;
  EXPECT_EQ(Replace(ranges, 10, 5, &ended), Outcome::kInUse);
  EXPECT_EQ(Replace(ranges, 5, 15, &ended), Outcome::kInUse);
  EXPECT_EQ(Replace(ranges, 10, 10, &ended), Outcome::kDone);
  EXPECT_TRUE(ended.empty());
  EXPECT_EQ(ranges.At(10 * kPage)->kind, Kind::kSemaphorePool);
}

TEST(VaRangesTest, DoesWhatATableOfPagesDoes) {
  std::mt19937_64 random(7);
  VaRanges ranges(kMany);
  constexpr uint64_t kPages = 64;
  std::vector<int> table(kPages, -1);  // the kind
  for (int i = 0; i < 20000; ++i) {
    const uint64_t base = random() % kPages, length = 1 + random() % (kPages - base);
    const Kind kinds[] = {Kind::kManaged, Kind::kExternal, Kind::kSparse};
    const Kind kind = kinds[random() % std::size(kinds)];
    bool free = true, managed = true;
    for (uint64_t page = base; page < base + length; ++page) {
      free &= table[page] < 0;
      managed &= table[page] <= static_cast<int>(Kind::kManaged);
    }
    switch (random() % 3) {
      case 0:
        EXPECT_EQ(Add(ranges, base, length, kind) == Outcome::kDone, free);
        if (free) std::fill_n(table.begin() + base, length, static_cast<int>(kind));
        break;
      case 1: {
        std::vector<Piece> ended;
        uint64_t was = 0, pages = 0;
        for (uint64_t page = base; page < base + length; ++page) was += table[page] == 0 ? 1 : 0;
        EXPECT_EQ(Replace(ranges, base, length, &ended) == Outcome::kDone, managed);
        for (const Piece& piece : ended) pages += piece.second;
        EXPECT_EQ(pages, managed ? was : 0);
        if (managed) std::fill_n(table.begin() + base, length, 0);
        break;
      }
      case 2:
        if (const auto* range = ranges.At(base * kPage)) {
          std::fill_n(table.begin() + base, range->length / kPage, -1);
          ranges.Remove(base * kPage);
        }
        break;
    }
    uint64_t covered = 0;
    for (const auto& [at, range] : ranges.all()) covered += range.length / kPage;
    EXPECT_EQ(covered, kPages - std::count(table.begin(), table.end(), -1));
  }
}

}  // namespace
}  // namespace phantora
