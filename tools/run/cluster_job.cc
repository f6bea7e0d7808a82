#include "tools/run/cluster_job.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "trap/linux/unique_fd.h"

namespace phantora {
namespace {

// A number for jobs of resource managers: programs only print it.
constexpr char kJobId[] = "1";
constexpr int kAddressesPerNet = 250;

absl::string_view FileName(absl::string_view path) {
  return path.substr(path.rfind('/') == absl::string_view::npos ? 0 : path.rfind('/') + 1);
}

// "dgx-h100-3": of letters, digits and dashes.
std::string HostName(const Cluster& cluster, int host) {
  std::string name(absl::StripSuffix(FileName(cluster.name), ".yaml"));
  for (char& c : name) c = absl::ascii_isalnum(c) ? absl::ascii_tolower(c) : '-';
  return absl::StrCat(name, "-", host);
}

// A port of the real machine that nobody uses now. Ports are shared with all its users, so the
// usual ones may be taken.
int FreePort() {
  const UniqueFd probe(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof address;
  if (bind(probe.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      getsockname(probe.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return 29500;  // torchrun's default
  }
  return ntohs(address.sin_port);
}

struct Place {
  int host = 0, local = 0, locals = 1;
  int rank = 0, ranks = 1;
};

class Variables {
 public:
  Variables(const Job& job, const JobOptions& options) : job_(job), port_(FreePort()) {
    for (absl::string_view kind : absl::StrSplit(options.variables, ',', absl::SkipEmpty())) {
      kinds_.emplace_back(absl::StripAsciiWhitespace(kind));
    }
  }

  absl::Status Check() const {
    for (const std::string& kind : kinds_) {
      if (kind != "torch" && kind != "slurm" && kind != "ompi" && kind != "none") {
        return absl::InvalidArgumentError(absl::StrCat("--rank-env has no kind '", kind,
                                                       "'; there are torch, slurm, ompi, none"));
      }
    }
    return absl::OkStatus();
  }

  // Of a rank; or, with `per_host`, of what starts those of a host.
  std::vector<std::pair<std::string, std::string>> Of(const Place& place, bool per_host) {
    variables_.clear();
    Set("HOSTNAME", job_.hosts[place.host]);
    if (Wanted("torch")) Torch(place, per_host);
    if (Wanted("slurm")) Slurm(place);
    if (Wanted("ompi") && !per_host) Ompi(place);
    // Hosts have more processors than the machine that emulates them, and what many ranks compute
    // with many threads each would only wait for each other. torchrun does the same.
    if (place.locals > 1 && !per_host && getenv("OMP_NUM_THREADS") == nullptr) {
      Set("OMP_NUM_THREADS", 1);
    }
    return std::move(variables_);
  }

 private:
  template <typename T>
  void Set(const char* name, const T& value) {
    variables_.emplace_back(name, absl::StrCat(value));
  }
  bool Wanted(absl::string_view kind) const {
    for (const std::string& wanted : kinds_) {
      if (wanted == kind) return true;
    }
    return false;
  }

  // As torchrun sets them (local_elastic_agent.py of PyTorch).
  void Torch(const Place& place, bool per_host) {
    Set("MASTER_ADDR", job_.hosts[0]);
    Set("MASTER_PORT", port_);
    Set("NODE_RANK", place.host);
    Set("NNODES", job_.cluster.hosts);
    if (per_host) return;
    Set("RANK", place.rank);
    Set("WORLD_SIZE", place.ranks);
    Set("LOCAL_RANK", place.local);
    Set("LOCAL_WORLD_SIZE", place.locals);
    Set("GROUP_RANK", place.host);
    Set("GROUP_WORLD_SIZE", job_.cluster.hosts);
    Set("ROLE_RANK", place.rank);
    Set("ROLE_WORLD_SIZE", place.ranks);
    Set("ROLE_NAME", "default");
    // Nobody starts ranks again, and no agent keeps the store: rank 0 does.
    Set("TORCHELASTIC_RUN_ID", "none");
    Set("TORCHELASTIC_RESTART_COUNT", 0);
    Set("TORCHELASTIC_MAX_RESTARTS", 0);
    Set("TORCHELASTIC_USE_AGENT_STORE", "False");
  }

  // As srun sets them ("OUTPUT ENVIRONMENT VARIABLES" of its manual page).
  void Slurm(const Place& place) {
    const int hosts = job_.cluster.hosts;
    const std::string list =
        hosts == 1 ? job_.hosts[0]
                   : absl::StrCat(absl::StripSuffix(job_.hosts[0], "0"), "[0-", hosts - 1, "]");
    for (const char* name : {"SLURM_JOB_ID", "SLURM_JOBID"}) Set(name, kJobId);
    for (const char* name : {"SLURM_NTASKS", "SLURM_NPROCS", "SLURM_STEP_NUM_TASKS"}) {
      Set(name, place.ranks);
    }
    for (const char* name : {"SLURM_NNODES", "SLURM_JOB_NUM_NODES", "SLURM_STEP_NUM_NODES"}) {
      Set(name, hosts);
    }
    for (const char* name : {"SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURM_STEP_NODELIST"}) {
      Set(name, list);
    }
    Set("SLURM_PROCID", place.rank);
    Set("SLURM_LOCALID", place.local);
    Set("SLURM_NODEID", place.host);
    Set("SLURM_NTASKS_PER_NODE", place.locals);
    Set("SLURM_TASKS_PER_NODE",
        hosts == 1 ? absl::StrCat(place.locals) : absl::StrCat(place.locals, "(x", hosts, ")"));
    Set("SLURMD_NODENAME", job_.hosts[place.host]);
    Set("SLURM_GPUS_ON_NODE", job_.cluster.host.gpus);
    Set("SLURM_GPUS_PER_NODE", job_.cluster.host.gpus);
    Set("SLURM_LAUNCH_NODE_IPADDR", job_.addresses[0]);
    Set("SLURM_SRUN_COMM_HOST", job_.addresses[0]);
  }

  // As Open MPI's mpirun sets them.
  void Ompi(const Place& place) {
    Set("OMPI_COMM_WORLD_RANK", place.rank);
    Set("OMPI_COMM_WORLD_SIZE", place.ranks);
    Set("OMPI_COMM_WORLD_LOCAL_RANK", place.local);
    Set("OMPI_COMM_WORLD_LOCAL_SIZE", place.locals);
    Set("OMPI_COMM_WORLD_NODE_RANK", place.local);
    Set("OMPI_UNIVERSE_SIZE", place.ranks);
  }

  const Job& job_;
  const int port_;
  std::vector<std::string> kinds_;
  std::vector<std::pair<std::string, std::string>> variables_;
};

absl::StatusOr<Preload> PreloadOf(const std::string& modules,
                                  const std::vector<std::string>& command, bool per_host) {
  if (per_host) {
    return absl::InvalidArgumentError(
        "--preload is for ranks that phantora-run starts; torchrun and --start per-host or once "
        "start them themselves");
  }
  // Names of modules, and nothing that Python would take for more than one.
  for (absl::string_view name : absl::StrSplit(modules, ',')) {
    const bool is_name =
        !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
          return absl::ascii_isalnum(c) || c == '_' || c == '.' || c >= 0x80;
        });
    if (!is_name) {
      return absl::InvalidArgumentError(
          absl::StrCat("--preload: '", name, "' is no name of a Python module"));
    }
  }
  auto python = PythonCommand::Parse(command);
  if (!python.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--preload: ", python.status().message()));
  }
  return Preload{.command = *std::move(python), .modules = modules};
}

}  // namespace

bool IsLauncher(const std::vector<std::string>& command) {
  if (command.empty()) return false;
  if (FileName(command[0]) == "torchrun") return true;
  for (size_t i = 1; i + 1 < command.size(); ++i) {
    if (command[i] != "-m") continue;
    return command[i + 1] == "torch.distributed.run" ||
           command[i + 1] == "torch.distributed.launch";
  }
  return false;
}

absl::StatusOr<Job> PlanJob(const JobOptions& options, const std::vector<std::string>& command) {
  auto cluster = FindCluster(options.cluster);
  if (!cluster.ok()) return cluster.status();
  Job job;
  job.cluster = *std::move(cluster);
  const int hosts = job.cluster.hosts, gpus = job.cluster.host.gpus;
  if (options.ranks_per_host > gpus) {
    return absl::InvalidArgumentError(
        absl::StrFormat("--ranks-per-host %d: a host of %s has %d GPUs", options.ranks_per_host,
                        job.cluster.name, gpus));
  }
  for (int host = 0; host < hosts; ++host) {
    job.hosts.push_back(HostName(job.cluster, host));
    job.addresses.push_back(absl::StrFormat("127.%d.%d.%d", options.network,
                                            host / kAddressesPerNet, host % kAddressesPerNet + 1));
  }
  Variables variables(job, options);
  if (auto status = variables.Check(); !status.ok()) return status;
  Started started = options.started;
  if (started == Started::kAuto) {
    started = IsLauncher(command) ? Started::kPerHost : Started::kPerRank;
  }
  const bool per_host = started != Started::kPerRank;
  if (!options.preload.empty()) {
    auto preload = PreloadOf(options.preload, command, per_host);
    if (!preload.ok()) return preload.status();
    job.preload = *std::move(preload);
  }
  job.processes = hosts * (options.ranks_per_host > 0 ? options.ranks_per_host : gpus);
  Place place;
  place.locals = per_host ? 1 : options.ranks_per_host > 0 ? options.ranks_per_host : gpus;
  place.ranks = place.locals * hosts;
  for (; place.host < (started == Started::kOnce ? 1 : hosts); ++place.host) {
    for (place.local = 0; place.local < place.locals; ++place.local, ++place.rank) {
      RankCommand rank;
      rank.label = per_host ? absl::StrCat("host ", place.host) : absl::StrCat("rank ", place.rank);
      rank.host = place.host;
      rank.environment = variables.Of(place, per_host);
      rank.reads_input = place.rank == 0;
      job.ranks.push_back(std::move(rank));
    }
  }
  return job;
}

std::string DescribeClusters() {
  std::string text;
  for (const std::string& name : ClusterNames()) {
    const auto cluster = FindCluster(name);
    if (!cluster.ok()) continue;
    absl::StrAppendFormat(&text, "%-18s %3d hosts x %d %-20s %s\n", name, cluster->hosts,
                          cluster->host.gpus, cluster->host.gpu, cluster->about);
  }
  return text;
}

}  // namespace phantora
