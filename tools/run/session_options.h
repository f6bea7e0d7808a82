// What a run is asked to be.
#ifndef PHANTORA_TOOLS_RUN_SESSION_OPTIONS_H_
#define PHANTORA_TOOLS_RUN_SESSION_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "clock/host_time.h"
#include "tools/run/cluster_job.h"
#include "tools/run/missing_kernels.h"
#include "tools/run/out_of_memory.h"
#include "trap/gpu/front/expert_routing.h"
#include "trap/gpu/front/skipped.h"

namespace phantora {

struct SessionOptions {
  std::string gpu = "h100-sxm5-80gb";
  int gpus = 1;
  // With a cluster, it says which GPUs there are.
  JobOptions job;
  // Ranks share memory that is the same (PageSharing). By default if they would otherwise need most
  // of the machine's.
  std::optional<bool> share_memory;
  // Of this machine's memory, in bytes, for the whole run; 0: what there is.
  uint64_t memory_limit = 0;
  OutOfMemory out_of_memory = OutOfMemory::kCuda;
  // Everything that GPUs' memory goes through is done a second time, plainly, and compared.
  bool check_gpu_memory = false;
  // What programs do with their GPUs' memory and may not is told (MemoryCheck).
  bool check_memory = false;
  bool native_nccl = false;  // the program's own libnccl.so.2 is left in place
  // Of --execute small.
  static constexpr int64_t kSmallExecution = 50'000'000;
  // As much as anybody waits for: some minutes.
  static constexpr int64_t kLongExecution = 100'000'000'000;
  // Thread instructions of the most expensive kernel that is executed; 0: none is, nullopt: all
  // are.
  std::optional<int64_t> execute = kSmallExecution;
  // What a real GPU can it executes; `execute` is about the rest.
  bool execute_on_gpu = false;
  std::string executor;          // the command that does so; empty for phantora-profile
  uint64_t executor_memory = 0;  // bytes of that GPU's memory; 0: most of what is free
  Skipped skipped = Skipped::kZeros;
  std::optional<RoutingWeights> routing;  // of experts, if the model's own is not wanted
  int64_t largest_reduction = 1 << 20;    // bytes; of larger ones NCCL's result is rank 0's share
  bool reduces_what_is_real = true;       // whatever its size, where all of it was computed
  std::string driver = "auto";
  bool force_driver_abi = false;
  std::string log_calls;  // a file; empty for none
  bool verbose = false;
  // Of processes that use a GPU; by default 19 in real time, where they wait by spinning.
  std::optional<int> nice;
  // Every kernel takes this long; by default nothing in real time, and in simulated time
  // what a cost model says.
  std::optional<int64_t> kernel_microseconds;
  HostTime host_time = {.mode = HostTimeMode::kMeasured};
  std::string host_profile;   // a file that is read, or else written; empty for none
  bool measured_rows = true;  // prices use what was measured
  MissingKernelsOptions missing;
  std::string log_kernels;            // a file; empty for none
  std::string trace;                  // a file; empty for none
  std::string report;                 // a directory; empty for none
  std::string out;                    // a directory for the two above; empty for none
  double step_tokens = 0;             // of all ranks together, for the report; 0: not said
  std::vector<std::string> compared;  // two reports; then nothing is run
  std::string record_step;            // a file; empty for none
  bool status = true;    // a status line, if stderr is a terminal and time is simulated
  bool dry_run = false;  // check everything, start nothing
  std::vector<std::string> environment;  // of the command, NAME=VALUE
  std::string config;                    // a file with options; empty for phantora.toml
  bool no_config = false;
  std::string configured;  // what came from it, in a sentence; empty for nothing
  std::vector<std::string> command;

  bool simulated() const { return host_time.mode != HostTimeMode::kReal; }
};

}  // namespace phantora

#endif  // PHANTORA_TOOLS_RUN_SESSION_OPTIONS_H_
