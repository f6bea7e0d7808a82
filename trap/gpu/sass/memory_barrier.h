// A barrier in shared memory (PTX ISA, mbarrier): threads arrive at it, and copies say how many
// bytes they have brought. Its phase ends when nobody and nothing is missing.
#ifndef PHANTORA_TRAP_GPU_SASS_MEMORY_BARRIER_H_
#define PHANTORA_TRAP_GPU_SASS_MEMORY_BARRIER_H_

#include <cstdint>
#include <cstring>

namespace phantora::sass {

// Eight bytes. Programs make one by storing how many are to arrive, which ptxas writes negative in
// bits 1 to 20 and 43 to 62; they take how many are missing from bits 43 to 62 of what they got
// when they arrived, and a wait names the phase in bit 63. The bytes that are missing have to lie
// in what remains.
class MemoryBarrier {
 public:
  static constexpr int kBytes = 8;

  explicit MemoryBarrier(uint8_t* at) : at_(at) { std::memcpy(&bits_, at, kBytes); }

  uint64_t bits() const { return bits_; }
  bool phase() const { return bits_ >> 63 != 0; }

  // So many arrive, of whom `leaving` will not be waited for again, and bytes become missing
  // (negative: have come).
  void Change(uint32_t arrivals, uint32_t leaving, int64_t bytes) {
    uint32_t missing = Get(kMissing), expected = Get(kExpected);
    const uint32_t tx = (Tx() + static_cast<uint32_t>(bytes)) & kTxMask;
    // Both are negative.
    missing = (missing + arrivals) & kCountMask;
    expected = (expected + leaving) & kCountMask;
    bool now = phase();
    if (missing == 0 && tx == 0) {
      now = !now;
      missing = expected;
    }
    bits_ = (bits_ & 1) | uint64_t{expected} << kExpected | uint64_t{tx} << kTx |
            uint64_t{missing} << kMissing | uint64_t{now} << 63;
    std::memcpy(at_, &bits_, kBytes);
  }

 private:
  static constexpr int kExpected = 1, kTx = 21, kMissing = 43;
  static constexpr uint32_t kCountMask = (1 << 20) - 1, kTxMask = (1 << 22) - 1;
  uint32_t Get(int at) const { return static_cast<uint32_t>(bits_ >> at) & kCountMask; }
  uint32_t Tx() const { return static_cast<uint32_t>(bits_ >> kTx) & kTxMask; }

  uint8_t* const at_;
  uint64_t bits_;
};

}  // namespace phantora::sass

#endif  // PHANTORA_TRAP_GPU_SASS_MEMORY_BARRIER_H_
