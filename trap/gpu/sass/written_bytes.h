// Which bytes of a page have been written.
#ifndef PHANTORA_TRAP_GPU_SASS_WRITTEN_BYTES_H_
#define PHANTORA_TRAP_GPU_SASS_WRITTEN_BYTES_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace phantora::sass {

class WrittenBytes {
 public:
  static constexpr uint64_t kBytes = 4096;

  // [begin, end) of the page, as all that follows.
  void Set(uint64_t begin, uint64_t end) {
    for (uint64_t at = begin; at < end;) {
      const uint64_t into = at % 64, bits = std::min(end - at, 64 - into);
      words_[at / 64] |= (~uint64_t{0} >> (64 - bits)) << into;
      at += bits;
    }
  }
  bool Has(uint64_t at) const { return (words_[at / 64] >> at % 64 & 1) != 0; }

  // Calls use(begin, end) for each range that was written, in order.
  template <typename Use>
  void EachRange(Use use) const {
    for (uint64_t at = Next(0, true); at < kBytes;) {
      const uint64_t end = Next(at, false);
      use(at, end);
      at = Next(end, true);
    }
  }

 private:
  // The first from `at` on that was written, or was not.
  uint64_t Next(uint64_t at, bool written) const {
    while (at < kBytes) {
      const uint64_t word = (written ? words_[at / 64] : ~words_[at / 64]) >> at % 64;
      if (word != 0) return at + static_cast<uint64_t>(std::countr_zero(word));
      at = (at / 64 + 1) * 64;
    }
    return kBytes;
  }

  std::array<uint64_t, kBytes / 64> words_{};
};

}  // namespace phantora::sass

#endif  // PHANTORA_TRAP_GPU_SASS_WRITTEN_BYTES_H_
