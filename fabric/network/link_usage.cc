#include "fabric/network/link_usage.h"

#include <algorithm>

namespace phantora {

void LinkUsage::Begin(VirtualTime start) {
  if (begun_) return;
  begun_ = true;
  start_ = end_ = start;
}

void LinkUsage::Coarsen() {
  width_ *= 2;
  for (auto& bins : series_) {
    for (size_t i = 0; i < bins.size(); ++i) {
      if (i % 2 == 0) {
        bins[i / 2] = bins[i];
      } else {
        bins[i / 2] += bins[i];
      }
    }
    bins.resize((bins.size() + 1) / 2);
  }
}

void LinkUsage::Add(uint32_t link, VirtualTime from, VirtualTime to, double bytes) {
  if (to <= from || !(bytes > 0) || from < start_) return;
  end_ = std::max(end_, to);
  const int64_t first = (from - start_).picoseconds(), last = (to - start_).picoseconds();
  while ((last - 1) / width_ >= static_cast<int64_t>(kMostBins)) Coarsen();
  if (link >= series_of_.size()) series_of_.resize(link + 1);
  int32_t& index = series_of_[link];
  if (index == 0) {
    if (series_.size() == kMostSeries) return;
    series_.emplace_back();
    index = static_cast<int32_t>(series_.size());
  }
  auto& bins = series_[static_cast<size_t>(index - 1)];
  bins.resize(std::max(bins.size(), static_cast<size_t>((last - 1) / width_ + 1)));
  const double per_ps = bytes / static_cast<double>(last - first);
  for (int64_t at = first; at < last;) {
    const int64_t bin = at / width_, until = std::min(last, (bin + 1) * width_);
    bins[static_cast<size_t>(bin)] += static_cast<float>(per_ps * static_cast<double>(until - at));
    at = until;
  }
}

absl::Span<const float> LinkUsage::Of(uint32_t link) const {
  if (link >= series_of_.size() || series_of_[link] == 0) return {};
  return series_[static_cast<size_t>(series_of_[link] - 1)];
}

}  // namespace phantora
