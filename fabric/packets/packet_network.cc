#include "fabric/packets/packet_network.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace phantora {
namespace {

constexpr double kPicosecondsPerSecond = 1e12;
// A day, in picoseconds: keeps sums of times in range.
constexpr double kLongest = 1e17;
constexpr double kBytesPerGbit = 1e9 / 8;

VirtualSpan TimeOf(double bytes, double bytes_per_s) {
  const double picoseconds = std::ceil(bytes / bytes_per_s * kPicosecondsPerSecond);
  return VirtualSpan::Picoseconds(static_cast<int64_t>(std::min(picoseconds, kLongest)));
}

double Seconds(VirtualSpan span) {
  return static_cast<double>(span.picoseconds()) / kPicosecondsPerSecond;
}

}  // namespace

double RedMarking::Probability(double queued_bytes) const {
  if (queued_bytes <= kmin_bytes) return 0;
  if (queued_bytes > kmax_bytes) return 1;
  return pmax * (queued_bytes - kmin_bytes) / (kmax_bytes - kmin_bytes);
}

RedMarking RedMarking::Paper(double link_bytes_per_s) {
  const double scale = link_bytes_per_s / (40 * kBytesPerGbit);
  return {5e3 * scale, 200e3 * scale, 0.01};
}

RedMarking RedMarking::Vendor(double link_bytes_per_s) {
  const double scale = link_bytes_per_s / (25 * kBytesPerGbit);
  return {100e3 * scale, 400e3 * scale, 0.2};
}

PacketNetwork::PacketNetwork(PacketOptions options)
    : options_(std::move(options)), random_(options_.seed) {}

double PacketNetwork::Headroom(double bytes_per_s, VirtualSpan latency) const {
  return 2 * bytes_per_s * Seconds(latency) + 2 * (options_.mtu_bytes + options_.header_bytes);
}

LinkId PacketNetwork::AddLink(double bytes_per_s, VirtualSpan latency, double buffer_bytes) {
  Link& link = links_.emplace_back();
  const double packet = options_.mtu_bytes + options_.header_bytes;
  link.bytes_per_s = bytes_per_s >= 1 ? bytes_per_s : 0;
  link.latency = latency;
  link.buffer = std::max(buffer_bytes, packet);
  link.xoff = std::max(link.buffer - Headroom(link.bytes_per_s, latency), 0.0);
  link.xon = std::max(link.xoff - options_.resume_packets * packet, 0.0);
  return static_cast<LinkId>(links_.size() - 1);
}

absl::StatusOr<FlowId> PacketNetwork::Start(VirtualTime now,
                                            absl::Span<const std::vector<LinkId>> paths,
                                            double bytes, double message_bytes) {
  if (now < now_) return absl::InvalidArgumentError("the time of the flow's start has passed");
  if (std::isinf(bytes)) return absl::InvalidArgumentError("a flow has an end");
  for (const auto& path : paths) {
    if (path.empty() || path[0] != paths[0][0]) {
      return absl::InvalidArgumentError("all paths of a flow begin with one link");
    }
    for (const LinkId link : path) {
      if (link >= links_.size()) {
        return absl::InvalidArgumentError(absl::StrCat("there is no link ", link));
      }
    }
  }
  Flow& flow = flows_.emplace_back();
  flow.paths.assign(paths.begin(), paths.end());
  flow.bytes = flow.left = bytes > 0 ? std::ceil(bytes) : 0;
  flow.message = message_bytes > 0 ? std::ceil(message_bytes) : flow.bytes;
  const auto index = static_cast<uint32_t>(flows_.size() - 1);
  Post(now, What::kStart, index);
  return FlowId{index} + 1;
}

VirtualTime PacketNetwork::NextEnd() {
  while (ended_.empty()) {
    if (!Step()) return VirtualTime::Infinity();
  }
  return ended_.front().first;
}

std::vector<FlowId> PacketNetwork::Ended(VirtualTime now) {
  while (!events_.empty() && events_.top().at <= now && Step()) {
  }
  std::vector<FlowId> ended;
  while (!ended_.empty() && ended_.front().first <= now) {
    ended.push_back(ended_.front().second);
    ended_.pop_front();
  }
  return ended;
}

void PacketNetwork::Post(VirtualTime at, What what, uint32_t subject, uint64_t detail) {
  if (what != What::kAlpha && what != What::kIncrease) ++moving_;
  events_.push({at, order_++, what, subject, detail});
}

bool PacketNetwork::Step() {
  // Timers alone move nothing: who could send would have an event of its own.
  if (moving_ == 0) return false;
  const Event event = events_.top();
  events_.pop();
  if (event.what != What::kAlpha && event.what != What::kIncrease) --moving_;
  now_ = event.at;
  Handle(event);
  return true;
}

void PacketNetwork::Handle(const Event& event) {
  const uint32_t subject = event.subject;
  switch (event.what) {
    case What::kStart:
      return StartFlow(subject);
    case What::kSent:
      return Sent(static_cast<LinkId>(event.detail), subject);
    case What::kArrived:
      return Arrived(subject);
    case What::kPause:
      links_[subject].paused = true;
      return;
    case What::kResume:
      links_[subject].paused = false;
      return Kick(subject);
    case What::kWake:
      if (links_[subject].wake == now_) links_[subject].wake = VirtualTime::Infinity();
      return Kick(subject);
    case What::kCnp:
      return Notify(subject);
    case What::kAlpha:
      return OnAlphaTimer(subject, event.detail);
    case What::kIncrease:
      return OnIncreaseTimer(subject, event.detail);
    case What::kAgain:
      return SendMore(subject, static_cast<double>(event.detail));
  }
}

void PacketNetwork::StartFlow(uint32_t number) {
  Flow& flow = flows_[number];
  if (flow.left == 0 || flow.paths.empty()) {
    ended_.emplace_back(now_, FlowId{number} + 1);
    return;
  }
  const LinkId first = flow.paths[0][0];
  if (options_.congestion_control) {
    flow.rate.emplace(&*options_.congestion_control, links_[first].bytes_per_s);
  }
  flow.last_sent = now_;
  links_[first].own.push_back(number);
  Kick(first);
}

void PacketNetwork::OnAlphaTimer(uint32_t number, uint64_t run) {
  Flow& flow = flows_[number];
  if (run != flow.alpha_run) return;
  flow.alpha_running = flow.left > 0 && flow.rate->limited();
  if (!flow.alpha_running) return;
  flow.rate->OnAlphaTimer();
  Post(now_ + options_.congestion_control->alpha_timer, What::kAlpha, number, run);
}

void PacketNetwork::OnIncreaseTimer(uint32_t number, uint64_t run) {
  Flow& flow = flows_[number];
  if (run != flow.increase_run || flow.left <= 0 || !flow.rate->limited()) return;
  flow.rate->OnIncreaseTimer();
  Post(now_ + options_.congestion_control->increase_timer, What::kIncrease, number, run);
  Kick(flow.paths[0][0]);
}

void PacketNetwork::SendMore(uint32_t number, double bytes) {
  Flow& flow = flows_[number];
  const LinkId first = flow.paths[0][0];
  if (flow.left == 0) links_[first].own.push_back(number);
  flow.left += bytes;
  flow.message_left += bytes;
  Kick(first);
}

void PacketNetwork::Kick(LinkId id) {
  Link& link = links_[id];
  if (link.busy || link.paused || link.bytes_per_s == 0) return;
  if (!link.queue.empty()) {
    const uint32_t packet = link.queue.front();
    link.queue.pop_front();
    link.queued -= WireBytes(packets_[packet]);
    Send(id, packet);
  } else if (const auto packet = NextOwn(id)) {
    Send(id, *packet);
  }
}

void PacketNetwork::Send(LinkId id, uint32_t packet) {
  links_[id].busy = true;
  Post(now_ + TimeOf(WireBytes(packets_[packet]), links_[id].bytes_per_s), What::kSent, packet, id);
}

std::optional<uint32_t> PacketNetwork::NextOwn(LinkId id) {
  Link& link = links_[id];
  VirtualTime earliest = VirtualTime::Infinity();
  for (size_t i = 0; i < link.own.size(); ++i) {
    const size_t at = (link.turn + i) % link.own.size();
    const uint32_t index = link.own[at];
    Flow& flow = flows_[index];
    VirtualTime may = flow.last_sent;
    if (flow.last_size > 0) {
      may = may + TimeOf(flow.last_size, flow.rate ? flow.rate->bytes_per_s() : link.bytes_per_s);
    }
    if (flow.message_left <= 0) may = std::max(may, link.next_message);
    if (may > now_) {
      earliest = std::min(earliest, may);
      continue;
    }
    link.turn = at + 1;
    const uint32_t packet = MakePacket(id, index);
    if (flow.left <= 0) {
      link.own.erase(link.own.begin() + static_cast<ptrdiff_t>(at));
      link.turn = at;
    }
    return packet;
  }
  if (earliest < link.wake) {
    link.wake = earliest;
    Post(earliest, What::kWake, id);
  }
  return std::nullopt;
}

uint32_t PacketNetwork::MakePacket(LinkId id, uint32_t index) {
  Flow& flow = flows_[index];
  if (flow.message_left <= 0) {
    flow.message_left = std::min(flow.message, flow.left);
    if (options_.messages_per_s > 0) {
      links_[id].next_message = now_ + TimeOf(1, options_.messages_per_s);
    }
  }
  uint32_t number = 0;
  if (free_packets_.empty()) {
    number = static_cast<uint32_t>(packets_.size());
    packets_.emplace_back();
  } else {
    number = free_packets_.back();
    free_packets_.pop_back();
  }
  Packet& packet = packets_[number];
  packet = Packet();
  packet.flow = index;
  packet.payload = std::min({options_.mtu_bytes, flow.message_left, flow.left});
  const auto paths = static_cast<uint64_t>(flow.paths.size());
  // Flows begin their turns at different paths.
  packet.path = static_cast<uint32_t>(options_.spread == PacketOptions::Spread::kInTurn
                                          ? (flow.sent_packets + index) % paths
                                          : random_() % paths);
  ++flow.sent_packets;
  flow.left -= packet.payload;
  flow.message_left -= packet.payload;
  flow.last_sent = now_;
  flow.last_size = WireBytes(packet);
  if (flow.rate) flow.rate->OnSent(packet.payload);
  return number;
}

void PacketNetwork::Sent(LinkId id, uint32_t number) {
  Link& link = links_[id];
  const Packet& packet = packets_[number];
  link.busy = false;
  link.carried += packet.payload;
  Post(now_ + link.latency, What::kArrived, number);
  if (packet.hop > 0) {
    // It has left the buffer that it came into.
    const LinkId before = flows_[packet.flow].paths[packet.path][packet.hop - 1];
    Link& from = links_[before];
    from.held -= WireBytes(packet);
    if (from.stopped && from.held <= from.xon) {
      from.stopped = false;
      Post(now_ + from.latency, What::kResume, before);
    }
  }
  Kick(id);
}

void PacketNetwork::Arrived(uint32_t number) {
  Packet& packet = packets_[number];
  const auto& path = flows_[packet.flow].paths[packet.path];
  if (packet.hop + 1 == path.size()) {
    Deliver(number);
    return;
  }
  const LinkId before = path[packet.hop], after = path[packet.hop + 1];
  const double size = WireBytes(packet);
  Link& from = links_[before];
  if (from.held + size > from.buffer) {
    ++counts_.lost;
    Post(now_ + options_.resend_after, What::kAgain, packet.flow,
         static_cast<uint64_t>(packet.payload));
    free_packets_.push_back(number);
    return;
  }
  from.held += size;
  if (options_.pause && !from.stopped && from.held > from.xoff) {
    from.stopped = true;
    ++counts_.pauses;
    Post(now_ + from.latency, What::kPause, before);
  }
  Link& to = links_[after];
  if (options_.marking && !packet.marked) {
    const double share = options_.marking->Probability(to.queued);
    if (share > 0 && Random() < share) {
      packet.marked = true;
      ++counts_.marked;
    }
  }
  ++packet.hop;
  to.queue.push_back(number);
  to.queued += size;
  to.longest = std::max(to.longest, to.queued);
  Kick(after);
}

void PacketNetwork::Deliver(uint32_t number) {
  const Packet packet = packets_[number];
  free_packets_.push_back(number);
  ++counts_.packets;
  Flow& flow = flows_[packet.flow];
  flow.arrived += packet.payload;
  if (flow.arrived >= flow.bytes) {
    ended_.emplace_back(now_, FlowId{packet.flow} + 1);
    return;
  }
  if (packet.marked && flow.rate && now_ >= flow.next_cnp) {
    flow.next_cnp = now_ + options_.congestion_control->cnp_interval;
    VirtualSpan back;
    for (const LinkId link : flow.paths[packet.path]) back = back + links_[link].latency;
    Post(now_ + back, What::kCnp, packet.flow);
  }
}

void PacketNetwork::Notify(uint32_t index) {
  Flow& flow = flows_[index];
  if (flow.left <= 0) return;
  flow.rate->OnCnp();
  if (!flow.alpha_running) {
    flow.alpha_running = true;
    Post(now_ + options_.congestion_control->alpha_timer, What::kAlpha, index, ++flow.alpha_run);
  }
  Post(now_ + options_.congestion_control->increase_timer, What::kIncrease, index,
       ++flow.increase_run);
}

}  // namespace phantora
