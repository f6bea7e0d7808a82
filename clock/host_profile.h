// What a program's own code takes between the calls in which it stops, learned from runs.
#ifndef PHANTORA_CLOCK_HOST_PROFILE_H_
#define PHANTORA_CLOCK_HOST_PROFILE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"

namespace phantora {

// A segment is what one thread does from one stop to the next. It is known again by what does not
// depend on numbers of processes, addresses or times, so that it is the same in the next repeat, on
// another rank, and in another run.
struct HostSegment {
  static constexpr size_t kStops = 8;

  uint64_t role = 0;  // the program, and which of its process's threads
  // Kinds of the thread's last stops, the latest first: the one that ends the segment, the one that
  // it began with, and those before.
  std::array<uint32_t, kStops> stops = {};
  uint32_t submissions = 0;  // to GPUs, in between
  uint32_t occurrence = 0;   // how often the process has come this way before; see Way()
};

// Costs are kept in three degrees of detail: by the last eight stops, the number of submissions and
// whether this comes for the first time, the second, the third, ... (what is done for the first
// time is something else than its repeats); by three stops; by the two that bound the segment. A
// cost is the mean of what has been learned, so that all segments together take what they took.
// Nothing here depends on an order but Learn()'s. Not thread-safe.
class HostProfile {
 public:
  // More are not kept: those known already go on to be learned.
  static constexpr size_t kMostKeys = 1 << 20;

  enum class Detail { kUnknown, kBounds, kShort, kFull };
  struct Cost {
    int64_t nanoseconds = 0;
    Detail detail = Detail::kUnknown;
  };

  // What `occurrence` is counted by.
  static uint64_t Way(const HostSegment& segment);
  // A piece of a role or of a way: depends on both, and on nothing else.
  static uint64_t Mix(uint64_t with, uint64_t what);
  static uint64_t Mix(uint64_t with, std::string_view what);

  void Learn(const HostSegment& segment, int64_t nanoseconds);
  // From `repeats` samples at least; of less detail where there are none of more. Of a segment with
  // another number of submissions than those known, a cost in proportion to one more than these.
  Cost CostOf(const HostSegment& segment, uint64_t repeats = 1) const;
  // In full detail only; kUnknown otherwise.
  Cost RepeatedCostOf(const HostSegment& segment, uint64_t repeats) const;

  size_t size() const { return entries_.size(); }
  bool is_full() const { return entries_.size() >= kMostKeys; }

  // One line per key, in their order; Parse() gives back the same.
  // Errors: INVALID_ARGUMENT with the line and what is wrong with it.
  std::string Text() const;
  static absl::StatusOr<HostProfile> Parse(std::string_view text);

 private:
  struct Entry {
    uint64_t samples = 0, nanoseconds = 0, submissions = 0;  // sums
  };
  const Entry* Find(uint64_t key, uint64_t repeats) const;

  absl::flat_hash_map<uint64_t, Entry> entries_;
};

}  // namespace phantora

#endif  // PHANTORA_CLOCK_HOST_PROFILE_H_
