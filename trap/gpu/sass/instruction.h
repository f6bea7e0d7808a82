// One instruction of a GPU's machine code, taken apart.
//
// A word has 128 bits: the operation in bits 0 to 8, the form of its operands in 9 to 11, the guard
// predicate in 12 to 15, scheduling in 105 to 125, and fields between. Which bit means what is in
// encoding_table.h.
#ifndef PHANTORA_TRAP_GPU_SASS_INSTRUCTION_H_
#define PHANTORA_TRAP_GPU_SASS_INSTRUCTION_H_

#include <cstdint>
#include <cstring>

namespace phantora::sass {

// The machine code's generation, as in sm_80.
using Architecture = int;

inline constexpr int kWordBytes = 16;

struct Word {
  uint64_t low = 0, high = 0;

  // `width` bits from bit `at` on; at most 64.
  constexpr uint64_t Bits(int at, int width) const {
    uint64_t value = at >= 64 ? high >> (at - 64) : low >> at;
    if (at < 64 && at + width > 64 && at > 0) value |= high << (64 - at);
    return width >= 64 ? value : value & ((uint64_t{1} << width) - 1);
  }
  constexpr bool Bit(int at) const { return Bits(at, 1) != 0; }
  // As a two's complement number.
  constexpr int64_t Signed(int at, int width) const {
    return static_cast<int64_t>(Bits(at, width) << (64 - width)) >> (64 - width);
  }
  constexpr int operation() const { return static_cast<int>(low & 0x1ff); }
  constexpr int form() const { return static_cast<int>(low >> 9 & 7); }
};

inline Word ReadWord(const uint8_t* bytes) {
  Word word;
  std::memcpy(&word.low, bytes, 8);
  std::memcpy(&word.high, bytes + 8, 8);
  return word;
}

inline constexpr int kNoRegister = 255;        // RZ: reads as zero
inline constexpr int kNoUniformRegister = 63;  // URZ
inline constexpr int kTrue = 7;                // PT, UPT
// Where results go that nobody wants: rows of Warp beyond those of a program, and beyond its zeros.
inline constexpr uint16_t kDiscard = 264;

// A source of 32 bits; of wider ones, the first half.
struct Source {
  enum class Kind : uint8_t { kNone, kRegister, kUniform, kImmediate, kConstant };
  Kind kind = Kind::kNone;
  uint8_t index = kNoRegister;  // of the register, or of the constant bank
  bool negate = false;          // or inverted, where the operation is one of bits
  bool absolute = false;
  uint32_t value = 0;  // the immediate, or the offset in the bank in bytes
};

class Warp;
struct Instruction;
using Handler = void (*)(Warp& warp, const Instruction& instruction);

// What becomes of the program counter. All but kPlain are done by the loop that runs a warp.
enum class Flow : uint8_t {
  kPlain,
  kBranch,
  kBranchIfUniform,  // and a uniform predicate holds
  kBranchTogether,   // all threads of the path go if any does
  kDivergence,       // BRA.DIV, BRA.CONV
  kIndirectBranch,
  kUniformIndirectBranch,
  kCall,
  kReturn,
  kAbsoluteCall,
  kAbsoluteReturn,
  kAbsoluteBranch,
  kExit,
  kSetConvergence,  // BSSY
  kConverge,        // BSYNC
  kBreak,
  kWarpSync,
  kCollective,  // WARPSYNC.COLLECTIVE: a call once the warp is together
  kBarrier,
  kYield,
  kTryWait,       // looks whether something has happened: if not, it is others' turn
  kReadsClock,    // or another special register: done as kPlain, once the launch's clock is up to
                  // date
  kSetsExited,    // may let others go on
  kReadsAddress,  // its own: done as kPlain, once it is known
  kTrap,
};

struct alignas(64) Instruction {
  Handler handler = nullptr;
  Word word;
  Source a, b, c;
  int32_t offset = 0;   // of a memory access, in bytes
  uint32_t target = 0;  // of a branch: an index of an instruction
  uint16_t destination = kDiscard;
  uint8_t guard = kTrue;
  bool guard_inverted = false;
  bool guard_is_uniform = false;
  Flow flow = Flow::kPlain;

  uint32_t Bits(int at, int width) const { return static_cast<uint32_t>(word.Bits(at, width)); }
  bool Bit(int at) const { return word.Bit(at); }
};

}  // namespace phantora::sass

#endif  // PHANTORA_TRAP_GPU_SASS_INSTRUCTION_H_
