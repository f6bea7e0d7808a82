#include "trap/nccl/payload.h"

#include <gtest/gtest.h>

#include <numeric>

#include "uvm_model/memory_for_test.h"

namespace phantora {
namespace {

using nccl::Entry;
using nccl::Operation;

constexpr uint64_t kIn = 0x100000, kOut = 0x40000000, kRegion = 16 << 20;
constexpr uint8_t kInt32 = 2;
constexpr uint64_t kLargest = 4096;

using Words = std::vector<int32_t>;

// Each rank has an address space of its own, with memory at kIn and kOut.
class PayloadTest : public testing::Test {
 protected:
  struct Rank {
    std::shared_ptr<GpuContext> context = std::make_shared<GpuContext>();
    std::shared_ptr<OwnedMemory> in, out;
  };

  void MakeRanks(int count) {
    for (int i = 0; i < count; ++i) {
      Rank& rank = ranks_.emplace_back();
      rank.in = std::make_shared<OwnedMemory>(MemoryKind::kVidmem, kRegion);
      rank.out = std::make_shared<OwnedMemory>(MemoryKind::kVidmem, kRegion);
      ASSERT_TRUE(rank.context->memory.Map(kIn, kRegion, rank.in, 0));
      ASSERT_TRUE(rank.context->memory.Map(kOut, kRegion, rank.out, 0));
      payload_.Add(Ticket(i), rank.context);
    }
  }
  static NcclTicket Ticket(int rank) { return 100 + static_cast<NcclTicket>(rank); }
  AddressSpace& Memory(int rank) { return ranks_[static_cast<size_t>(rank)].context->memory; }

  void Put(int rank, uint64_t address, const Words& words) {
    EXPECT_EQ(Memory(rank).Write(address, words.data(), words.size() * 4), std::nullopt);
  }
  Words Get(int rank, uint64_t address, size_t count) {
    Words words(count);
    EXPECT_EQ(Memory(rank).Read(address, words.data(), count * 4), std::nullopt);
    return words;
  }
  // Of int32; addresses may differ by rank.
  static Entry Of(Operation operation, uint64_t count, int root = 0) {
    Entry entry{};
    entry.operation = operation;
    entry.type = kInt32;
    entry.reduction = nccl::kSum;
    entry.peer = root;
    entry.count = count;
    entry.send = kIn;
    entry.receive = kOut;
    return entry;
  }
  void Run(const std::vector<Entry>& entries) {
    std::vector<NcclShare> shares;
    for (size_t i = 0; i < entries.size(); ++i) {
      shares.push_back({Ticket(static_cast<int>(i)), static_cast<int>(i), entries[i]});
    }
    payload_.Collective(shares);
  }
  // The same for all ranks.
  void Run(const Entry& entry) { Run(std::vector<Entry>(ranks_.size(), entry)); }

  std::vector<Rank> ranks_;
  Unknowns unknowns_;
  Payload payload_{kLargest, &unknowns_};
};

TEST_F(PayloadTest, Broadcast) {
  MakeRanks(3);
  for (int rank = 0; rank < 3; ++rank) Put(rank, kIn, {rank, rank + 10});
  Run(Of(Operation::kBroadcast, 2, 1));
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(Get(rank, kOut, 3), (Words{1, 11, 0}));
  EXPECT_EQ(Get(0, kIn, 2), (Words{0, 10}));
}

TEST_F(PayloadTest, ReductionsOfZerosAreZerosWhateverTheirSize) {
  MakeRanks(2);
  constexpr uint64_t kCount = 1 << 20;  // 4 MiB, more than is computed
  Put(0, kOut, {7, 7});
  Put(1, kOut + 4 * kCount - 8, {7, 7, 7});
  Run(Of(Operation::kAllReduce, kCount));
  EXPECT_EQ(payload_.uncomputed(), 0u);
  EXPECT_EQ(Get(0, kOut, 2), (Words{0, 0}));
  EXPECT_EQ(Get(1, kOut + 4 * kCount - 8, 3), (Words{0, 0, 7}));
  // Not if one is not known to be, nor where a factor may be none.
  Put(1, kIn + 4, {1});
  Run(Of(Operation::kAllReduce, kCount));
  EXPECT_EQ(payload_.uncomputed(), 1u);
}

TEST_F(PayloadTest, LargeReductionsAreComputedIfWhatIsContributedIs) {
  MakeRanks(2);
  constexpr uint64_t kCount = 1 << 20;
  for (int rank = 0; rank < 2; ++rank) Put(rank, kIn, {1, 2});
  payload_.Add(Ticket(0), ranks_[0].context, true);
  Run(Of(Operation::kAllReduce, kCount));
  EXPECT_EQ(payload_.uncomputed(), 1u);
  EXPECT_EQ(Get(0, kOut, 2), (Words{1, 2}));
  payload_.Add(Ticket(1), ranks_[1].context, true);
  Run(Of(Operation::kAllReduce, kCount));
  EXPECT_EQ(payload_.uncomputed(), 1u);
  EXPECT_EQ(Get(0, kOut, 2), (Words{2, 4}));
}

TEST_F(PayloadTest, TaintGoesToWhoeverGetsIt) {
  MakeRanks(3);
  for (int rank = 0; rank < 3; ++rank) Put(rank, kIn, {1, 2, 3});
  Memory(2).SetTaint(kIn + 4, 4, true);
  const auto tainted = [this](int rank, int word) {
    return Memory(rank).IsTainted(kOut + 4 * static_cast<uint64_t>(word), 4);
  };
  Run(Of(Operation::kBroadcast, 3, 2));
  EXPECT_FALSE(tainted(0, 0));
  EXPECT_TRUE(tainted(0, 1));
  EXPECT_FALSE(tainted(0, 2));
  Run(Of(Operation::kBroadcast, 3, 0));
  EXPECT_FALSE(tainted(0, 1));
  // A piece of a reduction at least.
  Run(Of(Operation::kAllReduce, 3));
  for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(tainted(rank, 1));
  Run(Of(Operation::kReduceScatter, 1));
  EXPECT_FALSE(tainted(0, 0));
  EXPECT_TRUE(tainted(1, 0));
  EXPECT_FALSE(tainted(2, 0));
  // Zeros are added up without being read.
  for (int rank = 0; rank < 3; ++rank) Memory(rank).Zero(kIn, kRegion);
  Memory(1).SetTaint(kIn, 4, true);
  Run(Of(Operation::kAllReduce, 1));
  EXPECT_TRUE(tainted(0, 0));
  // What is too large is rank 0's, and not what it should be.
  Memory(1).Zero(kIn, kRegion);
  Put(0, kIn, {1});
  Run(Of(Operation::kAllReduce, kLargest));
  EXPECT_TRUE(tainted(2, 0));
}

TEST_F(PayloadTest, BroadcastInPlace) {
  MakeRanks(3);
  for (int rank = 0; rank < 3; ++rank) Put(rank, kIn, {rank});
  Entry entry = Of(Operation::kBroadcast, 1, 2);
  entry.receive = kIn;
  std::vector<Entry> entries(3, entry);
  entries[0].send = entries[1].send = 0;  // only the root's counts
  Run(entries);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(Get(rank, kIn, 1), (Words{2}));
  EXPECT_EQ(unknowns_.Report(), "");
}

TEST_F(PayloadTest, AllGather) {
  MakeRanks(3);
  for (int rank = 0; rank < 3; ++rank) Put(rank, kIn, {rank, rank + 10});
  Run(Of(Operation::kAllGather, 2));
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(Get(rank, kOut, 7), (Words{0, 10, 1, 11, 2, 12, 0}));
  }
}

TEST_F(PayloadTest, AllGatherInPlace) {
  MakeRanks(3);
  std::vector<Entry> entries;
  for (int rank = 0; rank < 3; ++rank) {
    Put(rank, kOut + static_cast<uint64_t>(rank) * 8, {rank, rank + 10});
    entries.push_back(Of(Operation::kAllGather, 2));
    entries.back().send = kOut + static_cast<uint64_t>(rank) * 8;
  }
  Run(entries);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(Get(rank, kOut, 6), (Words{0, 10, 1, 11, 2, 12}));
  }
}

TEST_F(PayloadTest, AllReduce) {
  MakeRanks(3);
  for (int rank = 0; rank < 3; ++rank) Put(rank, kIn, {rank, 100 * rank});
  Run(Of(Operation::kAllReduce, 2));
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(Get(rank, kOut, 3), (Words{3, 300, 0}));
  Entry entry = Of(Operation::kAllReduce, 2);
  entry.receive = kIn;
  entry.reduction = nccl::kMax;
  Run(entry);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(Get(rank, kIn, 2), (Words{2, 200}));
}

TEST_F(PayloadTest, ReduceWritesToTheRootAlone) {
  MakeRanks(3);
  for (int rank = 0; rank < 3; ++rank) Put(rank, kIn, {rank + 1});
  std::vector<Entry> entries(3, Of(Operation::kReduce, 1, 2));
  entries[0].receive = 0;  // not needed
  Run(entries);
  EXPECT_EQ(Get(2, kOut, 1), (Words{6}));
  EXPECT_EQ(Get(1, kOut, 1), (Words{0}));
  EXPECT_EQ(unknowns_.Report(), "");
}

TEST_F(PayloadTest, ReduceScatter) {
  MakeRanks(3);
  for (int rank = 0; rank < 3; ++rank) Put(rank, kIn, {1, 2, 3, 4, 5, rank});
  Run(Of(Operation::kReduceScatter, 2));
  EXPECT_EQ(Get(0, kOut, 3), (Words{3, 6, 0}));
  EXPECT_EQ(Get(1, kOut, 3), (Words{9, 12, 0}));
  EXPECT_EQ(Get(2, kOut, 3), (Words{15, 3, 0}));
}

TEST_F(PayloadTest, ReduceScatterInPlace) {
  MakeRanks(2);
  std::vector<Entry> entries(2, Of(Operation::kReduceScatter, 1));
  for (int rank = 0; rank < 2; ++rank) {
    Put(rank, kIn, {10, 20});
    entries[static_cast<size_t>(rank)].receive = kIn + static_cast<uint64_t>(rank) * 4;
  }
  Run(entries);
  EXPECT_EQ(Get(0, kIn, 2), (Words{20, 20}));
  EXPECT_EQ(Get(1, kIn, 2), (Words{10, 40}));
}

TEST_F(PayloadTest, ScalarsInMemoryAndNot) {
  MakeRanks(2);
  Put(0, kIn, {3});
  Put(1, kIn, {5});
  Put(1, kIn + 0x1000, {100, 7});
  std::vector<Entry> entries(2, Of(Operation::kAllReduce, 1));
  for (Entry& entry : entries) entry.reduction = nccl::kPreMulSum;
  entries[0].scalar = 2;
  entries[1].scalar = kIn + 0x1000;
  entries[1].scalar_on_device = 1;
  Run(entries);
  EXPECT_EQ(Get(0, kOut, 1), (Words{506}));
  entries[1].scalar = 0x10;
  Put(0, kOut, {0});
  Run(entries);
  EXPECT_EQ(Get(0, kOut, 1), (Words{0}));
  EXPECT_NE(unknowns_.Report().find("not mapped 0x10: 1 times"), std::string::npos);
}

TEST_F(PayloadTest, Messages) {
  MakeRanks(2);
  Put(0, kIn, {1, 2, 3});
  Put(1, kOut, {7, 7, 7});
  Entry receive = Of(Operation::kReceive, 3);
  receive.send = 0;
  payload_.Message({Ticket(0), 0, Of(Operation::kSend, 2, 1)}, {Ticket(1), 1, receive});
  EXPECT_EQ(Get(1, kOut, 3), (Words{1, 2, 7}));  // as many as are sent
  // To itself.
  payload_.Message({Ticket(0), 0, Of(Operation::kSend, 2, 0)}, {Ticket(0), 0, receive});
  EXPECT_EQ(Get(0, kOut, 3), (Words{1, 2, 0}));
}

TEST_F(PayloadTest, RanksMayShareAnAddressSpace) {
  MakeRanks(2);
  payload_.Add(Ticket(1), ranks_[0].context);
  Put(0, kIn, {1, 2});
  std::vector<Entry> entries(2, Of(Operation::kAllReduce, 1));
  entries[1].send = kIn + 4;
  entries[1].receive = kOut + 4;
  Run(entries);
  EXPECT_EQ(Get(0, kOut, 2), (Words{3, 3}));
}

// --- Mistakes of the program ----------------------------------------------------------

TEST_F(PayloadTest, MemoryThatIsNotMappedIsCounted) {
  MakeRanks(3);
  for (int rank = 0; rank < 3; ++rank) Put(rank, kIn, {rank + 1});
  for (const Operation operation :
       {Operation::kBroadcast, Operation::kReduce, Operation::kAllGather, Operation::kReduceScatter,
        Operation::kAllReduce}) {
    std::vector<Entry> entries(3, Of(operation, 1, 1));
    entries[1].send = 0xdead0000;
    Run(entries);
    entries[1].send = kIn;
    entries[1].receive = 0xdead8000;
    Run(entries);
  }
  const std::string report = unknowns_.Report();
  EXPECT_NE(report.find("0xdead0000"), std::string::npos) << report;
  EXPECT_NE(report.find("0xdead8000"), std::string::npos) << report;
  // The others have the result.
  EXPECT_EQ(Get(2, kOut, 1), (Words{6}));
}

TEST_F(PayloadTest, HostileAddressesAreCounted) {
  MakeRanks(2);
  Entry send = Of(Operation::kSend, 1000, 1), receive = Of(Operation::kReceive, 1000);
  // Beyond the end of the memory, and around the end of all addresses.
  send.send = kIn + kRegion - 100;
  payload_.Message({Ticket(0), 0, send}, {Ticket(1), 1, receive});
  send.send = UINT64_MAX - 100;
  payload_.Message({Ticket(0), 0, send}, {Ticket(1), 1, receive});
  send.send = kIn;
  receive.receive = UINT64_MAX;
  payload_.Message({Ticket(0), 0, send}, {Ticket(1), 1, receive});
  send.count = uint64_t{1} << 45;
  payload_.Message({Ticket(0), 0, send}, {Ticket(1), 1, receive});
  EXPECT_EQ(ResidentBytes(*ranks_[1].out), 0u);
  const std::string report = unknowns_.Report();
  EXPECT_NE(report.find("0x1100000: 2 times"), std::string::npos) << report;
}

TEST_F(PayloadTest, NothingNeedsNoMemory) {
  MakeRanks(2);
  for (const Operation operation :
       {Operation::kBroadcast, Operation::kReduce, Operation::kAllGather, Operation::kReduceScatter,
        Operation::kAllReduce}) {
    Entry entry = Of(operation, 0);
    entry.send = entry.receive = 0;
    Run(entry);
  }
  EXPECT_EQ(unknowns_.Report(), "");
}

// --- Large ones -----------------------------------------------------------------------

TEST_F(PayloadTest, LargeReductionsGiveRankZerosContribution) {
  MakeRanks(3);
  constexpr uint64_t kCount = kLargest / 4;
  for (int rank = 0; rank < 3; ++rank) Put(rank, kIn, Words(kCount + 1, rank + 1));
  Run(Of(Operation::kAllReduce, kCount));
  EXPECT_EQ(Get(1, kOut, 1), (Words{6}));  // of just that size they are computed
  EXPECT_EQ(payload_.uncomputed(), 0u);
  Run(Of(Operation::kAllReduce, kCount + 1));
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(Get(rank, kOut, kCount + 1), Words(kCount + 1, 1));
  EXPECT_EQ(payload_.uncomputed(), 1u);
  // In place.
  Entry entry = Of(Operation::kAllReduce, kCount + 1);
  entry.receive = kIn;
  Run(entry);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(Get(rank, kIn, kCount + 1), Words(kCount + 1, 1));
}

TEST_F(PayloadTest, LargeReductionsToOneRank) {
  MakeRanks(3);
  for (int rank = 0; rank < 3; ++rank) Put(rank, kIn, Words(2000, rank + 1));
  Run(Of(Operation::kReduce, 2000, 2));
  EXPECT_EQ(Get(2, kOut, 2000), Words(2000, 1));
  EXPECT_EQ(Get(0, kOut, 1), (Words{0}));
}

// In place, rank 0 overwrites nothing that others still get: its own part is where it is.
TEST_F(PayloadTest, LargeReduceScattersGiveEachRankItsPart) {
  for (const bool in_place : {false, true}) {
    ranks_.clear();
    MakeRanks(3);
    Words words(3000);
    std::iota(words.begin(), words.end(), 0);
    std::vector<Entry> entries(3, Of(Operation::kReduceScatter, 1000));
    for (int rank = 0; rank < 3; ++rank) {
      Put(rank, kIn, rank == 0 ? words : Words(3000, -1));
      if (in_place) {
        entries[static_cast<size_t>(rank)].receive = kIn + static_cast<uint64_t>(rank) * 4000;
      }
    }
    Run(entries);
    for (int rank = 0; rank < 3; ++rank) {
      const Words part(words.begin() + rank * 1000, words.begin() + (rank + 1) * 1000);
      EXPECT_EQ(Get(rank, entries[static_cast<size_t>(rank)].receive, 1000), part);
    }
  }
}

TEST_F(PayloadTest, MemoryThatWasNeverWrittenStaysSo) {
  MakeRanks(3);
  constexpr uint64_t kPart = kRegion / 3 / 4096 * 4096;
  Run(Of(Operation::kAllGather, kPart / 4));
  Run(Of(Operation::kAllReduce, kRegion / 4));
  Run(Of(Operation::kBroadcast, kRegion / 4));
  Run(Of(Operation::kReduceScatter, kPart / 4));
  for (const Rank& rank : ranks_) {
    EXPECT_EQ(ResidentBytes(*rank.in), 0u);
    EXPECT_EQ(ResidentBytes(*rank.out), 0u);
  }
  // One page of it is written.
  Put(0, kIn + (5 << 20), {42});
  Run(Of(Operation::kBroadcast, kRegion / 4));
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(Get(rank, kOut + (5 << 20), 1), (Words{42}));
  EXPECT_EQ(ResidentBytes(*ranks_[0].in), 4096u);
  for (const Rank& rank : ranks_) EXPECT_EQ(ResidentBytes(*rank.out), 4096u);
  EXPECT_EQ(ResidentBytes(*ranks_[1].in), 0u);
}

TEST_F(PayloadTest, WhatWasWrittenIsZeroAgain) {
  MakeRanks(2);
  Put(1, kOut, Words(kRegion / 4, 7));
  Run(Of(Operation::kBroadcast, kRegion / 4));
  EXPECT_EQ(Get(1, kOut, kRegion / 4), Words(kRegion / 4, 0));
}

}  // namespace
}  // namespace phantora
