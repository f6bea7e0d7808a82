// What a run and a process that executes kernels for it say to each other, over a socket and a
// piece of memory that both have mapped.
#ifndef PHANTORA_TOOLS_EXECUTOR_MESSAGES_H_
#define PHANTORA_TOOLS_EXECUTOR_MESSAGES_H_

#include <cstdint>

namespace phantora::executor {

enum class Kind : uint32_t {
  kReserve,    // address; answered
  kMap,        // address
  kUnmap,      // address
  kMapHost,    // address, bytes; place: in the file, whose descriptor comes along; answered
  kUnmapHost,  // address, bytes
  kPut,        // address, bytes; place: in the shared memory
  kGet,        // address, bytes; answered, bytes are at the shared memory's kGetAt
  kCopy,       // address, bytes; place: address to copy from
  kFill,       // address, bytes; place: the pattern; count: its bytes
  kImage,      // count: its number; a cubin follows
  kKernel,     // count: its number; place: the image's; its symbol follows; answered
  kLaunch,     // count: the kernel's number; LaunchHead and parameters follow
  kFinish,     // answered
};

// Of a run's. `following` bytes come behind it.
struct Request {
  Kind kind;
  uint32_t following = 0;
  uint64_t address = 0, bytes = 0, place = 0, count = 0;
};

struct LaunchHead {
  uint32_t grid[3], block[3], cluster[3];
  uint32_t shared_bytes, cooperative, parameter_bytes;
};

// The other's: once when it is ready, then to each request that is answered. `code` is an
// absl::StatusCode; `following` bytes of its message come behind it, at first the GPU's name. The
// numbers are of the first.
struct Answer {
  uint32_t code = 0;
  uint32_t following = 0;
  uint64_t free_bytes = 0;
  uint64_t architecture = 0;  // 90 for sm_90
};

// The shared memory.
inline constexpr uint64_t kGetAt = 0, kPutAt = uint64_t{2} << 20, kPutBytes = uint64_t{32} << 20;
inline constexpr uint64_t kSharedBytes = kPutAt + kPutBytes;

// Which descriptors a process begins with.
inline constexpr int kSocketFd = 3, kMemoryFd = 4;

}  // namespace phantora::executor

#endif  // PHANTORA_TOOLS_EXECUTOR_MESSAGES_H_
