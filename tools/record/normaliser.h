// Turns what the interposer wrote into a recording: names, and masks for what differs from run to
// run (recording.h).
#ifndef PHANTORA_TOOLS_RECORD_NORMALISER_H_
#define PHANTORA_TOOLS_RECORD_NORMALISER_H_

#include <vector>

#include "tools/record/recording.h"
#include "tools/record/stream_reader.h"

namespace phantora::record {

// Processes that never spoke to the driver are left out.
Recording Normalise(const std::vector<RawProcess>& processes);

}  // namespace phantora::record

#endif  // PHANTORA_TOOLS_RECORD_NORMALISER_H_
