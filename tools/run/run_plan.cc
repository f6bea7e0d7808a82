#include "tools/run/run_plan.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "trap/linux/proc.h"

namespace phantora {
namespace {

// Memory that a rank of PyTorch takes when it trains, about.
constexpr uint64_t kRankBytes = uint64_t{1} << 30;
// Ranks that need more than this part of what is free share memory unless they are told not to.
constexpr double kMuchOfMemory = 0.5;
// Large pieces of memory have pages of their own then, and are the same in all ranks; see
// malloc(3).
constexpr char kMapThreshold[] = "MALLOC_MMAP_THRESHOLD_", kLargePiece[] = "65536";
// Sets and dictionaries of strings are then in the same order in all ranks, and so is the whole
// heap: of 240 MiB in which ranks of PyTorch differ, 20 remain.
constexpr char kHashSeed[] = "PYTHONHASHSEED", kSameHashes[] = "0";

// What --env says.
class GivenVariables {
 public:
  explicit GivenVariables(const SessionOptions& options) {
    for (const std::string& variable : options.environment) {
      const size_t end = variable.find('=');
      values_[variable.substr(0, end)] = variable.substr(end + 1);
    }
  }

  bool Has(const std::string& name) const { return values_.contains(name); }
  const std::map<std::string, std::string>& values() const { return values_; }

  // Of the command, if nothing else were set; nullptr for none.
  const char* ValueOf(const std::string& name) const {
    const auto given = values_.find(name);
    return given != values_.end() ? given->second.c_str() : std::getenv(name.c_str());
  }

  std::string Prepend(const std::string& directory, const char* variable) const {
    const char* old = ValueOf(variable);
    return old == nullptr || *old == '\0' ? directory : absl::StrCat(directory, ":", old);
  }

 private:
  std::map<std::string, std::string> values_;
};

// With --check memory. What makes several programs' allocators take each piece from CUDA, of which
// otherwise nobody knows where it ends: PyTorch's (since 1.7), and XLA's. PyTorch takes any value
// for yes; 0 is for those whose CUDA graphs allocate, which it then refuses.
constexpr std::pair<const char*, const char*> kPlainAllocators[] = {
    {"PYTORCH_NO_CUDA_MEMORY_CACHING", "1"},
    {"XLA_PYTHON_CLIENT_ALLOCATOR", "platform"},
    {"XLA_PYTHON_CLIENT_PREALLOCATE", "false"}};

const std::pair<const std::string, std::string> kOwnAllocator = {kPlainAllocators[0].first, "0"};

bool SharesMemory(const SessionOptions& options, const std::optional<Job>& job) {
  if (!job || !options.simulated()) return false;
  if (options.share_memory) return *options.share_memory;
  const double needed = static_cast<double>(kRankBytes) * job->processes;
  uint64_t available = Proc::Host().MachineMemory().available;
  if (options.memory_limit != 0) available = std::min(available, options.memory_limit);
  return needed > kMuchOfMemory * static_cast<double>(available);
}

Cluster SingleMachine(const SessionOptions& options) {
  Cluster single;
  single.name = "this machine";
  single.host.gpu = options.gpu;
  single.host.gpus = options.gpus;
  return single;
}

}  // namespace

absl::StatusOr<RunPlan> RunPlan::Create(const SessionOptions& options) {
  RunPlan plan;
  plan.cluster = SingleMachine(options);
  if (!options.job.cluster.empty()) {
    JobOptions job_options = options.job;
    auto network = RunNetwork::Take();
    if (!network.ok()) return network.status();
    job_options.network = network->number();
    plan.network.emplace(*std::move(network));
    auto planned = PlanJob(job_options, options.command);
    if (!planned.ok()) return planned.status();
    plan.job = *std::move(planned);
    const GivenVariables given(options);
    for (RankCommand& rank : plan.job->ranks) {
      std::erase_if(rank.environment,
                    [&](const auto& variable) { return given.Has(variable.first); });
    }
    plan.cluster = plan.job->cluster;
  }
  auto profile = FindGpuProfile(plan.cluster.host.gpu);
  if (!profile.ok()) return profile.status();
  plan.profile = *std::move(profile);
  auto driver = FindDriverLibraries(options.driver, options.force_driver_abi);
  if (!driver.ok()) return driver.status();
  plan.driver = *std::move(driver);
  plan.share_memory = SharesMemory(options, plan.job);
  return plan;
}

LaunchOptions RunPlan::Launched(const SessionOptions& options,
                                const std::vector<std::pair<int, int>>& rank_outputs) const {
  LaunchOptions launch;
  launch.command = options.command;
  const GivenVariables given(options);
  // Before those that extend what was given.
  for (const auto& variable : given.values()) {
    if (options.check_memory && variable == kOwnAllocator) continue;
    launch.environment.push_back(variable);
  }
  launch.environment.emplace_back("LD_LIBRARY_PATH",
                                  given.Prepend(driver.library_directory, "LD_LIBRARY_PATH"));
  if (!driver.program_directory.empty()) {
    launch.environment.emplace_back("PATH", given.Prepend(driver.program_directory, "PATH"));
  }
  launch.same_addresses = share_memory || options.host_time.mode == HostTimeMode::kFixed ||
                          options.host_time.mode == HostTimeMode::kLearned;
  if (share_memory) {
    for (const auto& [name, value] :
         {std::pair(kMapThreshold, kLargePiece), std::pair(kHashSeed, kSameHashes)}) {
      if (given.ValueOf(name) == nullptr) launch.environment.emplace_back(name, value);
    }
  }
  if (options.check_memory) {
    launch.environment.emplace_back("LD_PRELOAD", given.Prepend(CheckLibrary(), "LD_PRELOAD"));
    for (const auto& [name, value] : kPlainAllocators) {
      if (given.ValueOf(name) == nullptr) launch.environment.emplace_back(name, value);
    }
  }
  if (!job) return launch;
  launch.ranks = job->ranks;
  launch.preload = job->preload;
  for (size_t rank = 0; rank < rank_outputs.size(); ++rank) {
    launch.ranks[rank].output = rank_outputs[rank].first;
    launch.ranks[rank].errors = rank_outputs[rank].second;
  }
  return launch;
}

std::string RunPlan::CheckLibrary() const {
  return absl::StrCat(driver.library_directory, "/libphantora_check.so");
}

std::string RunPlan::Describe(const SessionOptions& options) const {
  std::string text =
      absl::StrFormat("%d x %s, driver %s from %s\n", hosts() * gpus_per_host(), profile.product,
                      driver.version.text, driver.library_directory);
  const std::string command = absl::StrJoin(options.command, " ");
  if (!options.environment.empty()) {
    absl::StrAppend(&text, "with ", absl::StrJoin(options.environment, " "), "\n");
  }
  if (!job || job->ranks.empty()) {
    absl::StrAppend(&text, "would start, once", job ? absl::StrCat(" on ", job->hosts[0]) : "",
                    ": ", command, "\n");
    return text;
  }
  absl::StrAppend(&text, "cluster ", cluster.name, ": ", hosts(), " hosts with ", gpus_per_host(),
                  " GPUs\nwould start ", job->ranks.size(), " times: ", command, "\n");
  for (const RankCommand& rank : job->ranks) {
    absl::StrAppend(&text, "  ", rank.label, " on ", job->hosts[static_cast<size_t>(rank.host)]);
    for (const auto& [name, value] : rank.environment)
      absl::StrAppend(&text, " ", name, "=", value);
    absl::StrAppend(&text, "\n");
  }
  return text;
}

}  // namespace phantora
