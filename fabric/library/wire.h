// What the drop-in libnccl.so.2 and the supervisor say to each other.
//
// A communicator is made and ended by calls on the device kDevice. An operation is a kernel
// launch in the caller's stream: a kernel that does nothing, whose parameters say what is to be
// done. So operations keep the order of streams, graphs and events that the CUDA driver gives
// them, and what the supervisor needs to know of one travels with it.
//
// Everything is little-endian and fixed in size. The supervisor trusts none of it.
#ifndef PHANTORA_FABRIC_LIBRARY_WIRE_H_
#define PHANTORA_FABRIC_LIBRARY_WIRE_H_

#include <sys/ioctl.h>

#include <cstdint>

namespace phantora::nccl {

inline constexpr char kDevice[] = "/dev/phantora-nccl";

using Handle = uint32_t;  // of a communicator in one process; 0 is none

// What a rank asks of a communicator: its environment and configuration. -1, or an empty string:
// not set.
struct Settings {
  char algorithm[64] = {};                       // NCCL_ALGO
  char protocol[64] = {};                        // NCCL_PROTO
  int32_t min_channels = -1, max_channels = -1;  // NCCL_{MIN,MAX}_NCHANNELS and _CTAS, min/maxCTAs
  int32_t nvls = -1;                             // NCCL_NVLS_ENABLE
  int32_t collnet = -1;                          // NCCL_COLLNET_ENABLE
  int32_t ib_timeout = -1, ib_retries = -1;      // NCCL_IB_TIMEOUT, NCCL_IB_RETRY_CNT
  int32_t queue_pairs = -1;                      // NCCL_IB_QPS_PER_CONNECTION
  int32_t reserved = 0;
};

enum class State : int32_t {
  kPending,  // other ranks have not called yet: ask again later
  kReady,
  kFailed,  // `message` says why
};

// All calls answer 0, or -1 with errno: EBADF no such communicator, EINVAL a field makes no
// sense, ENOSPC too many communicators, EPERM the GPU is none of the caller's.

struct Join {
  uint8_t id[128];      // in: who has the same belongs together
  int32_t ranks, rank;  // in
  uint8_t gpu[16];      // in: its UUID
  Settings settings;    // in
  Handle handle;        // out
};

// Every rank of `parent` calls it, in the same order as other splits of `parent`.
struct Split {
  Handle parent;  // in
  int32_t color;  // in: who has the same belongs together; -1: takes part in none
  int32_t key;    // in: orders the new ranks; then the old rank
  Settings settings;
  Handle handle;  // out; also with color -1, to be asked for and left like others
};

// Every rank of `parent` that is to stay calls it.
struct Shrink {
  Handle parent;
  int32_t excluded_count;  // in
  uint64_t excluded;       // in: address of that many int32_t, ranks of `parent`
  int32_t abort;           // in: give up what is under way in `parent`
  Settings settings;
  Handle handle;  // out
};

struct Ask {
  Handle handle;        // in
  State state;          // out
  int32_t ranks, rank;  // out, if ready
  int32_t error;        // out: the ncclResult_t of what has gone wrong since, 0 if nothing has
  uint32_t unfinished;  // out: operations that this rank has started and that are not over
  char message[512];    // out: in words, ends with 0
};

enum class Leaving : int32_t { kDestroy, kAbort };

struct Leave {
  Handle handle;
  Leaving how;  // kAbort: operations under way are given up, and end at once
};

inline constexpr unsigned long kJoin = _IOWR('F', 0x01, Join);
inline constexpr unsigned long kSplit = _IOWR('F', 0x02, Split);
inline constexpr unsigned long kShrink = _IOWR('F', 0x03, Shrink);
inline constexpr unsigned long kAsk = _IOWR('F', 0x04, Ask);
inline constexpr unsigned long kLeave = _IOWR('F', 0x05, Leave);

// --- Operations -----------------------------------------------------------------------

enum class Operation : uint8_t {
  kBroadcast,
  kReduce,
  kAllGather,
  kReduceScatter,
  kAllReduce,
  kSend,
  kReceive,
};
inline constexpr int kOperations = 7;

// ncclDataType_t and ncclRedOp_t keep their numbers; of the latter, those that programs make
// (PreMulSum) are kPreMulSum here, and what they multiply with is in `scalar`.
inline constexpr uint8_t kSum = 0, kProd = 1, kMax = 2, kMin = 3, kAvg = 4, kPreMulSum = 5;

struct Entry {
  Operation operation;
  uint8_t type;              // ncclDataType_t
  uint8_t reduction;         // see above
  uint8_t scalar_on_device;  // `scalar` is an address in GPU memory
  int32_t peer;              // of a send or receive; the root of a broadcast or reduction
  uint64_t count;            // elements, as in the call: of an all-gather what is sent, of a
                             // reduce-scatter what is received
  uint64_t send, receive;    // GPU addresses; 0 where there is none
  uint64_t scalar;           // of type `type`, from the lowest byte on; or see above
};
static_assert(sizeof(Entry) == 40);

// What one ncclGroupEnd, or a call outside a group, does with one communicator. Collectives take
// place in this order, sends and receives all at once. One that has more entries than fit is
// several launches in the same stream, all but the last with `more`.
struct MarkerHeader {
  uint64_t magic = 0x314c43434e544850;  // "PHTNCCL1"
  Handle handle = 0;
  uint16_t entries = 0;
  uint16_t more = 0;
  uint64_t sequence = 0;  // the caller's count of calls with this communicator, for messages
  uint64_t reserved = 0;
};
static_assert(sizeof(MarkerHeader) == 32);

inline constexpr int kMostEntries = 24;

// The parameter of the kernel kMarkerKernel.
struct Marker {
  MarkerHeader header;
  Entry entry[1];
};
// The parameter of the kernel kLongMarkerKernel.
struct LongMarker {
  MarkerHeader header;
  Entry entry[kMostEntries];
};
static_assert(sizeof(LongMarker) <= 4096);

inline constexpr char kMarkerKernel[] = "phantora_nccl_marker";
inline constexpr char kLongMarkerKernel[] = "phantora_nccl_long_marker";

}  // namespace phantora::nccl

#endif  // PHANTORA_FABRIC_LIBRARY_WIRE_H_
