#include "tools/observe/nccl_statistics.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "fabric/collectives/nccl_operation.h"

namespace phantora {
namespace {

double Seconds(VirtualSpan span) { return static_cast<double>(span.picoseconds()) * 1e-12; }

}  // namespace

void NcclStatistics::Add(const NcclWorld::Options::Ended& operation) {
  Sums& sums = kinds_[{NameOf(operation.entry.operation), operation.plan,
                       operation.communicator == nullptr ? 0 : operation.communicator->ranks()}];
  ++sums.count;
  sums.bytes += operation.entry.count * static_cast<uint64_t>(NcclTypeBytes(operation.entry.type));
  sums.network = sums.network + (operation.end - operation.all);
  sums.waiting = sums.waiting + (operation.all - operation.first);
}

std::vector<std::pair<NcclStatistics::Kind, NcclStatistics::Sums>> NcclStatistics::Sorted() const {
  std::vector<std::pair<Kind, Sums>> sorted(kinds_.begin(), kinds_.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return a.second.network > b.second.network;
  });
  return sorted;
}

std::vector<std::string> NcclStatistics::Lines(size_t most) const {
  std::vector<std::string> lines;
  for (const auto& [kind, sums] : Sorted()) {
    if (lines.size() == most) break;
    lines.push_back(absl::StrFormat(
        "  NCCL: %d x %s of %d ranks (%s), %.1f MB: %.6f s on the network, after %.6f s in which "
        "the first rank waited for the last",
        sums.count, kind.operation, kind.ranks, kind.plan, static_cast<double>(sums.bytes) * 1e-6,
        Seconds(sums.network), Seconds(sums.waiting)));
  }
  return lines;
}

nlohmann::ordered_json NcclStatistics::Json() const {
  nlohmann::ordered_json operations = nlohmann::ordered_json::array();
  for (const auto& [kind, sums] : Sorted()) {
    operations.push_back({{"operation", kind.operation},
                          {"ranks", kind.ranks},
                          {"plan", kind.plan},
                          {"count", sums.count},
                          {"bytes", sums.bytes},
                          {"network_s", Seconds(sums.network)},
                          {"waiting_s", Seconds(sums.waiting)}});
  }
  return operations;
}

}  // namespace phantora
