// What the library of --check memory tells the supervisor, from within a rank.
//
// libcuda cuts small allocations out of pieces of 2 MiB by itself, so that what a program calls an
// allocation no system call shows. The library stands between the program and libcuda's functions
// for memory, and tells of each by a call on the device kDevice.
//
// Everything is little-endian and fixed in size. The supervisor trusts none of it.
#ifndef PHANTORA_TRAP_CHECK_LIBRARY_WIRE_H_
#define PHANTORA_TRAP_CHECK_LIBRARY_WIRE_H_

#include <sys/ioctl.h>

#include <cstdint>

namespace phantora::check {

inline constexpr char kDevice[] = "/dev/phantora-check";
inline constexpr unsigned kWhereBytes = 400;

enum class Kind : uint32_t {
  kDevice,      // a GPU's memory, new: nothing has been written to it
  kPool,        // the same from a pool, in the order of a stream: it may have been used before
  kManaged,     // the host writes there, unseen
  kHost,        // the host's, made by CUDA
  kRegistered,  // the host's, made by the program
};
inline constexpr uint32_t kKinds = 5;

// All calls answer 0, or -1 with errno: EINVAL a field makes no sense, ENOSPC the process has too
// many allocations.

struct Allocated {
  uint64_t address, bytes;
  Kind kind;
  uint32_t reserved = 0;
  char where[kWhereBytes] = {};  // in the program, ends with a zero; "" if that is not known
};

enum class Freeing : uint32_t {
  kBegins,   // what runs on the GPU may still use it
  kIsDone,   // it must not be used any more
  kInOrder,  // of a stream: it is the program's no longer, but what was launched before may use it
  kFailed,   // CUDA has refused: `error` is its number (CUresult)
};
inline constexpr uint32_t kFreeings = 4;

struct Freed {
  uint64_t address;
  Freeing what;
  int32_t error = 0;
  char where[kWhereBytes] = {};  // of kFailed
};

// A copy or fill that CUDA has refused.
struct Refused {
  char function[40] = {};  // of libcuda, ends with a zero
  int32_t error = 0;       // CUresult
  char where[kWhereBytes] = {};
};

inline constexpr unsigned long kAllocated = _IOWR('F', 0x01, Allocated);
inline constexpr unsigned long kFreed = _IOWR('F', 0x02, Freed);
inline constexpr unsigned long kRefused = _IOWR('F', 0x03, Refused);

}  // namespace phantora::check

#endif  // PHANTORA_TRAP_CHECK_LIBRARY_WIRE_H_
