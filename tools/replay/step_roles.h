// Which ranks of a run did the same.
#ifndef PHANTORA_TOOLS_REPLAY_STEP_ROLES_H_
#define PHANTORA_TOOLS_REPLAY_STEP_ROLES_H_

#include <vector>

#include "tools/replay/step_record.h"

namespace phantora {

// `works`: what each of `ranks` did. Ranks whose channels did the same in the same order, with
// kernels of the same names and prices, and operations of the same sizes with peers equally far
// away, get one role: that of the first of them. When each did it does not count.
std::vector<StepRecord::Role> FindRoles(std::vector<StepRecord::Role> works,
                                        std::vector<StepRecord::Rank>& ranks);

}  // namespace phantora

#endif  // PHANTORA_TOOLS_REPLAY_STEP_ROLES_H_
