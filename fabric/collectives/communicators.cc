#include "fabric/collectives/communicators.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace phantora {
namespace {

// Endpoints of one process; programs have some tens.
constexpr int kMostPerProcess = 4096;
constexpr int kInvalidUsage = 5, kInvalidArgument = 4;  // ncclResult_t
constexpr int kNobody = -1;                             // no rank

}  // namespace

std::string Communicator::Name() const {
  return absl::StrFormat("communicator %d of %d ranks", number, ranks());
}

NcclEndpoint* Communicators::Make(const NcclCaller& caller, const nccl::Settings& settings) {
  if (of_process_[caller.process] >= kMostPerProcess) return nullptr;
  ++of_process_[caller.process];
  const nccl::Handle handle = next_++;
  auto& endpoint = endpoints_[handle];
  endpoint = std::make_unique<NcclEndpoint>();
  endpoint->handle = handle;
  endpoint->caller = caller;
  endpoint->settings = settings;
  return endpoint.get();
}

void Communicators::Fail(NcclEndpoint& endpoint, int error, std::string message) {
  endpoint.state = nccl::State::kFailed;
  endpoint.error = error;
  endpoint.message = std::move(message);
}

nccl::Handle Communicators::Join(const NcclCaller& caller, const nccl::Join& join) {
  if (join.ranks < 1 || join.ranks > kMostRanks || join.rank < 0 || join.rank >= join.ranks) {
    return 0;
  }
  NcclEndpoint* endpoint = Make(caller, join.settings);
  if (endpoint == nullptr) return 0;
  const auto it = GatheringOf(
      absl::StrCat("id ",
                   absl::string_view(reinterpret_cast<const char*>(join.id), sizeof join.id)),
      kNobody);
  Gathering& gathering = it->second;
  if (gathering.present.empty()) {
    gathering.expected = join.ranks;
    gathering.what = absl::StrFormat("a communicator of %d ranks", join.ranks);
  }
  if (gathering.expected != join.ranks) {
    Fail(*endpoint, kInvalidArgument,
         absl::StrFormat("rank %d wants to join a communicator of %d ranks, but others said that "
                         "it has %d",
                         join.rank, join.ranks, gathering.expected));
    return endpoint->handle;
  }
  if (!gathering.present.try_emplace(join.rank, endpoint->handle).second) {
    Fail(*endpoint, kInvalidUsage,
         absl::StrFormat("two processes want to be rank %d of the same communicator", join.rank));
    return endpoint->handle;
  }
  Gather(it);
  return endpoint->handle;
}

nccl::Handle Communicators::Split(const NcclEndpoint& parent, const nccl::Split& split) {
  const Communicator& communicator = *parent.communicator;
  NcclEndpoint* endpoint = Make(parent.caller, split.settings);
  if (endpoint == nullptr) return 0;
  const auto it = GatheringOf(absl::StrCat("split ", communicator.number), parent.rank);
  Gathering& gathering = it->second;
  gathering.expected = communicator.ranks();
  gathering.what = absl::StrCat("a split of ", communicator.Name());
  gathering.present[parent.rank] = endpoint->handle;
  gathering.color_and_key[parent.rank] = {split.color, split.key};
  Gather(it);
  return endpoint->handle;
}

nccl::Handle Communicators::Shrink(const NcclEndpoint& parent, absl::Span<const int32_t> excluded,
                                   const nccl::Settings& settings) {
  const Communicator& communicator = *parent.communicator;
  std::vector<bool> stays(communicator.places.size(), true);
  for (const int32_t rank : excluded) {
    if (rank < 0 || rank >= communicator.ranks() || rank == parent.rank) return 0;
    stays[static_cast<size_t>(rank)] = false;
  }
  NcclEndpoint* endpoint = Make(parent.caller, settings);
  if (endpoint == nullptr) return 0;
  std::vector<int> staying;
  std::string key = absl::StrCat("shrink ", communicator.number, " to");
  for (int rank = 0; rank < communicator.ranks(); ++rank) {
    if (!stays[static_cast<size_t>(rank)]) continue;
    staying.push_back(rank);
    absl::StrAppend(&key, " ", rank);
  }
  const auto it = GatheringOf(key, parent.rank);
  Gathering& gathering = it->second;
  gathering.expected = static_cast<int>(staying.size());
  gathering.staying = std::move(staying);
  gathering.what = absl::StrCat("what is left of ", communicator.Name());
  gathering.present[parent.rank] = endpoint->handle;
  Gather(it);
  return endpoint->handle;
}

bool Communicators::IsAwaited(const Gathering& gathering) const {
  return std::any_of(gathering.present.begin(), gathering.present.end(),
                     [this](const auto& rank) { return endpoints_.contains(rank.second); });
}

Communicators::Gatherings::iterator Communicators::GatheringOf(const std::string& key, int rank) {
  const auto [begin, end] = gatherings_.equal_range(key);
  for (auto it = begin; it != end; ++it) {
    if (!it->second.present.contains(rank)) return it;
  }
  if (gatherings_.size() >= forget_at_) {
    std::erase_if(gatherings_, [this](const auto& item) { return !IsAwaited(item.second); });
    forget_at_ = std::max(forget_at_, 2 * gatherings_.size());
  }
  return gatherings_.emplace(key, Gathering());
}

void Communicators::Gather(Gatherings::iterator gathering) {
  if (static_cast<int>(gathering->second.present.size()) < gathering->second.expected) return;
  const Gathering complete = std::move(gathering->second);
  gatherings_.erase(gathering);
  if (complete.color_and_key.empty()) {
    std::vector<nccl::Handle> members;
    for (const auto& [rank, handle] : complete.present) members.push_back(handle);
    MakeReady(members);
    return;
  }
  // By color; then by key and old rank.
  std::map<int32_t, std::vector<std::tuple<int32_t, int, nccl::Handle>>> colors;
  for (const auto& [rank, handle] : complete.present) {
    const auto& [color, order] = complete.color_and_key.at(rank);
    if (color >= 0) {
      colors[color].emplace_back(order, rank, handle);
    } else if (NcclEndpoint* endpoint = Find(handle)) {
      endpoint->state = nccl::State::kReady;
    }
  }
  for (auto& [color, ranks] : colors) {
    std::sort(ranks.begin(), ranks.end());
    std::vector<nccl::Handle> members;
    for (const auto& rank : ranks) members.push_back(std::get<2>(rank));
    MakeReady(members);
  }
}

bool Communicators::ShareGpus(const std::vector<nccl::Handle>& members) {
  std::map<GpuPlace, size_t> ranks;
  for (size_t rank = 0; rank < members.size(); ++rank) {
    const NcclEndpoint* endpoint = Find(members[rank]);
    if (endpoint == nullptr) continue;
    const GpuPlace place = endpoint->caller.place;
    const auto [other, is_first] = ranks.try_emplace(place, rank);
    if (is_first) continue;
    const std::string message = absl::StrFormat(
        "Duplicate GPU detected: ranks %d and %d are both on GPU %d of host %d; does every rank "
        "choose the GPU of its LOCAL_RANK?",
        other->second, rank, place.gpu, place.host);
    for (const nccl::Handle handle : members) {
      if (NcclEndpoint* member = Find(handle)) Fail(*member, kInvalidUsage, message);
    }
    return true;
  }
  return false;
}

void Communicators::MakeReady(const std::vector<nccl::Handle>& members) {
  if (ShareGpus(members)) return;
  auto communicator = std::make_unique<Communicator>();
  communicator->number = next_number_++;
  communicator->members = members;
  for (size_t rank = 0; rank < members.size(); ++rank) {
    NcclEndpoint* endpoint = Find(members[rank]);
    // Who has died since it called is a member that takes part in nothing.
    communicator->places.push_back(endpoint == nullptr ? GpuPlace() : endpoint->caller.place);
    communicator->processes.push_back(endpoint == nullptr ? 0 : endpoint->caller.process);
    if (endpoint == nullptr) {
      communicator->members[rank] = 0;
      ++communicator->left;
      continue;
    }
    if (rank == 0) communicator->settings = endpoint->settings;
    endpoint->communicator = communicator.get();
    endpoint->rank = static_cast<int>(rank);
    endpoint->state = nccl::State::kReady;
  }
  if (communicator->left == communicator->ranks()) return;  // nobody would ever end it
  communicators_[communicator->number] = std::move(communicator);
}

NcclEndpoint* Communicators::Find(nccl::Handle handle) {
  auto it = endpoints_.find(handle);
  return it == endpoints_.end() ? nullptr : it->second.get();
}

NcclEndpoint* Communicators::Find(uint64_t process, nccl::Handle handle) {
  NcclEndpoint* endpoint = Find(handle);
  return endpoint == nullptr || endpoint->caller.process != process ? nullptr : endpoint;
}

void Communicators::Leave(NcclEndpoint& endpoint) {
  const nccl::Handle handle = endpoint.handle;
  if (Communicator* communicator = endpoint.communicator) {
    communicator->members[static_cast<size_t>(endpoint.rank)] = 0;
    if (++communicator->left == communicator->ranks()) {
      communicators_.erase(communicator->number);
    }
  }
  // The place of one that gathers stays taken: others must not wait for another. So it counts on,
  // lest one process take places without end.
  auto of_process = of_process_.find(endpoint.caller.process);
  if (endpoint.state != nccl::State::kPending && of_process != of_process_.end() &&
      --of_process->second == 0) {
    of_process_.erase(of_process);
  }
  endpoints_.erase(handle);
}

std::vector<nccl::Handle> Communicators::EndpointsOf(uint64_t process) const {
  std::vector<nccl::Handle> handles;
  for (const auto& [handle, endpoint] : endpoints_) {
    if (endpoint->caller.process == process) handles.push_back(handle);
  }
  return handles;
}

std::string Communicators::DescribeWaiting() const {
  constexpr int kMostNamed = 16;
  std::string text;
  for (const auto& [key, gathering] : gatherings_) {
    if (!IsAwaited(gathering)) continue;
    absl::StrAppend(&text, gathering.what, ": ranks");
    int named = 0;
    for (const auto& [rank, handle] : gathering.present) {
      if (++named <= kMostNamed) absl::StrAppend(&text, " ", rank);
    }
    absl::StrAppend(&text, named > kMostNamed ? " ..." : "", " have called, ranks");
    int missing = 0;
    for (int i = 0; i < gathering.expected && missing <= kMostNamed; ++i) {
      const int rank = gathering.staying.empty() ? i : gathering.staying[static_cast<size_t>(i)];
      if (gathering.present.contains(rank)) continue;
      if (++missing <= kMostNamed) absl::StrAppend(&text, " ", rank);
    }
    absl::StrAppend(&text, missing > kMostNamed ? " ..." : "", " have not\n");
  }
  return text;
}

}  // namespace phantora
