// A network at the level of packets, to check what FlowNetwork says of small cases.
#ifndef PHANTORA_FABRIC_PACKETS_PACKET_NETWORK_H_
#define PHANTORA_FABRIC_PACKETS_PACKET_NETWORK_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <queue>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "clock/virtual_time.h"
#include "fabric/network/flow_network.h"
#include "fabric/packets/dcqcn.h"

namespace phantora {

// Random early detection: the share of arriving packets that a queue of so many bytes marks.
struct RedMarking {
  double kmin_bytes = 0, kmax_bytes = 0;
  double pmax = 0;  // at Kmax; above it all are marked

  double Probability(double queued_bytes) const;
  // Zhu et al., SIGCOMM 2015: 5 KB, 200 KB and 1 % at 40 Gbit/s, in proportion.
  static RedMarking Paper(double link_bytes_per_s);
  // Li et al., HPCC, SIGCOMM 2019 (simulation/run.py in its repository): 100 KB, 400 KB and 20 % at
  // 25 Gbit/s, likewise.
  static RedMarking Vendor(double link_bytes_per_s);
};

struct PacketOptions {
  // Payload of a packet: InfiniBand's largest, and what NCCL's connections have with jumbo frames.
  double mtu_bytes = 4096;
  // RoCEv2's share of the wire: preamble and gap 20, Ethernet 14 and 4, IPv4 20, UDP 8, BTH 12,
  // ICRC 4 (InfiniBand Architecture Specification, annex A17).
  double header_bytes = 82;
  // Priority flow control: who sends into a full buffer is paused (IEEE 802.1Qbb). Without it,
  // packets that find no room are lost.
  bool pause = true;
  // A pause ends when the buffer is so far below where it began: two packets (Zhu et al.).
  double resume_packets = 2;
  // How all links mark packets; none: they do not.
  std::optional<RedMarking> marking;
  // How all senders react to marks; none: they send as fast as their links.
  std::optional<DcqcnOptions> congestion_control;
  // Of each sending link. A message is not begun before its turn, whoever's it is; 0: no bound.
  double messages_per_s = 0;
  // What is lost is sent again after so long, and only it: selective repeat, told late.
  VirtualSpan resend_after = VirtualSpan::Microseconds(100);
  // How packets of a flow with several paths take them.
  enum class Spread { kInTurn, kRandom } spread = Spread::kInTurn;
  uint64_t seed = 1;  // of marks and of random paths
};

// Packets cross links one after another: each link has a queue at its beginning, sends one packet
// at a time at its rate, and has a buffer at its end. Store-and-forward: a packet goes on when all
// of it has come, as it does wherever there is a queue; cutting through would only take a packet's
// time per hop off the latency (82 ns at 400 Gbit/s).
//
// The first link of a path is the sender's NIC, which serves its flows in turn, packet by packet.
// Queues behind it are first-in, first-out, without a bound of their own: what bounds them is the
// buffer at the end of the link that a packet came over, until it has left by the next. Receivers
// take everything at once. Notifications and pauses take the links' latency and no bandwidth.
//
// The same calls give the same times. Not thread-safe.
class PacketNetwork {
 public:
  struct Counts {
    uint64_t packets = 0;  // arrived at their receivers
    uint64_t marked = 0, lost = 0, pauses = 0;
  };

  explicit PacketNetwork(PacketOptions options);
  PacketNetwork(const PacketNetwork&) = delete;
  PacketNetwork& operator=(const PacketNetwork&) = delete;

  // Bytes/s, one way; below 1 it is down. `buffer_bytes` at its end, of which the last part is for
  // what is under way when a pause begins (Headroom); Unbuffered means so large that it never
  // fills.
  LinkId AddLink(double bytes_per_s, VirtualSpan latency, double buffer_bytes);
  static constexpr double Unbuffered() { return 1e300; }
  // What still comes once a link's buffer says stop: a round trip's worth and two packets.
  double Headroom(double bytes_per_s, VirtualSpan latency) const;

  // A flow of `bytes` from `now` on, in messages of `message_bytes` (0: one), spread over `paths`.
  // Errors: bytes without end; a link that does not exist; paths that do not begin with one link; a
  // time that has passed. Without a path it is over at once.
  absl::StatusOr<FlowId> Start(VirtualTime now, absl::Span<const std::vector<LinkId>> paths,
                               double bytes, double message_bytes = 0);

  // When the next flow is over: its last byte has arrived. Time passes until then: what starts
  // later may not start before. Infinity if nothing moves.
  VirtualTime NextEnd();
  // The flows that are over by `now`, in the order of their ends.
  std::vector<FlowId> Ended(VirtualTime now);

  const Counts& counts() const { return counts_; }
  // Payload that has crossed it.
  double CarriedBy(LinkId link) const { return links_[link].carried; }
  // The longest that the queue before it has been, in bytes.
  double LongestQueue(LinkId link) const { return links_[link].longest; }

 private:
  struct Flow {
    std::vector<std::vector<LinkId>> paths;
    double left = 0, arrived = 0, bytes = 0;  // to be sent; of all
    double message = 0, message_left = 0;
    uint64_t sent_packets = 0;
    double last_size = 0;  // of the last packet, on the wire
    VirtualTime last_sent;
    VirtualTime next_cnp;  // of the receiver
    std::optional<DcqcnRate> rate;
    // Timers of an earlier run have another number.
    uint64_t alpha_run = 0, increase_run = 0;
    bool alpha_running = false;
  };
  struct Packet {
    uint32_t flow = 0, path = 0, hop = 0;
    double payload = 0;
    bool marked = false;
  };
  struct Link {
    double bytes_per_s = 0;
    VirtualSpan latency;
    double xoff = 0, xon = 0, buffer = 0;
    std::deque<uint32_t> queue;  // packets before it
    double queued = 0, longest = 0, carried = 0;
    double held = 0;            // of its buffer
    bool stopped = false;       // its buffer said so
    bool paused = false;        // which has reached its beginning
    bool busy = false;          // a packet is being sent
    std::vector<uint32_t> own;  // flows that begin here
    size_t turn = 0;
    VirtualTime next_message;
    VirtualTime wake = VirtualTime::Infinity();  // when it looks for a packet again
  };
  enum class What {
    kStart,
    kSent,
    kArrived,
    kPause,
    kResume,
    kWake,
    kCnp,
    kAlpha,
    kIncrease,
    kAgain
  };
  struct Event {
    VirtualTime at;
    uint64_t order = 0;
    What what = What::kStart;
    uint32_t subject = 0;  // a flow, a link or a packet
    uint64_t detail = 0;   // a timer's run; a link; bytes
    bool operator>(const Event& other) const {
      return at != other.at ? at > other.at : order > other.order;
    }
  };

  void Post(VirtualTime at, What what, uint32_t subject, uint64_t detail = 0);
  // One event; false if nothing can move any more.
  bool Step();
  void Handle(const Event& event);
  void StartFlow(uint32_t number);
  // `run`: which start of the timer it is; a flow's timers are started anew.
  void OnAlphaTimer(uint32_t number, uint64_t run);
  void OnIncreaseTimer(uint32_t number, uint64_t run);
  // The flow has these bytes more to send.
  void SendMore(uint32_t number, double bytes);
  // Sends a packet if it can.
  void Kick(LinkId link);
  void Send(LinkId link, uint32_t packet);
  // A packet of one of the link's own flows, in turn; none if all are over or have to wait.
  std::optional<uint32_t> NextOwn(LinkId link);
  uint32_t MakePacket(LinkId link, uint32_t flow);
  void Sent(LinkId link, uint32_t packet);
  void Arrived(uint32_t packet);
  void Deliver(uint32_t packet);
  void Notify(uint32_t flow);
  double WireBytes(const Packet& packet) const { return packet.payload + options_.header_bytes; }
  // From 0 to 1.
  double Random() { return static_cast<double>(random_() >> 11) * 0x1p-53; }

  const PacketOptions options_;
  std::vector<Link> links_;
  std::vector<Flow> flows_;
  std::vector<Packet> packets_;
  std::vector<uint32_t> free_packets_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  uint64_t order_ = 0;
  uint64_t moving_ = 0;  // events that are not a sender's timers
  VirtualTime now_;
  std::deque<std::pair<VirtualTime, FlowId>> ended_;
  std::mt19937_64 random_;
  Counts counts_;
};

}  // namespace phantora

#endif  // PHANTORA_FABRIC_PACKETS_PACKET_NETWORK_H_
