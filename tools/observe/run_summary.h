// The end of a run in a few lines for the terminal.
#ifndef PHANTORA_TOOLS_OBSERVE_RUN_SUMMARY_H_
#define PHANTORA_TOOLS_OBSERVE_RUN_SUMMARY_H_

#include <string>
#include <vector>

#include "tools/observe/run_recorder.h"

namespace phantora {

// One string per line; empty if no process used a GPU. `largest` kernels per rank: with
// more than three, one line each. Of a rank whose work repeats, also what a step of median length
// is.
std::vector<std::string> Summary(const RunRecorder& recorder, size_t largest,
                                 const StepView::Terms& terms = {});

}  // namespace phantora

#endif  // PHANTORA_TOOLS_OBSERVE_RUN_SUMMARY_H_
