// All that is emulated in a run: hosts with their drivers and GPUs, what their work costs, the
// network between them, and NCCL's operations on it.
#ifndef PHANTORA_TOOLS_RUN_EMULATED_CLUSTER_H_
#define PHANTORA_TOOLS_RUN_EMULATED_CLUSTER_H_

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clock/time_source.h"
#include "fabric/cluster/cluster_fabric.h"
#include "fabric/collectives/nccl_planner.h"
#include "tools/observe/link_statistics.h"
#include "tools/observe/nccl_statistics.h"
#include "tools/observe/run_recorder.h"
#include "tools/replay/step_recorder.h"
#include "tools/run/emulated_host.h"
#include "tools/run/host_memory.h"
#include "tools/run/run_outputs.h"
#include "tools/run/run_plan.h"
#include "tools/run/session_options.h"
#include "trap/check/memory_check.h"
#include "trap/gpu/front/gpu_scheduler.h"
#include "trap/gpu/front/kernel_execution.h"
#include "trap/gpu/kernels/internal_kernels.h"
#include "trap/gpu/kernels/kernel_library.h"
#include "trap/gpu/kernels/kernel_namer.h"
#include "trap/gpu/pricing/kernel_pricer.h"
#include "trap/gpu/timeline/gpu_timelines.h"
#include "trap/nccl/nccl_runtime.h"
#include "trap/quiet_successes.h"
#include "trap/rm/os_events.h"
#include "trap/turn_lock.h"
#include "trap/unknowns.h"
#include "uvm_model/equal_pages.h"
#include "uvm_model/page_store.h"

namespace phantora {

// Members are in the order in which they are made: each uses only those before it. The machine
// lock guards all of it while the run goes on; see docs/ARCHITECTURE.md.
class EmulatedCluster {
 public:
  struct Options {
    const SessionOptions* session;
    const RunPlan* plan;
    RunOutputs* outputs;
    RemoteGpu* executor;  // of --execute gpu; nullptr: none
    // Simulated time of a process, while the run goes on.
    std::function<VirtualTime(pid_t)> now;
    // NCCL cannot go on, or disagrees with itself: what happened, in words. Ends the run.
    std::function<void(const std::string&)> nccl_failed;
  };
  // Errors: the network is inconsistent, rows of prices cannot be read. Starts no thread.
  static absl::StatusOr<std::unique_ptr<EmulatedCluster>> Create(const Options& options);
  EmulatedCluster(const EmulatedCluster&) = delete;
  EmulatedCluster& operator=(const EmulatedCluster&) = delete;

  void ProcessDied(pid_t process);
  // A thread of the process waited for a GPU.
  void Waited(pid_t process, VirtualTime since, VirtualTime until);

  // As processes on them see the hosts.
  std::vector<VirtualHost> Views() const;
  // Changes whenever a kernel, a copy or an operation of NCCL has ended.
  uint64_t Progress();
  // Operations of NCCL that have waited since then, in words.
  std::string DescribeWaiting(VirtualTime since);

  TurnLock& machine_lock() { return machine_lock_; }
  Unknowns& unknowns() { return *unknowns_; }
  QuietSuccesses& quiet() { return quiet_; }
  PageStore& pages() { return *pages_; }
  // What GPUs, files of memory and the emulator itself take. Takes the machine's lock.
  void AddMemory(MemoryUse* use);
  GpuTimelines& timelines() { return timelines_; }
  GpuScheduler& scheduler() { return scheduler_; }
  OsEvents& events() { return events_; }
  RunRecorder& recorder() { return recorder_; }
  TraceWriter* trace() { return trace_; }  // the recorder's; nullptr unless wanted
  const GpuServices& services() const { return services_; }
  KernelPricer& model() { return *model_; }
  const KernelExecution* execution() const { return execution_.get(); }
  // nullptr: nobody wants to know.
  MemoryCheck* check() const { return check_.get(); }
  ClusterFabric& fabric() { return *fabric_; }
  NcclRuntime& nccl() { return *nccl_; }
  const NcclStatistics& nccl_statistics() const { return nccl_statistics_; }
  LinkStatistics* links() { return links_.get(); }                // nullptr in real time
  StepRecorder* step_recorder() { return step_recorder_.get(); }  // nullptr unless wanted
  const std::vector<std::unique_ptr<EmulatedHost>>& hosts() const { return hosts_; }

 private:
  void LookForEqualPages();
  struct Parts;  // that may be missing or wrong
  EmulatedCluster(const Options& options, Parts parts);

  static absl::StatusOr<Parts> MakeParts(const Options& options, Unknowns* unknowns);
  void MakeNccl();
  void MakeHost(int number);
  bool simulated() const { return options_.session->simulated(); }

  const Options options_;
  const std::unique_ptr<Unknowns> unknowns_;
  QuietSuccesses quiet_;
  const std::shared_ptr<PageStore> pages_;
  EqualPages equal_pages_{pages_.get()};
  VirtualTime next_look_;  // of the real clock
  RealTimeSource time_;
  OsEvents events_;
  const InternalKernels internal_kernels_;
  FixedPricer fixed_pricer_;
  const std::unique_ptr<KernelPricer> model_;
  std::unique_ptr<MemoryCheck> check_;
  GpuServices services_;
  GpuTimelines timelines_;
  RunRecorder recorder_;
  TraceWriter* const trace_;
  TurnLock machine_lock_;
  GpuScheduler scheduler_;
  KernelLibrary library_;
  KernelNamer namer_;
  std::unique_ptr<KernelExecution> execution_;  // nullptr if kernels are not executed
  const std::unique_ptr<ClusterFabric> fabric_;
  std::unique_ptr<LinkStatistics> links_;
  std::map<pid_t, int> host_of_;  // of processes that use CUDA
  NcclStatistics nccl_statistics_;
  NcclPlanner planner_;
  std::unique_ptr<NcclRuntime> nccl_;
  std::unique_ptr<StepRecorder> step_recorder_;
  std::vector<std::unique_ptr<EmulatedHost>> hosts_;
};

}  // namespace phantora

#endif  // PHANTORA_TOOLS_RUN_EMULATED_CLUSTER_H_
