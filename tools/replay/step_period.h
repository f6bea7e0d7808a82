// Where the steps of a recorded rank are.
#ifndef PHANTORA_TOOLS_REPLAY_STEP_PERIOD_H_
#define PHANTORA_TOOLS_REPLAY_STEP_PERIOD_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "clock/virtual_time.h"
#include "tools/replay/step_record.h"

namespace phantora {

// A program does not say where its steps begin. But what it does to the network repeats: a step is
// the number of NCCL operations after which they repeat for longest, with about as many kernels
// between them.
struct StepPeriod {
  size_t operations = 0;  // of NCCL in a step
  // The nodes of those operations at whose ends a step is over, in order; two at least. Any
  // operation of a step would do: every step has it.
  std::vector<uint32_t> ends;
};

// With `operations` > 0 that is taken as given. Errors: nothing repeats.
absl::StatusOr<StepPeriod> FindSteps(const StepRecord::Role& role, size_t operations = 0);

// The mean time between ends, without the first step if there are others: then programs allocate.
// `at` says when a node was over.
template <typename At>
VirtualSpan StepTime(const StepPeriod& period, const At& at) {
  const size_t first = period.ends.size() > 2 ? 1 : 0;
  const auto steps = static_cast<int64_t>(period.ends.size() - 1 - first);
  const VirtualSpan all = at(period.ends.back()) - at(period.ends[first]);
  return VirtualSpan::Picoseconds(all.picoseconds() / steps);
}

}  // namespace phantora

#endif  // PHANTORA_TOOLS_REPLAY_STEP_PERIOD_H_
