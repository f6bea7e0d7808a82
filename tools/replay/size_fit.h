// How what ranks do depends on how many they are along an axis, from recordings of two sizes.
#ifndef PHANTORA_TOOLS_REPLAY_SIZE_FIT_H_
#define PHANTORA_TOOLS_REPLAY_SIZE_FIT_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tools/replay/rank_axes.h"
#include "tools/replay/step_period.h"
#include "tools/replay/step_record.h"

namespace phantora {

// `a` and `b` are recordings of one program and as many steps, with axes that differ in the size of
// one. What a rank does alone stays as it is when there are more of them, and its part of what all
// share becomes smaller: so the time of a kernel, the size of an operation and the memory of a rank
// are x + y/n each, n being the axis' size, where x and y come from the two sizes that were
// recorded.
//
// Returns `a` with these for n ranks: its sizes are not to be scaled again. Nothing becomes less
// than 0. What was done before the first step is as in `a`. `steps_of_a`: of each role. Errors: the
// axes are others, or ranks at one place did different things in a step.
absl::StatusOr<StepRecord> FitSizes(const StepRecord& a, const RankAxes& axes_of_a,
                                    absl::Span<const StepPeriod> steps_of_a, const StepRecord& b,
                                    const RankAxes& axes_of_b, int n);

// The axis in whose size they differ. Errors: they differ in another way, or in nothing.
absl::StatusOr<size_t> AxisThatDiffers(const RankAxes& a, const RankAxes& b);

}  // namespace phantora

#endif  // PHANTORA_TOOLS_REPLAY_SIZE_FIT_H_
