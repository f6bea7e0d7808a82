// Prints what packets make of links that are asked for more than they have: kCarried of
// congestion.cc.
#include <cstdio>

#include "fabric/network/congestion.h"
#include "fabric/packets/network_cases.h"

namespace phantora {
namespace {

constexpr int kSeeds = 8;  // which packets are marked is chance

// Microseconds until a link with so many senders has carried what it could in `ideal`.
double Microseconds(int senders, VirtualSpan ideal) {
  const double seconds = static_cast<double>(ideal.picoseconds()) / 1e12;
  double sum = 0;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    PacketOptions options = VendorDcqcn();
    options.seed = static_cast<uint64_t>(seed);
    const double payload = options.mtu_bytes / (options.mtu_bytes + options.header_bytes);
    const NetworkCase made = Incast(senders, seconds * kCaseBytesPerS * payload / senders);
    sum += RunPackets(made, options).Last() - 2 * kCaseLatency.picoseconds() / 1e12;
  }
  return sum / kSeeds * 1e6;
}

void Table() {
  for (const int senders : CongestionControl::kOversubscriptions) {
    std::printf("    {");
    for (size_t step = 0; step < CongestionControl::kSteps; ++step) {
      std::printf("%s%.0f", step == 0 ? "" : ", ",
                  Microseconds(senders, CongestionControl::Ideal(step)));
      std::fflush(stdout);
    }
    std::printf("},  // %d\n", senders);
  }
}

}  // namespace
}  // namespace phantora

int main() { phantora::Table(); }
