// A run's side of --execute gpu.
#ifndef PHANTORA_TOOLS_EXECUTOR_EXECUTOR_CLIENT_H_
#define PHANTORA_TOOLS_EXECUTOR_EXECUTOR_CLIENT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tools/profiler/line_process.h"
#include "trap/gpu/real/remote_gpu.h"

namespace phantora {

// Each space is a process of its own, so that two ranks may have memory at one address.
class ExecutorClient : public RemoteGpu {
 public:
  // `command` is a shell's and runs `phantora-profile execute`; empty for the one beside this
  // program. It is started as a child of the calling process. `architecture`: of the GPU that is
  // emulated, 90 for sm_90. Errors: it does not start, there is no GPU, or its code is another.
  static absl::StatusOr<std::unique_ptr<ExecutorClient>> Start(const std::string& command,
                                                               int architecture);

  absl::StatusOr<std::unique_ptr<RemoteSpace>> NewSpace() override;
  const std::string& name() const override { return name_; }
  uint64_t free_bytes() const override { return free_bytes_; }

 private:
  explicit ExecutorClient(std::unique_ptr<LineProcess> process) : process_(std::move(process)) {}

  std::unique_ptr<LineProcess> process_;
  std::unique_ptr<RemoteSpace> first_;  // until it is asked for
  std::string name_;
  uint64_t free_bytes_ = 0, architecture_ = 0;
};

}  // namespace phantora

#endif  // PHANTORA_TOOLS_EXECUTOR_EXECUTOR_CLIENT_H_
