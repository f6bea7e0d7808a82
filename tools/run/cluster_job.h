// A job on an emulated cluster: which processes are started where, with which environment.
#ifndef PHANTORA_TOOLS_RUN_CLUSTER_JOB_H_
#define PHANTORA_TOOLS_RUN_CLUSTER_JOB_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "fabric/cluster/cluster.h"
#include "trap/launch/rank_starter.h"

namespace phantora {

// How often the command is started.
enum class Started {
  kAuto,     // once per host if it is a launcher itself (torchrun), else once per GPU
  kPerRank,  // once per GPU, or as often per host as JobOptions says
  kPerHost,
  kOnce,
};

struct JobOptions {
  std::string cluster;  // see FindCluster(); empty for none
  Started started = Started::kAuto;
  int ranks_per_host = 0;  // 0: as many as GPUs
  std::string variables =
      "torch";                    // which kinds: "torch", "slurm", "ompi", or a list "torch,slurm"
  std::string output = "prefix";  // see RankOutput
  std::string preload = {};       // Python modules, with commas: see Preload
  int network = 77;               // hosts have addresses in 127.network.0.0/16; see RunNetwork
};

struct Job {
  Cluster cluster;
  std::vector<std::string> hosts;      // their names
  std::vector<std::string> addresses;  // of hosts, among those of the real machine's loopback
  std::vector<RankCommand> ranks;      // none: the command is started once, as it is
  std::optional<Preload> preload = {};
  int processes = 1;  // that use GPUs, as far as is known: one for each
};

// Errors: no such cluster, more ranks than a host has GPUs, an unknown kind of variables, modules
// for a command that is no Python program or starts the ranks itself.
absl::StatusOr<Job> PlanJob(const JobOptions& options, const std::vector<std::string>& command);

// Does the command start the ranks of a host itself?
bool IsLauncher(const std::vector<std::string>& command);

// The clusters that need no file, one line each: name, hosts, GPUs, and what it is.
std::string DescribeClusters();

}  // namespace phantora

#endif  // PHANTORA_TOOLS_RUN_CLUSTER_JOB_H_
