// Runs a command with libphantora_record.so in it and in all that it starts.
#ifndef PHANTORA_TOOLS_RECORD_DRIVER_RECORDER_H_
#define PHANTORA_TOOLS_RECORD_DRIVER_RECORDER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace phantora::record {

// Streams go into `folder`, which exists. Returns what a shell would call the command's exit
// status. Errors: the library cannot be written there, or the command not be started.
absl::StatusOr<int> RunRecorded(const std::vector<std::string>& command, const std::string& folder);

}  // namespace phantora::record

#endif  // PHANTORA_TOOLS_RECORD_DRIVER_RECORDER_H_
