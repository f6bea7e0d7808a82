// Simulated time as types: an instant (VirtualTime) and a span (VirtualSpan),
// both int64 picoseconds (about 106 days either way). Mixing them up, or mixing
// them with raw integers, does not compile. Nothing wraps: what does not fit is the
// longest span, or Infinity.
#ifndef PHANTORA_CLOCK_VIRTUAL_TIME_H_
#define PHANTORA_CLOCK_VIRTUAL_TIME_H_

#include <compare>
#include <cstdint>
#include <limits>

namespace phantora {

namespace picoseconds {

inline constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
inline constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();

constexpr int64_t Add(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return b > 0 ? kMost : kLeast;
}
constexpr int64_t Subtract(int64_t a, int64_t b) {
  int64_t difference = 0;
  if (!__builtin_sub_overflow(a, b, &difference)) return difference;
  return b < 0 ? kMost : kLeast;
}
constexpr int64_t Multiply(int64_t a, int64_t b) {
  int64_t product = 0;
  if (!__builtin_mul_overflow(a, b, &product)) return product;
  return (a < 0) == (b < 0) ? kMost : kLeast;
}

}  // namespace picoseconds

class VirtualSpan {
 public:
  constexpr VirtualSpan() = default;
  static constexpr VirtualSpan Picoseconds(int64_t ps) { return VirtualSpan(ps); }
  static constexpr VirtualSpan Nanoseconds(int64_t ns) {
    return VirtualSpan(picoseconds::Multiply(ns, 1000));
  }
  static constexpr VirtualSpan Microseconds(int64_t us) {
    return VirtualSpan(picoseconds::Multiply(us, 1000000));
  }

  constexpr int64_t picoseconds() const { return ps_; }
  // Rounds towards zero.
  constexpr int64_t nanoseconds() const { return ps_ / 1000; }

  constexpr auto operator<=>(const VirtualSpan&) const = default;
  constexpr VirtualSpan operator+(VirtualSpan other) const {
    return VirtualSpan(picoseconds::Add(ps_, other.ps_));
  }
  constexpr VirtualSpan operator-(VirtualSpan other) const {
    return VirtualSpan(picoseconds::Subtract(ps_, other.ps_));
  }
  constexpr VirtualSpan operator*(int64_t factor) const {
    return VirtualSpan(picoseconds::Multiply(ps_, factor));
  }

 private:
  explicit constexpr VirtualSpan(int64_t ps) : ps_(ps) {}
  int64_t ps_ = 0;
};

class VirtualTime {
 public:
  constexpr VirtualTime() = default;
  static constexpr VirtualTime FromNanoseconds(int64_t ns) {
    return VirtualTime(picoseconds::Multiply(ns, 1000));
  }
  static constexpr VirtualTime Infinity() {
    return VirtualTime(std::numeric_limits<int64_t>::max());
  }

  constexpr int64_t picoseconds() const { return ps_; }
  constexpr int64_t nanoseconds() const { return ps_ / 1000; }

  constexpr auto operator<=>(const VirtualTime&) const = default;
  constexpr VirtualTime operator+(VirtualSpan span) const {
    return VirtualTime(picoseconds::Add(ps_, span.picoseconds()));
  }
  constexpr VirtualTime operator-(VirtualSpan span) const {
    return VirtualTime(picoseconds::Subtract(ps_, span.picoseconds()));
  }
  constexpr VirtualSpan operator-(VirtualTime other) const {
    return VirtualSpan::Picoseconds(picoseconds::Subtract(ps_, other.ps_));
  }

 private:
  explicit constexpr VirtualTime(int64_t ps) : ps_(ps) {}
  int64_t ps_ = 0;
};

}  // namespace phantora

#endif  // PHANTORA_CLOCK_VIRTUAL_TIME_H_
