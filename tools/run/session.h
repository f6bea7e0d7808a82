// One run of a command on an emulated machine.
#ifndef PHANTORA_TOOLS_RUN_SESSION_H_
#define PHANTORA_TOOLS_RUN_SESSION_H_

#include <linux/filter.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/profiler/profiler_client.h"
#include "tools/run/emulated_cluster.h"
#include "tools/run/host_memory.h"
#include "tools/run/run_outputs.h"
#include "tools/run/run_plan.h"
#include "tools/run/session_options.h"
#include "tools/run/stall_watch.h"
#include "tools/run/status_line.h"
#include "trap/gpu/real/remote_gpu.h"
#include "trap/launch/device_wall.h"
#include "trap/launch/launcher.h"
#include "trap/linux/children.h"
#include "trap/memory/page_sharing.h"
#include "trap/supervisor/supervisor.h"

namespace phantora {

// Prepare() does all that may fail, and starts nothing: a typo in an option ends a run before the
// command did anything. Launch() starts the command, Run() serves it to its end, Report() says and
// writes what there is to say. Destroying a session ends whatever of the command still lives.
//
// Members are made in order, each uses only those before it. All but Prepare() happens in the
// supervisor's process.
class Session {
 public:
  // Who has the real GPU of this machine for a run; nullptr: nobody is wanted.
  struct RealGpu {
    ProfilerClient* profiler = nullptr;
    RemoteGpu* executor = nullptr;
  };
  // Errors: something that the options ask for cannot be had.
  static absl::StatusOr<std::unique_ptr<Session>> Prepare(const SessionOptions& options,
                                                          const RealGpu& real);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const RunPlan& plan() const { return plan_; }

  // Once, and before any thread is started. Errors: the kernel refuses the filter.
  absl::Status Launch();
  // Once, after Launch(). `signals`: see Supervisor::Run().
  void Run(int signals);
  // Once, after Run(). The run's exit status, see RunSession().
  int Report();

 private:
  Session(const SessionOptions& options, const RealGpu& real, RunPlan plan, RunOutputs outputs,
          std::vector<sock_filter> filter);

  absl::Status PrepareParts();
  absl::Status PrepareWall();
  StallWatch::Options WatchOptions();
  HostMemory::Options MemoryOptions();
  Supervisor::Options ServeOptions();
  void RankEnded(const RankEnd& end);
  void ShowStatus();
  void ProcessDied(pid_t process);
  // The first failure of NCCL: says so, and ends the run.
  void NcclFailed(const std::string& what);
  // Of the command, once the supervisor serves it.
  const ProcessClocks& clocks() const { return supervisor_->time()->clocks(); }

  const SessionOptions options_;
  const RealGpu real_;
  const RunPlan plan_;
  RunOutputs outputs_;
  const std::vector<sock_filter> filter_;
  std::optional<DeviceWall> wall_;  // none: this kernel has none
  HostMemory memory_;
  std::unique_ptr<EmulatedCluster> cluster_;
  KernelWaitCalls wait_calls_;
  Children children_{&wait_calls_};
  std::unique_ptr<PageSharing> sharing_;
  StallWatch stalls_;
  std::unique_ptr<Supervisor> supervisor_;
  std::unique_ptr<StatusLine> status_line_;
  std::optional<LaunchedCommand> command_;
  std::optional<CommandLimits> limits_;
  bool launched_ = false;
  int wait_status_ = 0;
  std::optional<RankEnd> first_failure_;
  std::string nccl_failure_;
};

// Runs the command to its end. Returns its exit status (128 + n if signal n ended
// it), 1 if NCCL failed, or 125 with a message if the machine could not be set up: then the command
// was not started.
int RunSession(const SessionOptions& options);

}  // namespace phantora

#endif  // PHANTORA_TOOLS_RUN_SESSION_H_
