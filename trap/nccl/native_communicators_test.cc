#include "trap/nccl/native_communicators.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

namespace phantora {
namespace {

constexpr uint64_t kComm = 0x100000, kPeers = 0x110000, kConnections = 0x120000,
                   kCounters = 0x200000, kPage = 0x10000;

// A rank with its own GPU memory, and counters that it shares with others.
struct Rank {
  Rank(pid_t process, int rank, int ranks, const NativeLayout& layout) : layout(layout) {
    caller = {process, GpuPlace{0, rank}, std::make_shared<GpuContext>()};
    for (const uint64_t at : {kComm, kPeers, kConnections}) Map(at, MemoryKind::kVidmem);
    launch.communicator = kComm;
    launch.channel_mask = 2;
    launch.rank = rank;
    launch.ranks = ranks;
    Store(kComm, rank);
    Store(kComm + 4, ranks);
    Store(kComm + layout.channels_at + layout.channel_bytes, kPeers);
  }
  std::shared_ptr<MemoryObject> Map(uint64_t at, MemoryKind kind) {
    auto memory = std::make_shared<OwnedMemory>(kind, kPage);
    EXPECT_TRUE(caller.context->memory.Map(at, kPage, memory, 0));
    return memory;
  }
  template <typename T>
  void Store(uint64_t address, T value) {
    EXPECT_FALSE(caller.context->memory.Write(address, &value, sizeof value));
  }
  // The pointer to the counter of connection `index` with `peer`.
  void Connect(int peer, uint64_t index, uint64_t pointer) {
    const uint64_t of_peer = kConnections + 0x1000 * static_cast<uint64_t>(peer);
    Store(kPeers + 8 * static_cast<uint64_t>(peer), of_peer);
    Store(of_peer + index * layout.connection_bytes + 48, pointer);
  }

  const NativeLayout& layout;
  NativeCommunicators::Caller caller;
  NativeLaunch launch;
};

class NativeCommunicatorsTest : public testing::Test {
 protected:
  uint64_t Of(Rank& rank) {
    why_.clear();
    return natives_.Of(rank.caller, rank.launch, layout_, why_);
  }
  // `from` sends to `to`: both see the counter in memory of `to`, at addresses of their own.
  void Connect(Rank& from, Rank& to, uint64_t offset = 64) {
    const auto memory = to.Map(kCounters + 0x100000 * next_, MemoryKind::kVidmem);
    EXPECT_TRUE(
        from.caller.context->memory.Map(kCounters + 0x100000 * (next_ + 1), kPage, memory, 0));
    from.Connect(to.launch.rank, 0, kCounters + 0x100000 * (next_ + 1) + offset);
    to.Connect(from.launch.rank, 2, kCounters + 0x100000 * next_ + offset);
    next_ += 2;
  }

  const NativeLayout& layout_ = *FindNativeLayout(22105);
  NcclWorld world_{{}};
  NativeCommunicators natives_{&world_};
  std::string why_;
  uint64_t next_ = 0;
};

TEST_F(NativeCommunicatorsTest, RanksThatShareConnections) {
  // Two communicators of two ranks at the same time, at the same addresses.
  Rank a(10, 0, 2, layout_), b(11, 1, 2, layout_), c(12, 0, 2, layout_), d(13, 1, 2, layout_);
  c.caller.place = {0, 2};
  d.caller.place = {0, 3};
  Connect(a, b);
  Connect(b, a);
  Connect(c, d);
  const uint64_t of_a = Of(a), of_d = Of(d);
  ASSERT_NE(of_a, 0u) << why_;
  ASSERT_NE(of_d, 0u) << why_;
  EXPECT_EQ(natives_.Find(of_a), nullptr) << "rank 1 has not come";
  EXPECT_TRUE(natives_.Awaits(of_a));
  EXPECT_NE(natives_.DescribeWaiting(), "");
  const uint64_t of_c = Of(c), of_b = Of(b);
  ASSERT_NE(natives_.Find(of_a), nullptr);
  EXPECT_EQ(natives_.Find(of_a)->communicator, natives_.Find(of_b)->communicator);
  EXPECT_EQ(natives_.Find(of_c)->communicator, natives_.Find(of_d)->communicator);
  EXPECT_NE(natives_.Find(of_a)->communicator, natives_.Find(of_c)->communicator);
  EXPECT_EQ(natives_.Find(of_b)->rank, 1);
  EXPECT_EQ(natives_.TakeMade().size(), 4u);
  EXPECT_EQ(natives_.DescribeWaiting(), "");
  EXPECT_EQ(Of(a), of_a) << "the same again";
}

TEST_F(NativeCommunicatorsTest, OverOthers) {
  Rank a(10, 0, 3, layout_), b(11, 1, 3, layout_), c(12, 2, 3, layout_);
  Connect(a, b);
  Connect(b, c);
  const uint64_t of_a = Of(a);
  Of(c);
  EXPECT_EQ(natives_.Find(of_a), nullptr);
  Of(b);
  ASSERT_NE(natives_.Find(of_a), nullptr);
  EXPECT_EQ(natives_.Find(of_a)->communicator->ranks(), 3);
}

TEST_F(NativeCommunicatorsTest, AnotherOneAtTheSameAddress) {
  Rank a(10, 0, 2, layout_), b(11, 1, 2, layout_);
  Connect(a, b);
  const uint64_t of_a = Of(a);
  Of(b);
  ASSERT_NE(natives_.Find(of_a), nullptr);
  a.Store(kComm + layout_.channels_at + 8, 77);  // its ring is another
  const uint64_t again = Of(a);
  EXPECT_NE(again, of_a);
  EXPECT_EQ(natives_.Find(of_a), nullptr);
  EXPECT_EQ(natives_.Find(again), nullptr) << "rank 1 has not come to the new one";
}

TEST_F(NativeCommunicatorsTest, RefusesWhatItCannotFollow) {
  Rank a(10, 0, 2, layout_), b(11, 1, 2, layout_), c(12, 1, 2, layout_);
  a.Map(kCounters + 0x800000, MemoryKind::kSysmem);
  a.Connect(1, 0, kCounters + 0x800000);
  EXPECT_EQ(Of(a), 0u);
  EXPECT_NE(why_.find("the host's memory or a network"), std::string::npos) << why_;
  a.Connect(1, 0, 0x7777777777);
  EXPECT_EQ(Of(a), 0u) << "an unmapped connection";
  // Two ranks 1 with one connection.
  Connect(a, b);
  c.caller.context = b.caller.context;
  Of(b);
  EXPECT_EQ(Of(c), 0u);
  EXPECT_NE(why_.find("both have a rank 1"), std::string::npos) << why_;
  a.launch.communicator = 0x55550000;
  EXPECT_EQ(Of(a), 0u) << "an unmapped communicator";
}

TEST_F(NativeCommunicatorsTest, ForgetsTheDead) {
  Rank a(10, 0, 2, layout_), b(11, 1, 2, layout_);
  Connect(a, b);
  const uint64_t of_a = Of(a);
  natives_.ProcessDied(10);
  EXPECT_FALSE(natives_.Awaits(of_a));
  EXPECT_EQ(natives_.DescribeWaiting(), "");
  const uint64_t of_b = Of(b);
  EXPECT_TRUE(natives_.Awaits(of_b));
}

}  // namespace
}  // namespace phantora
