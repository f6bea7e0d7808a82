// What a run consists of, as far as that can be said before anything of it exists.
#ifndef PHANTORA_TOOLS_RUN_RUN_PLAN_H_
#define PHANTORA_TOOLS_RUN_RUN_PLAN_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "profiles/gpu/gpu_profile.h"
#include "tools/run/cluster_job.h"
#include "tools/run/driver_libraries.h"
#include "tools/run/run_network.h"
#include "tools/run/session_options.h"
#include "trap/launch/launcher.h"

namespace phantora {

struct RunPlan {
  // Errors: a cluster, GPU or driver that is not there or does not fit the options.
  static absl::StatusOr<RunPlan> Create(const SessionOptions& options);

  // On a cluster.
  std::optional<Job> job;
  std::optional<RunNetwork> network;
  GpuProfile profile;
  DriverLibraries driver;
  bool share_memory = false;

  // The job's, or this machine with the GPUs of the options.
  Cluster cluster;

  int gpus_per_host() const { return cluster.host.gpus; }
  int hosts() const { return job ? cluster.hosts : 1; }
  // That use GPUs, as far as is known.
  int processes() const { return job ? job->processes : gpus_per_host(); }

  // Where ranks find the library of --check memory.
  std::string CheckLibrary() const;

  // The command with the environment that it gets; `rank_outputs`: descriptors that ranks write
  // their output and their errors to.
  LaunchOptions Launched(const SessionOptions& options,
                         const std::vector<std::pair<int, int>>& rank_outputs) const;

  // For --dry-run: hosts, ranks and what they are started with, in lines.
  std::string Describe(const SessionOptions& options) const;
};

}  // namespace phantora

#endif  // PHANTORA_TOOLS_RUN_RUN_PLAN_H_
