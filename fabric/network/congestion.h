// What congestion control makes of links that are asked for more than they have.
#ifndef PHANTORA_FABRIC_NETWORK_CONGESTION_H_
#define PHANTORA_FABRIC_NETWORK_CONGESTION_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "clock/virtual_time.h"

namespace phantora {

// DCQCN's senders learn that a queue has become long when it is full, fall far below their shares,
// and take milliseconds to come back: a link that many meet in carries less than it could. How much
// less, since when they began, is what PacketNetwork makes of an incast, with a NIC vendor's values
// (DcqcnOptions::Vendor) and half a megabyte and more of buffer for each port; in proportion, it
// does not depend on the link's speed. Stateless.
class CongestionControl {
 public:
  // Senders of the link's speed whose behaviour is known; others lie between.
  static constexpr std::array<int, 6> kOversubscriptions = {1, 2, 4, 8, 16, 32};
  // Since congestion began. A step is over when the link has carried what it could have carried in
  // Ideal(step), were all of it used.
  static constexpr size_t kSteps = 9;
  static VirtualSpan Ideal(size_t step) { return VirtualSpan::Microseconds(int64_t{80} << step); }

  // The link has been asked for `oversubscription` times its capacity since `since` ago.
  struct Present {
    double share = 1;                  // of the link's capacity that is used
    std::optional<VirtualSpan> until;  // since it began, when that changes
  };
  static bool IsCongested(double oversubscription) { return oversubscription > 1.01; }
  static Present At(double oversubscription, VirtualSpan since);
};

}  // namespace phantora

#endif  // PHANTORA_FABRIC_NETWORK_CONGESTION_H_
