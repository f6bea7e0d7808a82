// A GPU personality (profiles/gpu/gpu_profile.h) from what a driver was recorded to say.
//
// What to record, on the GPU or on an emulated one:
//   nvidia-smi -q; nvidia-smi --query-gpu=power.limit --format=csv; a program that makes a CUDA
//   context
#ifndef PHANTORA_TOOLS_RECORD_RECORDED_PERSONALITY_H_
#define PHANTORA_TOOLS_RECORD_RECORDED_PERSONALITY_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/record/recording.h"

namespace phantora::record {

struct RecordedPersonality {
  std::string json;                  // with a comment for each field that says where it is from
  std::vector<std::string> assumed;  // fields that the recording does not say
};

// Of several GPUs it is the one that was asked first. `name` becomes the personality's; `like` is a
// known personality, or a file of one, for what was not recorded. Errors: fields that were not
// recorded without `like`, by name; a GPU that cannot be emulated.
absl::StatusOr<RecordedPersonality> MakePersonality(const Recording& recording,
                                                    const std::string& name,
                                                    const std::string& like);

}  // namespace phantora::record

#endif  // PHANTORA_TOOLS_RECORD_RECORDED_PERSONALITY_H_
