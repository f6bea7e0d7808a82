// A run's side of --gpu-profiler: has kernels measured while ranks launch them.
#ifndef PHANTORA_TOOLS_PROFILER_PROFILER_CLIENT_H_
#define PHANTORA_TOOLS_PROFILER_PROFILER_CLIENT_H_

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/profiler/line_process.h"
#include "tools/profiler/profile_session.h"
#include "trap/gpu/pricing/missing_launches.h"

namespace phantora {

// Not thread-safe. If the profiler fails altogether, nothing is measured any more, which is logged
// once.
class ProfilerClient : public LaunchMeasurer {
 public:
  // `command` is a shell's, and runs `phantora-profile - --results -`; empty for the one beside
  // this program. It is started as a child of the calling process, which must not be the one
  // that waits for the ranks' end. Errors: it does not start, or has another GPU than `header`
  // says.
  static absl::StatusOr<std::unique_ptr<ProfilerClient>> Start(const std::string& command,
                                                               const RequestHeader& header);

  std::optional<Measured> Measure(const LaunchRequest& request, const KernelImage* image) override;

  // Appends what was measured to a file of rows; creates it if there is none. Errors: it cannot be
  // written.
  absl::Status Save(const std::string& file) const;
  size_t kinds() const { return rows_.size(); }  // of work that was measured

 private:
  explicit ProfilerClient(std::unique_ptr<LineProcess> process) : process_(std::move(process)) {}
  absl::StatusOr<ReplayResult> Ask(const LaunchRequest& request, const KernelImage* image);

  std::unique_ptr<LineProcess> process_;  // nullptr once it has failed
  ProfiledGpu gpu_;
  std::set<uint64_t> sent_;  // images
  ProfiledRows rows_;
};

}  // namespace phantora

#endif  // PHANTORA_TOOLS_PROFILER_PROFILER_CLIENT_H_
