// Whether what a launch does with global memory is what its program may do, beyond what hardware
// looks at: the memory is there, but nobody has allocated it, or written to it.
#ifndef PHANTORA_TRAP_GPU_SASS_ACCESS_CHECK_H_
#define PHANTORA_TRAP_GPU_SASS_ACCESS_CHECK_H_

#include <array>
#include <cstdint>

namespace phantora::sass {

enum class Wrong : uint8_t {
  kNothing,
  kOutside,    // of all that the program has allocated
  kFreed,      // it has given it back
  kUnwritten,  // it reads what nobody has written
};

// Is asked under the lock of the address space, by one thread at a time. What it says does not
// change while a launch is under way.
class AccessCheck {
 public:
  virtual ~AccessCheck() = default;
  // Whether every access to [address, address + bytes) is right.
  virtual bool IsAllRight(uint64_t address, uint64_t bytes) = 0;
  // What is wrong with its being accessed at all: kNothing, kOutside or kFreed.
  virtual Wrong Look(uint64_t address, uint64_t bytes) = 0;
  // Whether one of the bytes has not been written.
  virtual bool IsUnwritten(uint64_t address, uint64_t bytes) = 0;
};

// All accesses of one instruction of a launch that are wrong in the same way; the place is the
// first one's.
struct WrongAccess {
  Wrong wrong = Wrong::kNothing;
  bool writes = false;
  uint64_t address = 0;
  uint64_t bytes = 0;
  uint32_t instruction = 0;  // its index
  std::array<uint32_t, 3> block{};
  uint32_t thread = 0;  // of the block
  uint64_t count = 1;
};

}  // namespace phantora::sass

#endif  // PHANTORA_TRAP_GPU_SASS_ACCESS_CHECK_H_
