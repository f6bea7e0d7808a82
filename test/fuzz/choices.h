// Decisions read from the bytes of a fuzzer's input.
#ifndef PHANTORA_TEST_FUZZ_CHOICES_H_
#define PHANTORA_TEST_FUZZ_CHOICES_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace phantora {

// What has to hold for whatever input.
inline void Require(bool holds) {
  if (!holds) __builtin_trap();
}

// Small decisions take few bytes, so that changing one byte of an input changes one decision. At
// the end of the input everything is 0.
class Choices {
 public:
  Choices(const uint8_t* data, size_t size) : data_(data), left_(size) {}

  bool empty() const { return left_ == 0; }
  size_t left() const { return left_; }

  // Of [0, bound), bound > 0.
  uint64_t Below(uint64_t bound) {
    const int bytes = bound <= 1U << 8             ? 1
                      : bound <= 1U << 16          ? 2
                      : bound <= uint64_t{1} << 32 ? 4
                                                   : 8;
    return Bits(bytes) % bound;
  }
  uint8_t Byte() { return static_cast<uint8_t>(Bits(1)); }
  uint32_t Word() { return static_cast<uint32_t>(Bits(4)); }
  uint64_t Long() { return Bits(8); }

  // So many, or as many as there are.
  std::vector<uint8_t> Bytes(size_t count) {
    count = count < left_ ? count : left_;
    std::vector<uint8_t> bytes(data_, data_ + count);
    data_ += count;
    left_ -= count;
    return bytes;
  }
  std::vector<uint8_t> Rest() { return Bytes(left_); }

 private:
  uint64_t Bits(int bytes) {
    uint64_t value = 0;
    const size_t taken = static_cast<size_t>(bytes) < left_ ? static_cast<size_t>(bytes) : left_;
    std::memcpy(&value, data_, taken);
    data_ += taken;
    left_ -= taken;
    return value;
  }

  const uint8_t* data_;
  size_t left_;
};

}  // namespace phantora

#endif  // PHANTORA_TEST_FUZZ_CHOICES_H_
