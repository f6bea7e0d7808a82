#include "tools/run/session.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/executor/executor_client.h"
#include "tools/run/launcher_rank.h"
#include "tools/run/session_report.h"
#include "trap/launch/guardian.h"
#include "trap/launch/own_rights.h"
#include "trap/linux/filter_policy.h"
#include "trap/linux/kernel_features.h"
#include "trap/linux/process_tree.h"
#include "trap/linux/remote_memory.h"
#include "trap/linux/unique_fd.h"
#include "trap/log.h"

namespace phantora {
namespace {

// As `env` and `timeout` do when they themselves fail.
constexpr int kCannotSetUp = 125;
// UVM's, in which an offset is an address (uvm_device.h).
constexpr rlim_t kLongestFile = rlim_t{1} << 47;
// Phantora's own, beside the guardian's 70. Few programs end with them (sysexits.h has them for
// errors of the system), and many with 1.
constexpr int kNcclFailed = 71, kMemoryDiffered = 72, kCheckFailed = 73;
// Of processes that use a GPU in real time, where they wait by spinning.
constexpr int kSpinnersNice = 19;

int Fail(const absl::Status& status) {
  LogError(std::string(status.message()));
  return kCannotSetUp;
}

std::string DescribeFailure(const RankEnd& end, const Job& job) {
  const int status = end.wait_status;
  const std::string how = WIFSIGNALED(status)
                              ? absl::StrFormat("was ended by signal %d (%s)", WTERMSIG(status),
                                                strsignal(WTERMSIG(status)))
                              : absl::StrFormat("failed with exit status %d", WEXITSTATUS(status));
  const char* others = job.ranks.size() > 1 ? "; the others were ended for that" : "";
  const RankCommand& rank = job.ranks[end.rank];
  return absl::StrFormat("%s (%s) %s%s", rank.label, job.hosts[static_cast<size_t>(rank.host)], how,
                         others);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Session>> Session::Prepare(const SessionOptions& options,
                                                          const RealGpu& real) {
  const CommandLimits limits = RaiseLimits();
  if (limits.file_size.rlim_max < kLongestFile) {
    return absl::FailedPreconditionError(
        absl::StrFormat("files may be %d bytes long at most here (ulimit -Hf), but the memory of "
                        "emulated GPUs lies "
                        "in sparse files of 128 TiB; start phantora-run without that limit",
                        limits.file_size.rlim_max));
  }
  auto plan = RunPlan::Create(options);
  if (!plan.ok()) return plan.status();
  auto filter = BuildFilter({.simulated_time = options.simulated(),
                             .repeatable = options.host_time.repeats(),
                             .shared_memory = plan->share_memory,
                             .virtual_hosts = plan->job.has_value()});
  if (!filter.ok()) return filter.status();
  auto outputs = RunOutputs::Open(options, *plan, real.profiler);
  if (!outputs.ok()) return outputs.status();
  std::unique_ptr<Session> session(
      new Session(options, real, *std::move(plan), *std::move(outputs), *std::move(filter)));
  session->limits_ = limits;
  if (auto status = session->PrepareParts(); !status.ok()) return status;
  return session;
}

Session::Session(const SessionOptions& options, const RealGpu& real, RunPlan plan,
                 RunOutputs outputs, std::vector<sock_filter> filter)
    : options_(options),
      real_(real),
      plan_(std::move(plan)),
      outputs_(std::move(outputs)),
      filter_(std::move(filter)),
      memory_(MemoryOptions()),
      stalls_(WatchOptions()) {}

Session::~Session() {
  if (launched_) EndDescendants();
}

absl::Status Session::PrepareWall() {
  const std::vector<std::string> devices = DeviceWall::RealDevices();
  auto wall = DeviceWall::Build(devices);
  if (wall.ok()) {
    wall_.emplace(*std::move(wall));
    // Where that is forbidden, the nodes can be seen, and be changed by root (doctor says so).
    if (const int error = wall_->Hide(); error != 0 && !devices.empty()) {
      LogInfo(absl::StrCat("the nodes of real GPUs cannot be hidden: ", std::strerror(error)));
    }
    // This process opens files for ranks, and is to reach no more than they may. Before it has
    // threads, to each of which that would have to be done.
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    const int refused = wall_->Enter();
    return refused == 0 ? absl::OkStatus()
                        : absl::InternalError(
                              absl::StrCat("landlock_restrict_self: ", std::strerror(refused)));
  }
  if (!absl::IsUnimplemented(wall.status())) return wall.status();
  if (!devices.empty()) {
    LogWarning(
        absl::StrCat("this machine's own GPUs are kept from the command by their names alone, "
                     "which a program that "
                     "wants to can get round: ",
                     std::string(wall.status().message())));
  }
  return absl::OkStatus();
}

absl::Status Session::PrepareParts() {
  if (auto status = PrepareWall(); !status.ok()) return status;
  auto cluster = EmulatedCluster::Create(
      {.session = &options_,
       .plan = &plan_,
       .outputs = &outputs_,
       .executor = real_.executor,
       .now = [this](pid_t process) { return clocks().NowOf(process); },
       .nccl_failed = [this](const std::string& what) { NcclFailed(what); }});
  if (!cluster.ok()) return cluster.status();
  cluster_ = *std::move(cluster);
  cluster_->pages().set_supply(&memory_);
  if (plan_.share_memory || (options_.simulated() && options_.share_memory.value_or(true))) {
    auto sharing = PageSharing::Create({.children = &children_,
                                        .is_short = [this] { return memory_.IsTight(); },
                                        .zeros_only = !plan_.share_memory});
    if (sharing.ok()) {
      sharing_ = *std::move(sharing);
    } else if (plan_.share_memory) {
      return sharing.status();
    } else {
      LogInfo(absl::StrCat("zeros in the memory of processes are not given back: ",
                           std::string(sharing.status().message())));
    }
  }
  auto supervisor = Supervisor::Create(ServeOptions());
  if (!supervisor.ok()) {
    const char* without =
        options_.simulated() ? "; --host-time real does without simulated time" : "";
    return absl::Status(supervisor.status().code(),
                        absl::StrCat(std::string(supervisor.status().message()), without));
  }
  supervisor_ = *std::move(supervisor);
  return absl::OkStatus();
}

namespace {

// Whoever else may have its number by now is none of the run's.
void KillDescendant(pid_t process) {
  const UniqueFd descriptor(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
  const std::vector<pid_t> ours = Descendants();
  if (!descriptor.valid() || std::find(ours.begin(), ours.end(), process) == ours.end()) return;
  syscall(SYS_pidfd_send_signal, descriptor.get(), SIGKILL, nullptr, 0);
}

}  // namespace

HostMemory::Options Session::MemoryOptions() {
  return {.limit = options_.memory_limit,
          .out_of_memory = options_.out_of_memory,
          .working_for = [this] { return cluster_->services().working_for; },
          .add =
              [this](MemoryUse* use) {
                cluster_->AddMemory(use);
                if (sharing_ != nullptr) use->shared = sharing_->PoolBytes();
              },
          .name = &NameOfProcess,
          .error = [](const std::string& what) { LogError(what); },
          .warn = [](const std::string& what) { LogWarning(what); },
          .end = [](pid_t process) { KillDescendant(process); },
          .processes = [] { return Descendants(); }};
}

StallWatch::Options Session::WatchOptions() {
  return {.waiting = [this](VirtualTime since) { return cluster_->DescribeWaiting(since); },
          .progress = [this] { return cluster_->Progress(); },
          .now = [this] { return clocks().Latest(); },
          .warn = [](const std::string& what) { LogWarning(what); },
          .end = [this](const std::string& what) { NcclFailed(what); }};
}

Supervisor::Options Session::ServeOptions() {
  std::vector<int> host_of_rank;
  if (plan_.job) {
    for (const RankCommand& rank : plan_.job->ranks) host_of_rank.push_back(rank.host);
  }
  return {.hosts = cluster_->Views(),
          .host_of_rank = host_of_rank,
          .children = &children_,
          .sharing = sharing_.get(),
          .rank_ended = [this](const RankEnd& end) { RankEnded(end); },
          .log = outputs_.calls.get(),
          .rank_nice = options_.nice.value_or(options_.simulated() ? 0 : kSpinnersNice),
          .machine_lock = &cluster_->machine_lock(),
          .host_time = options_.host_time,
          .segments = outputs_.host_time ? &outputs_.host_time->segments() : nullptr,
          .device = &cluster_->timelines(),
          .events = &cluster_->events(),
          .unknowns = &cluster_->unknowns(),
          .waited = [this](pid_t process, pid_t, VirtualTime since,
                           VirtualTime until) { cluster_->Waited(process, since, until); },
          .between_calls = [this] { ShowStatus(); },
          .watch =
              [this](const std::function<bool()>& at_rest) {
                if (options_.simulated()) stalls_.Look(at_rest);
              },
          .memory_is_short = [this] { return memory_.IsTight(); },
          .process_died = [this](pid_t process) { ProcessDied(process); }};
}

absl::Status Session::Launch() {
  if (options_.simulated()) AskForShortSlices();
  LaunchOptions launch = plan_.Launched(options_, outputs_.rank_descriptors);
  launch.limits = limits_;
  launch.wall = wall_ ? &*wall_ : nullptr;
  auto command = phantora::Launch(filter_, launch);
  if (!command.ok()) return command.status();
  launched_ = true;
  command_.emplace(*std::move(command));
  if (const auto status = GiveUpRights(); !status.ok()) {
    LogWarning(absl::StrCat("the supervisor keeps more rights than it needs: ",
                            std::string(status.message())));
  }
  if (!RemoteMemory(command_->pid).Allowed()) {
    kill(command_->pid, SIGKILL);
    waitpid(command_->pid, nullptr, 0);
    return absl::FailedPreconditionError(
        "the memory of the program cannot be read (process_vm_readv is forbidden): see "
        "'phantora-run doctor'");
  }
  const DriverVersion& driver = plan_.driver.version;
  if (driver.evidence == DriverEvidence::kHeaders) {
    LogWarning(absl::StrCat("driver ", driver.text,
                            ": its interface is known from published headers alone; no libraries "
                            "of its branch were ever run here"));
  } else if (!driver.differs.empty()) {
    // A call that such a structure is of is told when it is made.
    LogInfo(absl::StrCat("driver ", driver.text, " is served as others of its branch, but has ",
                         "another ", driver.differs));
  } else if (!driver.compared) {
    LogInfo(absl::StrCat("driver ", driver.text,
                         ": its headers were not compared with those of its branch"));
  }
  LogInfo(absl::StrFormat("%d x %s, driver %s from %s", plan_.hosts() * plan_.gpus_per_host(),
                          plan_.profile.product, plan_.driver.version.text,
                          plan_.driver.library_directory));
  if (!command_->listener->synchronous_wake_up()) {
    LogInfo(absl::StrCat("this kernel lacks SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (Linux ",
                         kSyncWakeUpKernel.text(), "); driver calls are slower"));
  }
  return absl::OkStatus();
}

void Session::Run(int signals) {
  if (outputs_.ranks != nullptr) outputs_.ranks->Start();
  if (options_.simulated() && options_.status && StatusLine::Possible(STDERR_FILENO)) {
    status_line_ = std::make_unique<StatusLine>(STDERR_FILENO);
  }
  memory_.Start();
  cluster_->scheduler().Start();
  wait_status_ = supervisor_->Run(*std::exchange(command_, std::nullopt), signals);
  cluster_->scheduler().Stop();
  memory_.Stop();
  if (status_line_ != nullptr) status_line_->Stop();
  if (outputs_.ranks != nullptr) outputs_.ranks->Stop();
}

int Session::Report() {
  if (first_failure_ && nccl_failure_.empty()) {
    LogError(DescribeFailure(*first_failure_, *plan_.job));
  }
  SessionReport({.options = &options_,
                 .plan = &plan_,
                 .outputs = &outputs_,
                 .cluster = cluster_.get(),
                 .supervisor = supervisor_.get(),
                 .sharing = sharing_.get(),
                 .memory = &memory_,
                 .profiler = real_.profiler})
      .WriteAll();
  if (!nccl_failure_.empty()) return kNcclFailed;
  if (const uint64_t differences = cluster_->pages().differences(); differences > 0) {
    LogError(absl::StrCat("--check-gpu-memory: ", differences,
                          " pages were not what they should have been. Please report this"));
    return kMemoryDiffered;
  }
  if (WIFSIGNALED(wait_status_)) {
    LogInfo(absl::StrCat("the command was ended by signal ", WTERMSIG(wait_status_)));
    return 128 + WTERMSIG(wait_status_);
  }
  if (WEXITSTATUS(wait_status_) == 0 && cluster_->check() != nullptr &&
      cluster_->check()->errors() > 0) {
    return kCheckFailed;
  }
  return WEXITSTATUS(wait_status_);
}

void Session::RankEnded(const RankEnd& end) {
  outputs_.ranks->Flush();
  if (end.wait_status != 0 && !first_failure_) first_failure_ = end;
}

void Session::ShowStatus() {
  if (status_line_ == nullptr || !status_line_->Wanted()) return;
  status_line_->Set({clocks().Latest() - ProcessClocks::Start(), clocks().gpu_processes(),
                     cluster_->services().counters.kernels, memory_.used()});
}

void Session::ProcessDied(pid_t process) {
  if (supervisor_->time() != nullptr) {
    const auto* ended = clocks().last_finished();
    if (ended != nullptr && ended->process == process) {
      cluster_->recorder().End(process, ended->elapsed, ended->waited);
    }
  }
  cluster_->ProcessDied(process);
}

void Session::NcclFailed(const std::string& what) {
  if (!nccl_failure_.empty()) return;
  nccl_failure_ = what;
  if (outputs_.ranks != nullptr) outputs_.ranks->Flush();
  LogError(what);
  SignalDescendants(SIGKILL);
}

namespace {

// In the supervisor's process.
int Supervise(const SessionOptions& options, const Session::RealGpu& real, int signals) {
  auto session = Session::Prepare(options, real);
  if (!session.ok()) return Fail(session.status());
  if (options.dry_run) {
    std::fputs((*session)->plan().Describe(options).c_str(), stdout);
    return 0;
  }
  if (auto status = (*session)->Launch(); !status.ok()) return Fail(status);
  (*session)->Run(signals);
  return (*session)->Report();
}

// Of the GPU that is emulated.
absl::StatusOr<GpuProfile> WantedProfile(const SessionOptions& options) {
  std::string gpu = options.gpu;
  if (!options.job.cluster.empty()) {
    const auto cluster = FindCluster(options.job.cluster);
    if (!cluster.ok()) return cluster.status();
    gpu = cluster->host.gpu;
  }
  return FindGpuProfile(gpu);
}

// nullptr if nothing is to be measured.
absl::StatusOr<std::unique_ptr<ProfilerClient>> StartWantedProfiler(const SessionOptions& options) {
  if (!options.missing.measure || options.dry_run) return nullptr;
  const auto profile = WantedProfile(options);
  if (!profile.ok()) return profile.status();
  return StartProfiler(options.missing, *profile);
}

// nullptr if nothing is to be executed on a real GPU.
absl::StatusOr<std::unique_ptr<ExecutorClient>> StartWantedExecutor(const SessionOptions& options) {
  if (!options.execute_on_gpu || options.dry_run) return nullptr;
  const auto profile = WantedProfile(options);
  if (!profile.ok()) return profile.status();
  return ExecutorClient::Start(options.executor, profile->sm_architecture());
}

}  // namespace

int RunSession(const SessionOptions& options) {
  SetLogLevel(options.verbose ? LogLevel::kInfo : LogLevel::kWarning);
  if (!options.configured.empty()) LogSummary(options.configured);
  const auto profiler = StartWantedProfiler(options);
  if (!profiler.ok()) return Fail(profiler.status());
  const auto executor = StartWantedExecutor(options);
  if (!executor.ok()) return Fail(executor.status());
  const Session::RealGpu real = {profiler->get(), executor->get()};
  return RunGuarded([&](int signals) { return Supervise(options, real, signals); });
}

}  // namespace phantora
