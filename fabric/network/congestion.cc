#include "fabric/network/congestion.h"

#include <algorithm>
#include <cmath>

namespace phantora {
namespace {

// Microseconds until a link has carried what it could in Ideal(step), by kOversubscriptions: the
// mean of eight runs (bazel run //fabric/packets:congestion_table).
constexpr double kCarried[CongestionControl::kOversubscriptions.size()][CongestionControl::kSteps] =
    {
        {80, 160, 320, 640, 1280, 2560, 5120, 10240, 20480},   // 1
        {80, 239, 542, 846, 1523, 2819, 5491, 10822, 21499},   // 2
        {80, 348, 608, 1138, 1927, 3474, 6405, 12200, 23422},  // 4
        {80, 160, 608, 954, 2166, 3761, 6764, 12341, 23274},   // 8
        {80, 160, 320, 922, 1844, 3748, 6930, 12791, 23814},   // 16
        {80, 160, 320, 640, 1543, 3087, 6542, 12717, 25272},   // 32
};

double Microseconds(VirtualSpan span) { return static_cast<double>(span.picoseconds()) / 1e6; }

// Between the rows by the logarithm of how many senders there are.
double Carried(double oversubscription, size_t step) {
  const double last = static_cast<double>(CongestionControl::kOversubscriptions.size() - 1);
  const double place = std::clamp(std::log2(oversubscription), 0.0, last);
  const auto row = static_cast<size_t>(std::min(place, last - 1));
  const double part = place - static_cast<double>(row);
  return kCarried[row][step] * (1 - part) + kCarried[row + 1][step] * part;
}

}  // namespace

CongestionControl::Present CongestionControl::At(double oversubscription, VirtualSpan since) {
  if (!IsCongested(oversubscription)) return {};
  double ideal_before = 0, before = 0;
  for (size_t step = 0;; ++step) {
    const double ideal = Microseconds(Ideal(step));
    const double end = Carried(oversubscription, step);
    const double share = std::clamp((ideal - ideal_before) / (end - before), 0.01, 1.0);
    // It goes on as it was at last.
    if (step + 1 == kSteps) return {share, std::nullopt};
    const auto until = VirtualSpan::Picoseconds(std::llround(end * 1e6));
    if (since < until) return {share, until};
    ideal_before = ideal;
    before = end;
  }
}

}  // namespace phantora
