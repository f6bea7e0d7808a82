// Which calls of a recording the emulated driver answers.
#ifndef PHANTORA_TOOLS_RECORD_KNOWN_CALLS_H_
#define PHANTORA_TOOLS_RECORD_KNOWN_CALLS_H_

#include <string>

#include "tools/record/recording.h"

namespace phantora::record {

// "yes", "no", or what is different: the size of the parameters that it expects from a driver of
// the recording's branch. `driver`: "550.163.01"; the newest known interface if empty.
std::string EmulatorKnows(const RecordedCall& call, const std::string& driver);

// A table: how often each call was made, how often it failed, and whether the emulator knows it.
std::string SummariseCalls(const Recording& recording);

}  // namespace phantora::record

#endif  // PHANTORA_TOOLS_RECORD_KNOWN_CALLS_H_
