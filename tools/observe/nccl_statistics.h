// What NCCL's operations of a run were, for its summary and report.
#ifndef PHANTORA_TOOLS_OBSERVE_NCCL_STATISTICS_H_
#define PHANTORA_TOOLS_OBSERVE_NCCL_STATISTICS_H_

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "clock/virtual_time.h"
#include "fabric/collectives/nccl_world.h"

namespace phantora {

class NcclStatistics {
 public:
  void Add(const NcclWorld::Options::Ended& operation);

  // The kinds that took longest, one line each, at most `most`; empty if there were none.
  std::vector<std::string> Lines(size_t most) const;
  // All, the longest first; see docs/report_schema.md.
  nlohmann::ordered_json Json() const;

 private:
  struct Kind {
    std::string operation, plan;
    int ranks = 0;
    auto operator<=>(const Kind&) const = default;
  };
  struct Sums {
    uint64_t count = 0, bytes = 0;
    VirtualSpan network;  // from when the last rank came to the end
    VirtualSpan waiting;  // from when the first rank came to when the last did
  };
  std::vector<std::pair<Kind, Sums>> Sorted() const;

  std::map<Kind, Sums> kinds_;
};

}  // namespace phantora

#endif  // PHANTORA_TOOLS_OBSERVE_NCCL_STATISTICS_H_
