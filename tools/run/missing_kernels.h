// What a run does about kernels that were not measured: --missing, --gpu-profiler, --rows.
#ifndef PHANTORA_TOOLS_RUN_MISSING_KERNELS_H_
#define PHANTORA_TOOLS_RUN_MISSING_KERNELS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "profiles/gpu/gpu_profile.h"
#include "tools/profiler/profiler_client.h"
#include "trap/gpu/pricing/missing_launches.h"

namespace phantora {

struct MissingKernelsOptions {
  std::string list;      // a file to be written; empty for none
  bool measure = false;  // on the GPU of this machine
  std::string profiler;  // the command that does so; empty for phantora-profile
  std::string rows;      // a file of measured rows; empty for none, or the user's own, see RowsOf
  bool wanted() const { return measure || !list.empty(); }
};

// The file of measured rows that a run reads, and adds to if it measures: with --gpu-profiler
// alone that is one in the user's cache, one for each GPU. Empty: none.
std::string RowsOf(const MissingKernelsOptions& options, const std::string& gpu);
// Its text; empty if there is none yet. Errors: the file was asked for and cannot be read.
absl::StatusOr<std::string> ReadRows(const MissingKernelsOptions& options, const std::string& gpu);

// Starts the profiler; nullptr if none is wanted. Must be called before the supervisor is forked.
// Errors: it does not start.
absl::StatusOr<std::unique_ptr<ProfilerClient>> StartProfiler(const MissingKernelsOptions& options,
                                                              const GpuProfile& profile);

// nullptr if nothing is wanted. `profiler` may be nullptr. Errors: the list cannot be created.
absl::StatusOr<std::unique_ptr<MissingLaunches>> OpenMissing(const MissingKernelsOptions& options,
                                                             const GpuProfile& profile,
                                                             ProfilerClient* profiler);

// Writes the list and the rows, and says in a line what was measured.
void CloseMissing(const MissingKernelsOptions& options, const GpuProfile& profile,
                  MissingLaunches& missing, const ProfilerClient* profiler);

}  // namespace phantora

#endif  // PHANTORA_TOOLS_RUN_MISSING_KERNELS_H_
