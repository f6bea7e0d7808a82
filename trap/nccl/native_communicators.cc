#include "trap/nccl/native_communicators.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace phantora {
namespace {

constexpr size_t kHeadBytes = 24;             // rank, nRanks and the buffers' sizes
constexpr size_t kChannelBytes = 32;          // peers, and the ring's neighbours
constexpr size_t kTailAt = 48, kHeadAt = 56;  // of ncclConnInfo, in all releases
constexpr size_t kConnections = 4;            // of a peer: send[2], recv[2]
constexpr size_t kMostEnds = 1 << 16;
constexpr int kMostChannels = 64;
// Channels that are looked at for a launch; the others' connections are between the same ranks.
constexpr int kMostLooked = 8;

}  // namespace

std::vector<uint8_t> NativeCommunicators::HeadOf(const Caller& caller, uint64_t address,
                                                 const NativeLayout& layout) {
  std::vector<uint8_t> head(kHeadBytes + kChannelBytes);
  AddressSpace& memory = caller.context->memory;
  if (memory.Read(address, head.data(), kHeadBytes) ||
      memory.Read(address + layout.channels_at, head.data() + kHeadBytes, kChannelBytes)) {
    return {};
  }
  return head;
}

bool NativeCommunicators::ReadConnections(const NativeLaunch& launch, const NativeLayout& layout,
                                          End& end, std::string& why) {
  AddressSpace& memory = end.caller.context->memory;
  int looked = 0;
  for (int channel = 0; channel < kMostChannels && looked < kMostLooked; ++channel) {
    if ((launch.channel_mask >> channel & 1) == 0) continue;
    ++looked;
    uint64_t list = 0;
    const uint64_t at = launch.communicator + layout.channels_at +
                        static_cast<uint64_t>(channel) * layout.channel_bytes;
    if (memory.Read(at, &list, sizeof list)) return why = "a channel is not mapped", false;
    std::vector<uint64_t> peers(static_cast<size_t>(end.ranks));
    if (memory.Read(list, peers.data(), peers.size() * sizeof peers[0])) {
      return why = "the list of peers is not mapped", false;
    }
    for (int peer = 0; peer < end.ranks; ++peer) {
      const uint64_t connections = peers[static_cast<size_t>(peer)];
      if (peer == end.rank || connections == 0) continue;
      std::vector<uint8_t> bytes(kConnections * layout.connection_bytes);
      if (memory.Read(connections, bytes.data(), bytes.size())) {
        return why = absl::StrFormat("connections to rank %d are not mapped", peer), false;
      }
      for (size_t i = 0; i < kConnections; ++i) {
        for (const size_t counter : {kTailAt, kHeadAt}) {
          uint64_t pointer;
          std::memcpy(&pointer, bytes.data() + i * layout.connection_bytes + counter,
                      sizeof pointer);
          if (pointer == 0) continue;
          const auto piece = memory.Find(pointer);
          if (!piece) {
            return why = absl::StrFormat("a connection to rank %d is not mapped", peer), false;
          }
          if (piece->memory->kind() != MemoryKind::kVidmem) {
            return why = absl::StrFormat(
                       "rank %d reaches rank %d over the host's memory or a network, for which "
                       "NCCL's own threads would have to see what its kernels write",
                       end.rank, peer),
                   false;
          }
          end.places.insert({piece->memory, piece->offset});
        }
      }
    }
  }
  return true;
}

uint64_t NativeCommunicators::Of(const Caller& caller, const NativeLaunch& launch,
                                 const NativeLayout& layout, std::string& why) {
  std::vector<uint8_t> head = HeadOf(caller, launch.communicator, layout);
  if (head.empty()) return why = "its communicator is not mapped", 0;
  auto [known, is_new] = numbers_.try_emplace({caller.process, launch.communicator}, 0);
  if (!is_new) {
    End& end = ends_.at(known->second);
    if (end.head == head && end.caller.context == caller.context) {
      if (end.handle != 0) return known->second;
    } else {
      Forget(known->second);
      known = numbers_.try_emplace({caller.process, launch.communicator}, 0).first;
    }
  }
  uint64_t number = known->second;
  if (number == 0) {
    if (ends_.size() >= kMostEnds) {
      numbers_.erase(known);
      return why = "too many communicators", 0;
    }
    number = known->second = next_++;
    End& end = ends_[number];
    end.caller = caller;
    end.address = launch.communicator;
    end.rank = launch.rank;
    end.ranks = launch.ranks;
    end.head = std::move(head);
  }
  if (!ReadConnections(launch, layout, ends_.at(number), why)) {
    Forget(number);
    return 0;
  }
  MakeIfComplete(number, why);
  return why.empty() ? number : 0;
}

void NativeCommunicators::MakeIfComplete(uint64_t number, std::string& why) {
  // All that hang together with it, over others if need be.
  std::set<uint64_t> group = {number};
  for (std::vector<uint64_t> open = {number}; !open.empty();) {
    const End& end = ends_.at(open.back());
    open.pop_back();
    for (const auto& [other, candidate] : ends_) {
      if (candidate.handle != 0 || candidate.ranks != end.ranks || group.contains(other)) continue;
      const auto& places = candidate.places;
      const bool meets =
          std::any_of(end.places.begin(), end.places.end(),
                      [&places](const Place& place) { return places.contains(place); });
      if (!meets) continue;
      group.insert(other);
      open.push_back(other);
    }
  }
  const int ranks = ends_.at(number).ranks;
  std::map<int, uint64_t> by_rank;
  for (const uint64_t member : group) {
    if (!by_rank.try_emplace(ends_.at(member).rank, member).second) {
      why = absl::StrFormat(
          "two communicators of %d ranks share connections (splitShare), and both have a rank %d",
          ranks, ends_.at(member).rank);
      return;
    }
  }
  if (static_cast<int>(by_rank.size()) < ranks) return;
  nccl::Join join = {};
  const std::string id = absl::StrCat("native ", next_id_++);
  std::memcpy(join.id, id.data(), id.size());
  join.ranks = ranks;
  for (const auto& [rank, member] : by_rank) {
    End& end = ends_.at(member);
    join.rank = rank;
    end.handle = world_->communicators().Join(
        {static_cast<uint64_t>(end.caller.process), end.caller.place}, join);
    if (end.handle == 0) {
      why = "too many communicators";
      return;
    }
    end.places.clear();
    made_.push_back(member);
  }
  const NcclEndpoint* endpoint = world_->communicators().Find(ends_.at(number).handle);
  if (endpoint->state == nccl::State::kFailed) why = endpoint->message;
}

NcclEndpoint* NativeCommunicators::Find(uint64_t number) {
  const auto it = ends_.find(number);
  if (it == ends_.end() || it->second.handle == 0) return nullptr;
  NcclEndpoint* endpoint = world_->communicators().Find(it->second.handle);
  return endpoint == nullptr || endpoint->communicator == nullptr ? nullptr : endpoint;
}

bool NativeCommunicators::Awaits(uint64_t number) const {
  const auto it = ends_.find(number);
  return it != ends_.end() && it->second.handle == 0;
}

uint64_t NativeCommunicators::CountCall(uint64_t number) {
  const auto it = ends_.find(number);
  return it == ends_.end() ? 0 : it->second.calls++;
}

std::vector<uint64_t> NativeCommunicators::TakeMade() { return std::exchange(made_, {}); }

void NativeCommunicators::Forget(uint64_t number) {
  const auto it = ends_.find(number);
  if (it == ends_.end()) return;
  if (NcclEndpoint* endpoint = world_->communicators().Find(it->second.handle)) {
    world_->Leave(*endpoint, true);
  }
  numbers_.erase({it->second.caller.process, it->second.address});
  ends_.erase(it);
}

void NativeCommunicators::ProcessDied(pid_t process) {
  for (auto it = numbers_.lower_bound({process, 0});
       it != numbers_.end() && it->first.first == process; it = numbers_.erase(it)) {
    // The world has given up its endpoint.
    ends_.erase(it->second);
  }
}

std::string NativeCommunicators::DescribeWaiting() const {
  constexpr int kMostDescribed = 16;
  std::string text;
  int described = 0;
  for (const auto& [number, end] : ends_) {
    if (end.handle != 0 || ++described > kMostDescribed) continue;
    absl::StrAppendFormat(&text,
                          "rank %d of a communicator of %d ranks has launched its first NCCL "
                          "kernel, some of the others have not\n",
                          end.rank, end.ranks);
  }
  return text;
}

}  // namespace phantora
