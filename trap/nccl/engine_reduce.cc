#include "trap/nccl/engine_reduce.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "fabric/collectives/nccl_operation.h"

namespace phantora {
namespace {

constexpr const char* kKernels[] = {"26cross_device_reduce_1stageI",
                                    "26cross_device_reduce_2stageI"};
constexpr int kMostRanks = 8;
constexpr uint64_t kVectorBytes = 16;
constexpr size_t kMostEnds = 4096;

// Where the parameters are, by how many bytes they have: RankSignals begins at a multiple of 8 or
// of 16.
struct Layout {
  size_t bytes, signals, result, rank, size;
};
constexpr Layout kLayouts[] = {{96, 8, 80, 88, 92}, {104, 16, 88, 96, 100}};

// ncclDataType_t.
struct Type {
  const char* mangled;
  uint8_t number;
};
constexpr Type kTypes[] = {{"6__half", 6}, {"13__nv_bfloat16", 9}, {"f", 7}};

// What stands behind the kernel's name: the element's type, and Li<ranks>E.
std::optional<std::pair<uint8_t, int>> TypeAndRanks(const std::string& symbol) {
  for (const char* kernel : kKernels) {
    const size_t at = symbol.find(kernel);
    if (at == symbol.npos) continue;
    absl::string_view rest(symbol);
    rest.remove_prefix(at + std::strlen(kernel));
    for (const Type& type : kTypes) {
      absl::string_view behind = rest;
      if (!absl::ConsumePrefix(&behind, type.mangled) || !absl::ConsumePrefix(&behind, "Li")) {
        continue;
      }
      int ranks = 0;
      const size_t end = behind.find('E');
      if (end == behind.npos || !absl::SimpleAtoi(behind.substr(0, end), &ranks)) continue;
      if (ranks >= 2 && ranks <= kMostRanks) return std::pair(type.number, ranks);
    }
  }
  return std::nullopt;
}

template <typename T>
T At(absl::Span<const uint8_t> bytes, size_t at) {
  T value;
  std::memcpy(&value, &bytes[at], sizeof value);
  return value;
}

}  // namespace

bool IsEngineReduce(const std::string& symbol) { return TypeAndRanks(symbol).has_value(); }

absl::StatusOr<EngineReduce> DecodeEngineReduce(const std::string& symbol,
                                                absl::Span<const uint8_t> parameters,
                                                const GpuReader& read) {
  const auto named = TypeAndRanks(symbol);
  if (!named) return absl::InvalidArgumentError("its name has another form");
  const auto layout =
      std::find_if(std::begin(kLayouts), std::end(kLayouts),
                   [&](const Layout& one) { return one.bytes == parameters.size(); });
  if (layout == std::end(kLayouts)) {
    return absl::InvalidArgumentError(absl::StrCat(parameters.size(), " bytes of parameters"));
  }
  const auto [type, ranks] = *named;
  EngineReduce reduce = {.rank = At<int32_t>(parameters, layout->rank),
                         .ranks = ranks,
                         .signals = At<uint64_t>(parameters, layout->signals),
                         .entry = {}};
  const auto vectors = At<int32_t>(parameters, layout->size);
  if (reduce.rank < 0 || reduce.rank >= ranks || vectors <= 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("rank %d of %d, %d vectors", reduce.rank, ranks, vectors));
  }
  const uint64_t inputs = At<uint64_t>(parameters, 0);
  uint64_t input = 0;
  if (!read(inputs + sizeof input * static_cast<uint64_t>(reduce.rank), &input, sizeof input)) {
    return absl::InvalidArgumentError("its list of inputs is not mapped");
  }
  const auto bytes = kVectorBytes * static_cast<uint64_t>(vectors);
  reduce.entry.operation = nccl::Operation::kAllReduce;
  reduce.entry.type = type;
  reduce.entry.reduction = nccl::kSum;
  reduce.entry.count = bytes / static_cast<uint64_t>(NcclTypeBytes(type));
  reduce.entry.send = input;
  reduce.entry.receive = At<uint64_t>(parameters, layout->result);
  return reduce;
}

uint64_t EngineGroups::Of(const Caller& caller, const EngineReduce& reduce, std::string& why) {
  const auto piece = caller.context->memory.Find(reduce.signals);
  if (!piece) return why = "rank 0's flags are not mapped", 0;
  const Key key = {piece->memory, piece->offset, reduce.ranks};
  if (const auto group = groups_.find(key); group != groups_.end()) {
    const auto known = group->second.find(reduce.rank);
    if (known != group->second.end()) {
      const Caller& was = ends_.at(known->second).caller;
      if (was.process == caller.process && was.context == caller.context) return known->second;
      // Other processes have that memory now.
      Forget(key);
    } else if (ends_.at(group->second.begin()->second).handle != 0) {
      return why = "its ranks are others than before", 0;
    }
  }
  if (ends_.size() >= kMostEnds) return why = "too many groups", 0;
  const uint64_t number = next_++ | kBit;
  ends_[number] = {.key = key, .caller = caller, .rank = reduce.rank};
  auto& group = groups_[key];
  group[reduce.rank] = number;
  if (static_cast<int>(group.size()) == reduce.ranks && !Make(group, reduce.ranks, why)) {
    Forget(key);
    return 0;
  }
  return number;
}

bool EngineGroups::Make(const std::map<int, uint64_t>& group, int ranks, std::string& why) {
  nccl::Join join = {};
  const std::string id = absl::StrCat("engine ", next_id_++);
  std::memcpy(join.id, id.data(), id.size());
  join.ranks = ranks;
  for (const auto& [rank, number] : group) {
    End& end = ends_.at(number);
    join.rank = rank;
    end.handle = world_->communicators().Join(
        {static_cast<uint64_t>(end.caller.process), end.caller.place}, join);
    if (end.handle == 0) return why = "too many communicators", false;
    made_.push_back(number);
  }
  const NcclEndpoint* const endpoint =
      world_->communicators().Find(ends_.at(group.begin()->second).handle);
  if (endpoint == nullptr || endpoint->state == nccl::State::kFailed) {
    why = endpoint == nullptr ? "it cannot be made" : endpoint->message;
    return false;
  }
  return true;
}

NcclEndpoint* EngineGroups::Find(uint64_t number) {
  const auto it = ends_.find(number);
  if (it == ends_.end() || it->second.handle == 0) return nullptr;
  NcclEndpoint* const endpoint = world_->communicators().Find(it->second.handle);
  return endpoint == nullptr || endpoint->communicator == nullptr ? nullptr : endpoint;
}

bool EngineGroups::Awaits(uint64_t number) const {
  const auto it = ends_.find(number);
  return it != ends_.end() && it->second.handle == 0;
}

uint64_t EngineGroups::CountCall(uint64_t number) {
  const auto it = ends_.find(number);
  return it == ends_.end() ? 0 : it->second.calls++;
}

void EngineGroups::Forget(const Key& key) {
  const auto group = groups_.find(key);
  if (group == groups_.end()) return;
  for (const auto& [rank, number] : group->second) {
    const auto end = ends_.find(number);
    if (end == ends_.end()) continue;
    if (NcclEndpoint* const endpoint = world_->communicators().Find(end->second.handle)) {
      world_->Leave(*endpoint, true);
    }
    ends_.erase(end);
  }
  groups_.erase(group);
}

void EngineGroups::ProcessDied(pid_t process) {
  for (auto it = ends_.begin(); it != ends_.end();) {
    const End& end = it->second;
    if (end.caller.process != process) {
      ++it;
      continue;
    }
    // The world has given up its endpoint.
    const auto group = groups_.find(end.key);
    if (group != groups_.end()) {
      group->second.erase(end.rank);
      if (group->second.empty()) groups_.erase(group);
    }
    it = ends_.erase(it);
  }
}

std::string EngineGroups::DescribeWaiting() const {
  constexpr int kMostDescribed = 16;
  std::string text;
  int described = 0;
  for (const auto& [number, end] : ends_) {
    if (end.handle != 0 || ++described > kMostDescribed) continue;
    absl::StrAppendFormat(
        &text,
        "rank %d of %d has launched an all-reduce of the engine's own, some of the "
        "others have not\n",
        end.rank, std::get<2>(end.key));
  }
  return text;
}

}  // namespace phantora
