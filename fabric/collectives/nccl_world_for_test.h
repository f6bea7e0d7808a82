// A world of NCCL operations whose network and payload are made up, for its tests.
#ifndef PHANTORA_FABRIC_COLLECTIVES_NCCL_WORLD_FOR_TEST_H_
#define PHANTORA_FABRIC_COLLECTIVES_NCCL_WORLD_FOR_TEST_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "fabric/collectives/nccl_world.h"

namespace phantora::nccl_test {

using nccl::Entry;
using nccl::Handle;
using nccl::Operation;

inline constexpr uint8_t kFloat = 7, kInt8 = 0;
inline constexpr VirtualTime kNever = VirtualTime::Infinity();

inline VirtualTime At(int64_t microseconds) {
  return VirtualTime() + VirtualSpan::Microseconds(microseconds);
}

// A collective takes 10 us, and a microsecond for each byte that it has link 0 for itself; a
// message 5 us and the same. Without a link, only the latency.
class FakePlanner : public TransferPlanner {
 public:
  explicit FakePlanner(FlowNetwork* network) : link_(network->AddLink(1e6)) {}

  std::shared_ptr<const TransferPlan> Collective(const Communicator&, const CollectiveWork& work,
                                                 bool) override {
    return Make("collective", 10, work.bytes, 3);
  }
  std::shared_ptr<const TransferPlan> Message(const Communicator&, const MessageWork& work,
                                              bool) override {
    asked.push_back(absl::StrCat(work.from, ">", work.to, " ", work.bytes, "/", work.messages,
                                 work.is_exchange ? " exchanged" : ""));
    return Make("message", 5, work.bytes, 2);
  }

  bool uses_link = true;
  std::vector<std::string> asked;

 private:
  std::shared_ptr<const TransferPlan> Make(const char* name, int latency, int64_t bytes, int sms) {
    TransferPlan plan;
    plan.name = name;
    plan.latency = VirtualSpan::Microseconds(latency);
    plan.sms = sms;
    plan.memory_share = 0.25 * sms;
    if (uses_link) plan.parts.push_back({{{link_, 1}}, static_cast<double>(bytes), 0});
    return std::make_shared<TransferPlan>(plan);
  }
  const LinkId link_;
};

// What was moved, as text.
class FakePayload : public PayloadMover {
 public:
  void Collective(absl::Span<const NcclShare> shares) override {
    std::vector<std::string> ranks;
    for (const NcclShare& share : shares) {
      ranks.push_back(absl::StrCat(share.rank, "@", share.entry.send));
    }
    moved.push_back(absl::StrCat(Describe(shares[0].entry), ": ", absl::StrJoin(ranks, " ")));
  }
  void Message(const NcclShare& send, const NcclShare& receive) override {
    moved.push_back(absl::StrCat(send.rank, "@", send.entry.send, ">", receive.rank, "@",
                                 receive.entry.receive));
  }
  std::vector<std::string> moved;
};

inline Entry Of(Operation operation, uint64_t count, uint8_t type = kInt8,
                uint8_t reduction = nccl::kSum, int peer = 0) {
  Entry entry{};
  entry.operation = operation;
  entry.count = count;
  entry.type = type;
  entry.reduction = reduction;
  entry.peer = peer;
  return entry;
}
inline Entry AllReduce(uint64_t bytes, uint64_t address = 0) {
  Entry entry = Of(Operation::kAllReduce, bytes);
  entry.send = address;
  return entry;
}
inline Entry Send(int to, uint64_t bytes, uint64_t address = 0) {
  Entry entry = Of(Operation::kSend, bytes, kInt8, 0, to);
  entry.send = address;
  return entry;
}
inline Entry Receive(int from, uint64_t bytes, uint64_t address = 0) {
  Entry entry = Of(Operation::kReceive, bytes, kInt8, 0, from);
  entry.receive = address;
  return entry;
}

class NcclWorldTest : public testing::Test {
 protected:
  // Processes 0, 1, ... become its ranks.
  std::vector<NcclEndpoint*> Communicator(int ranks, int per_host = 1 << 20) {
    nccl::Join join{};
    join.id[0] = ++ids_;
    join.ranks = ranks;
    std::vector<NcclEndpoint*> endpoints;
    for (join.rank = 0; join.rank < ranks; ++join.rank) {
      const auto process = static_cast<uint64_t>(join.rank);
      const Handle handle = world_.communicators().Join(
          {process, {join.rank / per_host, join.rank % per_host}}, join);
      endpoints.push_back(world_.communicators().Find(handle));
    }
    return endpoints;
  }
  NcclTicket Start(NcclEndpoint* endpoint, std::vector<Entry> entries, int64_t at,
                   uint64_t sequence = 0) {
    EXPECT_EQ(NcclWorld::Check(*endpoint, entries), "");
    return world_.Start(*endpoint, std::move(entries), sequence, At(at));
  }
  void RunAll() { world_.Advance(VirtualTime::Infinity()); }
  std::string Failures() const { return absl::StrJoin(failures_, "\n---\n"); }

  FlowNetwork network_;
  FakePlanner planner_{&network_};
  FakePayload payload_;
  std::vector<std::string> failures_, ended_;
  NcclWorld world_{{.network = &network_,
                    .planner = &planner_,
                    .payload = &payload_,
                    .failed = [this](const std::string& text) { failures_.push_back(text); },
                    .ended =
                        [this](const NcclWorld::Options::Ended& ended) {
                          ended_.push_back(absl::StrCat(
                              ended.plan, " ", ended.first.nanoseconds() / 1000, " ",
                              ended.all.nanoseconds() / 1000, " ", ended.end.nanoseconds() / 1000));
                        }}};
  uint8_t ids_ = 0;
};

}  // namespace phantora::nccl_test

#endif  // PHANTORA_FABRIC_COLLECTIVES_NCCL_WORLD_FOR_TEST_H_
