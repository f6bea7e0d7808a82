// Small cases that both models of a network can run: FlowNetwork and PacketNetwork.
#ifndef PHANTORA_FABRIC_PACKETS_NETWORK_CASES_H_
#define PHANTORA_FABRIC_PACKETS_NETWORK_CASES_H_

#include <vector>

#include "clock/virtual_time.h"
#include "fabric/packets/packet_network.h"

namespace phantora {

struct NetworkCase {
  struct Link {
    double bytes_per_s = 0;
    VirtualSpan latency;
  };
  struct Flow {
    VirtualTime start;
    std::vector<std::vector<LinkId>> paths;  // spread evenly over them
    double bytes = 0;
  };
  std::vector<Link> links;
  std::vector<Flow> flows;  // in the order of their starts
  double buffer_bytes = 0;  // at the end of each link

  LinkId AddLink(double bytes_per_s, VirtualSpan latency) {
    links.push_back({bytes_per_s, latency});
    return static_cast<LinkId>(links.size() - 1);
  }
};

// What became of its flows.
struct NetworkResult {
  std::vector<double> seconds;  // from start to end of each; -1: never over
  PacketNetwork::Counts counts;
  double longest_queue_bytes = 0;

  double Last() const;
};

// Max-min fair shares of what headers leave of the links, after the latency of the path.
NetworkResult RunFlows(const NetworkCase& network_case, const PacketOptions& options);
// The same with congestion control at all links but senders' own.
NetworkResult RunControlledFlows(const NetworkCase& network_case, const PacketOptions& options);
NetworkResult RunPackets(const NetworkCase& network_case, const PacketOptions& options);

// Links of 400 Gbit/s, 0.6 us each, the switch at the end included: assumed, not measured.
constexpr double kCaseBytesPerS = 50e9;
constexpr VirtualSpan kCaseLatency = VirtualSpan::Nanoseconds(600);
// Half a port's part of a switch with 64 MB for 32 ports of that speed (Spectrum-3, Tomahawk 3).
constexpr double kCaseBufferBytes = 1e6;

// Senders that react to marks, both for links of that speed.
PacketOptions PaperDcqcn();
PacketOptions VendorDcqcn();

// `senders` to one receiver through one switch.
NetworkCase Incast(int senders, double bytes);
// A leaf-spine of 2 x 4 hosts and 2 spines, not oversubscribed: a leaf has two links of twice a
// host's speed. Host i is at leaf i % 2 if `interleaved`, else at leaf i / 4.
struct LeafSpineCase {
  NetworkCase network;
  std::vector<LinkId> host_up, host_down;
  LinkId up[2][2], down[2][2];  // leaf to spine, spine to leaf
  std::vector<int> leaf_of;

  explicit LeafSpineCase(bool interleaved);
  // Over the given spine, or all for -1; hosts at one leaf need none.
  void Send(int from, int to, int spine, double bytes);
};
// Host i to host i + 1. `spines`: of each flow, or empty to spray.
NetworkCase RingOfEight(const std::vector<int>& spines, double bytes);
// All 56 flows; by spine of a hash, or sprayed.
NetworkCase AllToAll(bool sprayed, double bytes);
// `senders` at one leaf to one receiver at another, over links wide enough for all of them; and a
// last flow beside them over these to a receiver of its own.
NetworkCase Victim(int senders, double bytes, double victim_bytes);
// To one receiver: `senders` that come to its switch over one link, wide enough for all, and a
// last one that is there itself.
NetworkCase Beside(int senders, double bytes);

}  // namespace phantora

#endif  // PHANTORA_FABRIC_PACKETS_NETWORK_CASES_H_
