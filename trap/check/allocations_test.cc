#include "trap/check/allocations.h"

#include "gtest/gtest.h"

namespace phantora {
namespace {

using Relation = Allocations::Relation;
constexpr uint64_t kBase = 0x7f0000000000, kPiece = 2 << 20;

TEST(Allocations, AccessesBelongToOneOrToNone) {
  Allocations allocations;
  EXPECT_EQ(allocations.Look(kBase, 4).relation, Relation::kUnknown);
  ASSERT_TRUE(allocations.Add({.begin = kBase, .bytes = 100, .where = "first"}));
  ASSERT_TRUE(allocations.Add({.begin = kBase + 512, .bytes = 100, .where = "second"}));
  EXPECT_EQ(allocations.Look(kBase, 100).relation, Relation::kInside);
  EXPECT_EQ(allocations.Look(kBase + 599, 13).relation, Relation::kInside);
  const auto behind = allocations.Look(kBase + 96, 8);
  EXPECT_EQ(behind.relation, Relation::kOutside);
  EXPECT_EQ(behind.first, kBase + 100);
  EXPECT_EQ(behind.allocation->where, "first");
  EXPECT_EQ(allocations.Look(kBase + 500, 4).allocation->where, "second");
  EXPECT_EQ(allocations.Look(kBase + kPiece - 4, 4).allocation->where, "second");
  // Where nothing was ever allocated there may be anything.
  EXPECT_EQ(allocations.Look(kBase + kPiece, 4).relation, Relation::kUnknown);
  EXPECT_EQ(allocations.Look(kBase - 4, 4).relation, Relation::kUnknown);
}

TEST(Allocations, FreedMemoryIsKnownUntilSomebodyElseHasIt) {
  Allocations allocations;
  ASSERT_TRUE(allocations.Add({.begin = kBase, .bytes = 100, .where = "first"}));
  ASSERT_TRUE(allocations.Add({.begin = kBase + 4096, .bytes = 100, .where = "other"}));
  EXPECT_FALSE(allocations.BeginFree(kBase + 4));
  EXPECT_TRUE(allocations.BeginFree(kBase));
  // What runs on the GPU may still use it.
  EXPECT_EQ(allocations.Look(kBase, 4).relation, Relation::kInside);
  EXPECT_EQ(allocations.Freed(kBase), 100u);
  const auto freed = allocations.Look(kBase + 96, 4);
  EXPECT_EQ(freed.relation, Relation::kFreed);
  EXPECT_EQ(freed.allocation->where, "first");
  ASSERT_TRUE(allocations.Add({.begin = kBase, .bytes = 50, .where = "second"}));
  EXPECT_EQ(allocations.Look(kBase, 50).relation, Relation::kInside);
  EXPECT_EQ(allocations.Look(kBase + 60, 4).relation, Relation::kOutside);
  // Once all is freed, libcuda may have other things there.
  for (const uint64_t begin : {kBase, kBase + 4096}) {
    EXPECT_TRUE(allocations.BeginFree(begin));
    allocations.Freed(begin);
  }
  EXPECT_EQ(allocations.Look(kBase, 4).relation, Relation::kUnknown);
}

TEST(Allocations, WhoIsToldLateOfAFreeKeepsWhatIsThereNow) {
  Allocations allocations;
  ASSERT_TRUE(allocations.Add({.begin = kBase, .bytes = 100, .where = "first"}));
  EXPECT_TRUE(allocations.BeginFree(kBase));
  ASSERT_TRUE(allocations.Add({.begin = kBase, .bytes = 200, .where = "second"}));
  EXPECT_EQ(allocations.Freed(kBase), 0u);
  EXPECT_EQ(allocations.Look(kBase, 200).relation, Relation::kInside);
  ASSERT_EQ(allocations.NotFreed().size(), 1u);
  EXPECT_EQ(allocations.NotFreed()[0]->where, "second");
  EXPECT_TRUE(allocations.BeginFree(kBase));
  allocations.Keep(kBase);  // CUDA has refused
  EXPECT_EQ(allocations.NotFreed().size(), 1u);
}

TEST(Allocations, WhatGoesWithItsContextWasNeverFreed) {
  Allocations allocations;
  ASSERT_TRUE(allocations.Add({.begin = kBase, .bytes = 100, .where = "first"}));
  ASSERT_TRUE(allocations.Add({.begin = kBase + 512, .bytes = 100, .where = "second"}));
  ASSERT_TRUE(allocations.Add({.begin = kBase, .bytes = kPiece, .where = "third"}));
  ASSERT_EQ(allocations.NotFreed().size(), 3u);
  EXPECT_EQ(allocations.NotFreed()[1]->where, "second");
}

TEST(Allocations, InTheOrderOfAStreamNothingIsWrongAndNothingIsLeft) {
  Allocations allocations;
  ASSERT_TRUE(allocations.Add({.begin = kBase, .bytes = 100, .kind = check::Kind::kPool}));
  EXPECT_TRUE(allocations.FreeInOrder(kBase));
  EXPECT_EQ(allocations.Look(kBase, 100).relation, Relation::kInside);
  EXPECT_TRUE(allocations.NotFreed().empty());
  ASSERT_TRUE(allocations.Add({.begin = kBase, .bytes = 200, .kind = check::Kind::kPool}));
  EXPECT_EQ(allocations.NotFreed().size(), 1u);
}

TEST(Allocations, OfTheHostsMemoryOnlyItsInsideIsKnown) {
  Allocations allocations;
  ASSERT_TRUE(allocations.Add({.begin = kBase, .bytes = 100, .kind = check::Kind::kHost}));
  EXPECT_EQ(allocations.Look(kBase, 100).relation, Relation::kInside);
  EXPECT_EQ(allocations.Look(kBase + 96, 8).relation, Relation::kUnknown);
  EXPECT_EQ(allocations.Look(kBase + 200, 8).relation, Relation::kUnknown);
}

TEST(Allocations, WhatMakesNoSenseIsRefused) {
  Allocations allocations;
  EXPECT_FALSE(allocations.Add({.begin = kBase, .bytes = 0}));
  EXPECT_FALSE(allocations.Add({.begin = ~uint64_t{0} - 10, .bytes = 100}));
  EXPECT_FALSE(allocations.FreeInOrder(kBase));
  EXPECT_TRUE(allocations.NotFreed().empty());
}

}  // namespace
}  // namespace phantora
