// What differs between two recordings, call by call.
#ifndef PHANTORA_TOOLS_RECORD_RECORDING_DIFF_H_
#define PHANTORA_TOOLS_RECORD_RECORDING_DIFF_H_

#include <string>
#include <vector>

#include "tools/record/recording.h"

namespace phantora::record {

struct DiffOptions {
  // Handles count by their numbers, which say which object it is.
  bool handles = false;
  // Words of parameters without a known layout count before the call, too. What a library does not
  // fill there differs from run to run.
  bool unknown_inputs = false;
};

// One difference of calls that belong together, or calls that only one recording has.
struct CallDifference {
  int process = 1;
  std::string call;  // device, kind and name
  std::string what;  // "only in the first", "result", or a parameter with "in " or "out "
  std::string first, second;
  int count = 0;  // calls that have it
};

// Calls belong together that are of the same process (by its number), device, kind and name: those
// with the same parameters before the call first, then the others, both in their order. What
// differs in a loop is counted rather than repeated.
std::vector<CallDifference> DiffRecordings(const Recording& first, const Recording& second,
                                           const DiffOptions& options);

std::string FormatDifferences(const std::vector<CallDifference>& differences);

}  // namespace phantora::record

#endif  // PHANTORA_TOOLS_RECORD_RECORDING_DIFF_H_
