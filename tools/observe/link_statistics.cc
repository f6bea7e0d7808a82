#include "tools/observe/link_statistics.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"

namespace phantora {
namespace {

// In traces: after all ranks, by a number like theirs (timeline_trace.cc).
constexpr int kProcess = 900'000, kOrder = 1'000'000;

double Seconds(VirtualSpan span) { return static_cast<double>(span.picoseconds()) / 1e12; }

// Equal runs have equal reports, whatever rounding does to sums.
double Rounded(double share) { return std::round(share * 1e6) * 1e-6; }

}  // namespace

LinkStatistics::LinkStatistics(ClusterFabric* fabric, VirtualTime start)
    : fabric_(fabric), start_(start) {
  fabric_->network().Watch(&usage_);
}

// The last may be cut off by the end of all traffic.
VirtualSpan LinkStatistics::WidthOf(size_t bin) const {
  const VirtualTime from = usage_.start() + usage_.width() * static_cast<int64_t>(bin);
  return std::min(usage_.width(), usage_.end() - from);
}

void LinkStatistics::Finish(VirtualTime now) {
  FlowNetwork& network = fabric_->network();
  network.CatchUp(now);
  const double elapsed = Seconds(usage_.end() - usage_.start());
  if (!(elapsed > 0)) return;
  // Names and series only of those that are shown.
  struct Candidate {
    double mean;
    LinkId link;
  };
  std::vector<Candidate> candidates[2];
  for (LinkId link = 0; link < network.links(); ++link) {
    const double capacity = network.FirstCapacityOf(link), bytes = network.CarriedBy(link, now);
    if (!(bytes > 0) || !(capacity > 0)) continue;
    if (!fabric_->CarriesBytes(link)) continue;
    candidates[fabric_->IsInNetwork(link) ? 0 : 1].push_back({bytes / elapsed / capacity, link});
  }
  for (auto& of_kind : candidates) {
    std::stable_sort(of_kind.begin(), of_kind.end(), [](const Candidate& a, const Candidate& b) {
      return Rounded(a.mean) > Rounded(b.mean);
    });
    if (of_kind.size() > kMostLinks) of_kind.resize(kMostLinks);
    for (const Candidate& candidate : of_kind) {
      Link link;
      link.name = fabric_->NameOfLink(candidate.link);
      link.network = fabric_->IsInNetwork(candidate.link);
      link.bytes_per_s = network.FirstCapacityOf(candidate.link);
      link.bytes = network.CarriedBy(candidate.link, now);
      link.mean = Rounded(candidate.mean);
      for (const float bytes : usage_.Of(candidate.link)) {
        const double able = link.bytes_per_s * Seconds(WidthOf(link.shares.size()));
        link.shares.push_back(Rounded(able > 0 ? std::min(bytes / able, 1.0) : 0));
        link.peak = std::max(link.peak, link.shares.back());
      }
      busiest_.push_back(std::move(link));
    }
  }
}

std::string LinkStatistics::Line() const {
  if (busiest_.empty() || !busiest_[0].network) return "";
  const Link& link = busiest_[0];
  return absl::StrFormat(
      "  network: the busiest link, %s, carried %.1f MB: %.0f %% of %g Gbit/s in the mean of %.6f "
      "s, %.0f %% at most",
      link.name, link.bytes * 1e-6, link.mean * 100, link.bytes_per_s * 8e-9,
      Seconds(usage_.end() - usage_.start()), link.peak * 100);
}

nlohmann::ordered_json LinkStatistics::Json() const {
  nlohmann::ordered_json busiest = nlohmann::ordered_json::array();
  for (const Link& link : busiest_) {
    busiest.push_back({{"name", link.name},
                       {"network", link.network},
                       {"gbit_per_s", link.bytes_per_s * 8e-9},
                       {"bytes", std::round(link.bytes)},
                       {"mean_share", link.mean},
                       {"peak_share", link.peak},
                       {"share", link.shares}});
  }
  if (busiest.empty()) return {{"busiest", busiest}};
  return {{"start_s", Seconds(usage_.start() - start_)},
          {"end_s", Seconds(usage_.end() - start_)},
          {"bin_s", Seconds(usage_.width())},
          {"busiest", busiest}};
}

void LinkStatistics::Trace(TraceWriter* trace) const {
  if (busiest_.empty()) return;
  trace->NameProcess(kProcess, "links", kOrder);
  for (const Link& link : busiest_) {
    int64_t shown = -1;
    for (size_t bin = 0; bin < link.shares.size(); ++bin) {
      const auto percent = static_cast<int64_t>(std::llround(link.shares[bin] * 100));
      if (percent == shown) continue;
      shown = percent;
      trace->Counter(kProcess, link.name, "%",
                     usage_.start() - start_ + usage_.width() * static_cast<int64_t>(bin), percent);
    }
    const VirtualTime end =
        usage_.start() + usage_.width() * static_cast<int64_t>(link.shares.size());
    if (shown > 0)
      trace->Counter(kProcess, link.name, "%", std::min(end, usage_.end()) - start_, 0);
  }
}

}  // namespace phantora
