// What the busiest links of a run carried, for its report and trace.
#ifndef PHANTORA_TOOLS_OBSERVE_LINK_STATISTICS_H_
#define PHANTORA_TOOLS_OBSERVE_LINK_STATISTICS_H_

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "clock/virtual_time.h"
#include "fabric/cluster/cluster_fabric.h"
#include "fabric/network/link_usage.h"
#include "tools/observe/trace_writer.h"

namespace phantora {

class LinkStatistics {
 public:
  // Links of each kind that are listed: the network's, and machines' (NVLink, PCIe).
  static constexpr size_t kMostLinks = 16;

  // Watches the fabric's links from now on, as long as it lives. Times are told since `start`.
  LinkStatistics(ClusterFabric* fabric, VirtualTime start);
  ~LinkStatistics() { fabric_->network().Watch(nullptr); }
  LinkStatistics(const LinkStatistics&) = delete;
  LinkStatistics& operator=(const LinkStatistics&) = delete;

  // The run is over; before what follows.
  void Finish(VirtualTime now);

  // The busiest link of the network, in words; empty if none carried anything.
  std::string Line() const;
  // See docs/report_schema.md.
  nlohmann::ordered_json Json() const;
  // Counters in percent of what links can carry.
  void Trace(TraceWriter* trace) const;

 private:
  struct Link {
    std::string name;
    bool network = false;
    double bytes_per_s = 0, bytes = 0;
    double mean = 0, peak = 0;   // shares of what it can carry
    std::vector<double> shares;  // by bin
  };
  VirtualSpan WidthOf(size_t bin) const;

  ClusterFabric* const fabric_;
  const VirtualTime start_;
  LinkUsage usage_;
  std::vector<Link> busiest_;  // of the network first, then by mean
};

}  // namespace phantora

#endif  // PHANTORA_TOOLS_OBSERVE_LINK_STATISTICS_H_
