#include "fabric/packets/network_cases.h"

#include <algorithm>
#include <limits>

#include "fabric/network/flow_network.h"

namespace phantora {
namespace {

constexpr double kPicosecondsPerSecond = 1e12;

double Seconds(VirtualSpan span) {
  return static_cast<double>(span.picoseconds()) / kPicosecondsPerSecond;
}

double PayloadShare(const PacketOptions& options) {
  return options.mtu_bytes / (options.mtu_bytes + options.header_bytes);
}

// What is over by `until`.
template <typename Network>
void RunUntil(const NetworkCase& network_case, VirtualTime until, Network& network,
              std::vector<double>& seconds) {
  seconds.resize(network_case.flows.size(), -1);
  for (VirtualTime now; (now = network.NextEnd()) != VirtualTime::Infinity() && now <= until;) {
    for (const FlowId flow : network.Ended(now)) {
      seconds[flow - 1] = Seconds(now - network_case.flows[flow - 1].start);
    }
  }
}

}  // namespace

double NetworkResult::Last() const { return *std::max_element(seconds.begin(), seconds.end()); }

namespace {

NetworkResult RunFlowNetwork(const NetworkCase& network_case, const PacketOptions& options,
                             bool controlled) {
  FlowNetwork network;
  for (const auto& link : network_case.links)
    network.AddLink(link.bytes_per_s * PayloadShare(options));
  for (const auto& flow : network_case.flows) {
    for (const auto& path : flow.paths) {
      for (size_t hop = 1; controlled && hop < path.size(); ++hop) network.Control(path[hop]);
    }
  }
  NetworkResult result;
  for (const auto& flow : network_case.flows) {
    RunUntil(network_case, flow.start, network, result.seconds);
    std::vector<LinkUse> uses;
    for (const auto& path : flow.paths) {
      for (const LinkId link : path) {
        uses.push_back({link, 1.0 / static_cast<double>(flow.paths.size())});
      }
    }
    network.Start(flow.start, uses, flow.bytes, std::numeric_limits<double>::infinity());
  }
  RunUntil(network_case, VirtualTime::Infinity(), network, result.seconds);
  for (size_t i = 0; i < network_case.flows.size(); ++i) {
    for (const LinkId link : network_case.flows[i].paths[0]) {
      result.seconds[i] += Seconds(network_case.links[link].latency);
    }
  }
  return result;
}

}  // namespace

NetworkResult RunFlows(const NetworkCase& network_case, const PacketOptions& options) {
  return RunFlowNetwork(network_case, options, false);
}

NetworkResult RunControlledFlows(const NetworkCase& network_case, const PacketOptions& options) {
  return RunFlowNetwork(network_case, options, true);
}

NetworkResult RunPackets(const NetworkCase& network_case, const PacketOptions& options) {
  PacketNetwork network(options);
  for (const auto& link : network_case.links) {
    network.AddLink(link.bytes_per_s, link.latency, network_case.buffer_bytes);
  }
  for (const auto& flow : network_case.flows) {
    network.Start(flow.start, flow.paths, flow.bytes).value();
  }
  NetworkResult result;
  RunUntil(network_case, VirtualTime::Infinity(), network, result.seconds);
  result.counts = network.counts();
  for (LinkId link = 0; link < network_case.links.size(); ++link) {
    result.longest_queue_bytes = std::max(result.longest_queue_bytes, network.LongestQueue(link));
  }
  return result;
}

PacketOptions PaperDcqcn() {
  PacketOptions options;
  options.marking = RedMarking::Paper(kCaseBytesPerS);
  options.congestion_control = DcqcnOptions::Paper(kCaseBytesPerS);
  return options;
}

PacketOptions VendorDcqcn() {
  PacketOptions options;
  options.marking = RedMarking::Vendor(kCaseBytesPerS);
  options.congestion_control = DcqcnOptions::Vendor(kCaseBytesPerS);
  return options;
}

NetworkCase Incast(int senders, double bytes) {
  NetworkCase made;
  made.buffer_bytes = kCaseBufferBytes;
  const LinkId down = made.AddLink(kCaseBytesPerS, kCaseLatency);
  for (int i = 0; i < senders; ++i) {
    const LinkId up = made.AddLink(kCaseBytesPerS, kCaseLatency);
    made.flows.push_back({VirtualTime(), {{up, down}}, bytes});
  }
  return made;
}

LeafSpineCase::LeafSpineCase(bool interleaved) {
  network.buffer_bytes = kCaseBufferBytes;
  for (int i = 0; i < 8; ++i) {
    leaf_of.push_back(interleaved ? i % 2 : i / 4);
    host_up.push_back(network.AddLink(kCaseBytesPerS, kCaseLatency));
    host_down.push_back(network.AddLink(kCaseBytesPerS, kCaseLatency));
  }
  for (int leaf = 0; leaf < 2; ++leaf) {
    for (int spine = 0; spine < 2; ++spine) {
      up[leaf][spine] = network.AddLink(2 * kCaseBytesPerS, kCaseLatency);
      down[leaf][spine] = network.AddLink(2 * kCaseBytesPerS, kCaseLatency);
    }
  }
}

void LeafSpineCase::Send(int from, int to, int spine, double bytes) {
  const auto host = [](int number) { return static_cast<size_t>(number); };
  const LinkId first = host_up[host(from)], last = host_down[host(to)];
  const int leaf = leaf_of[host(from)], other = leaf_of[host(to)];
  NetworkCase::Flow flow = {VirtualTime(), {}, bytes};
  if (leaf == other) {
    flow.paths.push_back({first, last});
  } else {
    for (int i = 0; i < 2; ++i) {
      if (spine < 0 || spine == i) flow.paths.push_back({first, up[leaf][i], down[other][i], last});
    }
  }
  network.flows.push_back(flow);
}

NetworkCase RingOfEight(const std::vector<int>& spines, double bytes) {
  LeafSpineCase made(true);
  for (int i = 0; i < 8; ++i) {
    made.Send(i, (i + 1) % 8, spines.empty() ? -1 : spines[static_cast<size_t>(i)], bytes);
  }
  return made.network;
}

NetworkCase AllToAll(bool sprayed, double bytes) {
  LeafSpineCase made(false);
  for (int from = 0; from < 8; ++from) {
    for (int shift = 1; shift < 8; ++shift) {
      const int to = (from + shift) % 8;
      // A hash that is uneven, as hashes are: 10 and 6 of a leaf's 16 flows.
      const int spine = (from * 5 + to * 3) % 8 < 3 ? 1 : 0;
      made.Send(from, to, sprayed ? -1 : spine, bytes);
    }
  }
  return made.network;
}

NetworkCase Victim(int senders, double bytes, double victim_bytes) {
  NetworkCase made;
  made.buffer_bytes = kCaseBufferBytes;
  const double wide = kCaseBytesPerS * (senders + 1);
  const LinkId hot = made.AddLink(kCaseBytesPerS, kCaseLatency);
  const LinkId cold = made.AddLink(kCaseBytesPerS, kCaseLatency);
  const LinkId up = made.AddLink(wide, kCaseLatency), down = made.AddLink(wide, kCaseLatency);
  for (int i = 0; i <= senders; ++i) {
    const LinkId own = made.AddLink(kCaseBytesPerS, kCaseLatency);
    const bool victim = i == senders;
    made.flows.push_back(
        {VirtualTime(), {{own, up, down, victim ? cold : hot}}, victim ? victim_bytes : bytes});
  }
  return made;
}

NetworkCase Beside(int senders, double bytes) {
  NetworkCase made;
  made.buffer_bytes = kCaseBufferBytes;
  const LinkId hot = made.AddLink(kCaseBytesPerS, kCaseLatency);
  const LinkId over = made.AddLink(kCaseBytesPerS * senders, kCaseLatency);
  for (int i = 0; i <= senders; ++i) {
    const LinkId own = made.AddLink(kCaseBytesPerS, kCaseLatency);
    std::vector<LinkId> path = {own, over, hot};
    if (i == senders) path = {own, hot};
    made.flows.push_back({VirtualTime(), {path}, bytes});
  }
  return made;
}

}  // namespace phantora
