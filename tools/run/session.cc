#include "tools/run/session.h"

#include <arpa/inet.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clock/time_source.h"
#include "fabric/cluster/cluster_fabric.h"
#include "fabric/collectives/nccl_planner.h"
#include "fabric/library/embedded_library.h"
#include "profiles/gpu/gpu_profile.h"
#include "tools/observe/link_statistics.h"
#include "tools/observe/nccl_statistics.h"
#include "tools/observe/run_recorder.h"
#include "tools/observe/run_report.h"
#include "tools/observe/run_summary.h"
#include "tools/observe/trace_writer.h"
#include "tools/replay/step_recorder.h"
#include "tools/run/driver_libraries.h"
#include "tools/run/emulated_host.h"
#include "tools/run/host_files.h"
#include "tools/run/launcher_rank.h"
#include "tools/run/rank_output.h"
#include "tools/run/stall_watch.h"
#include "tools/run/status_line.h"
#include "tools/run/user_cache.h"
#include "trap/gpu/front/gpu_scheduler.h"
#include "trap/gpu/front/qmd.h"
#include "trap/gpu/kernels/internal_kernels.h"
#include "trap/gpu/kernels/kernel_library.h"
#include "trap/gpu/kernels/kernel_namer.h"
#include "trap/gpu/pricing/kernel_log.h"
#include "trap/gpu/pricing/kernel_pricer.h"
#include "trap/gpu/timeline/gpu_timelines.h"
#include "trap/launch/guardian.h"
#include "trap/launch/launcher.h"
#include "trap/linux/filter_policy.h"
#include "trap/linux/process_tree.h"
#include "trap/log.h"
#include "trap/nccl/nccl_device.h"
#include "trap/nccl/nccl_runtime.h"
#include "trap/rm/machine.h"
#include "trap/rm/os_events.h"
#include "trap/supervisor/supervisor.h"
#include "trap/turn_lock.h"

namespace phantora {
namespace {

// As `env` and `timeout` do when they themselves fail.
constexpr int kCannotSetUp = 125;

int Fail(const absl::Status& status) {
  LogError(std::string(status.message()));
  return kCannotSetUp;
}

std::string Prepend(const std::string& directory, const char* variable) {
  const char* old = std::getenv(variable);
  return old == nullptr || *old == '\0' ? directory : absl::StrCat(directory, ":", old);
}

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

bool SharesMemory(const SessionOptions& options, const std::optional<Job>& job) {
  if (!job || options.host_time.mode == HostTimeMode::kReal) return false;
  if (options.share_memory) return *options.share_memory;
  uint64_t free_bytes = 0;
  std::ifstream file("/proc/meminfo");
  for (std::string name, rest; file >> name && std::getline(file, rest);) {
    if (name == "MemAvailable:") free_bytes = std::strtoull(rest.c_str(), nullptr, 10) << 10;
  }
  const double needed = static_cast<double>(kRankBytes) * job->processes;
  return needed > kMuchOfMemory * static_cast<double>(free_bytes);
}

LaunchOptions MakeLaunchOptions(const SessionOptions& options, const DriverLibraries& driver,
                                const std::optional<Job>& job, bool share_memory) {
  LaunchOptions launch;
  launch.command = options.command;
  launch.environment.emplace_back("LD_LIBRARY_PATH",
                                  Prepend(driver.library_directory, "LD_LIBRARY_PATH"));
  if (!driver.program_directory.empty()) {
    launch.environment.emplace_back("PATH", Prepend(driver.program_directory, "PATH"));
  }
  launch.same_addresses = share_memory || options.host_time.mode == HostTimeMode::kFixed;
  if (share_memory) {
    for (const auto& [name, value] :
         {std::pair(kMapThreshold, kLargePiece), std::pair(kHashSeed, kSameHashes)}) {
      if (std::getenv(name) == nullptr) launch.environment.emplace_back(name, value);
    }
  }
  if (job) launch.ranks = job->ranks;
  return launch;
}

const char* Name(HostTimeMode mode) {
  switch (mode) {
    case HostTimeMode::kReal:
      return "real";
    case HostTimeMode::kMeasured:
      return "measured";
    case HostTimeMode::kFixed:
      return "fixed";
    case HostTimeMode::kZero:
      return "zero";
  }
  return "";
}

// What the run has made, where it was asked to; `path` is nothing otherwise.
void Tell(const absl::Status& written, const std::string& path) {
  if (!written.ok()) {
    LogWarning(std::string(written.message()));
  } else if (!path.empty()) {
    LogSummary(absl::StrCat("wrote ", path));
  }
}

void ReportTime(const SessionOptions& options, const SimulatedTime& time,
                const RunRecorder& recorder, const GpuCounters& work, const char* price_source) {
  const size_t largest = options.verbose || !options.report.empty() ? 10 : 3;
  const auto lines = Summary(recorder, largest);
  for (const std::string& line : lines) LogSummary(line);
  if (!lines.empty()) {
    const std::string small =
        work.small_kernels == 0
            ? ""
            : absl::StrCat(" (but for ", work.small_kernels, " small ones of known effect)");
    LogWarning(absl::StrCat("kernels were not executed", small, "; their times come from ",
                            price_source, " (see docs/LIMITATIONS.md)"));
  }
  if (!options.verbose) return;
  const auto& counters = time.counters();
  LogInfo(
      absl::StrFormat("%d clock reads, %d held calls (%d waits for GPUs), %d jumps, %d looks "
                      "at all threads, %d nudges",
                      counters.clock_reads, counters.waits, counters.gpu_waits, counters.jumps,
                      counters.scans, counters.nudges));
}

// What happened to the network.
void ReportNetwork(const NetworkEvents& events, uint64_t rerouted) {
  for (const std::string& line : events.happened()) LogSummary(absl::StrCat("  network: ", line));
  if (rerouted > 0) {
    LogSummary(
        absl::StrFormat("  network: operations under way took another way %d times", rerouted));
  }
  if (events.ahead() > 0) {
    LogWarning(absl::StrFormat("the run was over before %d of the cluster's network events",
                               events.ahead()));
  }
}

void Report(const SessionOptions& options, const Supervisor& supervisor, RunRecorder& recorder,
            ReportFiles* report, const GpuServices& services,
            const std::vector<std::unique_ptr<EmulatedHost>>& hosts, const NcclStatistics& nccl,
            const LinkStatistics* links) {
  const Machine& machine = hosts[0]->machine();
  const std::string unknown = machine.unknowns->Report();
  if (!unknown.empty()) {
    LogWarning(absl::StrCat(
        "the run met things that are not emulated; check before trusting its results:\n", unknown));
  }
  const auto& work = services.counters;
  const char* price_source = services.pricer->Source();
  if (const SimulatedTime* time = supervisor.time()) {
    for (const auto& rank : time->clocks().ranks())
      recorder.End(rank.process, rank.elapsed, rank.waited);
    ReportTime(options, *time, recorder, work, price_source);
    for (const std::string& line : nccl.Lines(options.verbose ? 20 : 4)) LogSummary(line);
    Tell(recorder.Close(), options.trace);
  } else if (const uint64_t skipped = work.kernels - work.internal_kernels; skipped > 0) {
    LogWarning(
        absl::StrFormat("%d kernels were not executed and took %g us each; time is real time (see "
                        "docs/LIMITATIONS.md)",
                        skipped, options.kernel_microseconds.value_or(0)));
  }
  if (report != nullptr) {
    auto content = BuildReport({.command = options.command,
                                .gpu = machine.profile.name,
                                .product = machine.profile.product,
                                .gpus = static_cast<int>(hosts.size() * machine.gpus.size()),
                                .driver = machine.driver.text,
                                .host_time = Name(options.host_time.mode),
                                .host_scale = options.host_time.scale,
                                .price_source = price_source,
                                .unknowns = unknown},
                               recorder);
    content["nccl"] = nccl.Json();
    if (links != nullptr) content["links"] = links->Json();
    Tell(report->Write(content), absl::StrCat(options.report, "/report.html"));
  }
  if (!options.verbose) return;
  const SupervisorCounters& counters = supervisor.counters();
  LogInfo(
      absl::StrFormat("%d trapped calls, %d of them to the driver; %d kernels (%d libcuda's "
                      "own), %d copies, %.1f MB moved, %d faults",
                      counters.traps, counters.ioctls, services.counters.kernels,
                      services.counters.internal_kernels, services.counters.copies,
                      services.counters.copied_bytes / 1e6, services.counters.faults));
  for (size_t host = 0; host < hosts.size(); ++host) {
    for (const Gpu& gpu : hosts[host]->machine().gpus) {
      if (gpu.heap->peak() == 0) continue;
      LogInfo(absl::StrFormat("%sGPU %d: peak memory %.1f MiB",
                              hosts.size() > 1 ? absl::StrCat("host ", host, " ") : "", gpu.index,
                              gpu.heap->peak() / 1048576.0));
    }
  }
}

// Puts libnccl.so.2 in the place of NVIDIA's on one host.
// `libraries` is where the driver's are: programs that look along LD_LIBRARY_PATH find it there,
// also where NVIDIA's is not installed.
void AddNccl(NcclRuntime* nccl, int number, const std::string& libraries, EmulatedHost* host) {
  const auto find = [host, number](const uint8_t* uuid) -> std::optional<GpuPlace> {
    const Gpu* gpu = host->machine().GpuByUuid(uuid);
    if (gpu == nullptr) return std::nullopt;
    return GpuPlace{number, gpu->index};
  };
  // Like a miscellaneous device of the kernel, with a number that it gives to none.
  constexpr unsigned kMiscMajor = 10, kMinor = 1048000;
  host->files().AddDevice(nccl::kDevice, kMiscMajor, kMinor,
                          [nccl, find](pid_t) { return std::make_shared<NcclDevice>(nccl, find); });
  const std::string library(nccl::NcclLibrary());
  host->files().ReplaceLibrary("libnccl.so.2", library);
  host->files().AddText(absl::StrCat(libraries, "/libnccl.so.2"), library);
}

std::optional<StepRecorder::Options::Described> DescribeOperation(NcclRuntime& nccl,
                                                                  uint64_t shared) {
  const NcclRuntime::Pending pending = nccl.PendingOf(shared);
  if (pending.communicator == nullptr) return std::nullopt;
  const Communicator& communicator = *pending.communicator;
  StepRecorder::Options::Described described = {
      {communicator.number, communicator.places, communicator.settings}, {}};
  for (const nccl::Entry& entry : pending.entries) {
    described.collectives.push_back({entry.operation, OperationBytes(entry, communicator.ranks())});
  }
  return described;
}

// Completes what the recorder does not know, and writes it.
absl::Status WriteStep(StepRecorder& recorder, const Cluster& cluster, int gpus, uint32_t sms,
                       double memory_bytes_per_s, const std::string& file) {
  StepRecord record = recorder.Take();
  record.cluster = cluster.name;
  record.gpu = cluster.host.gpu;
  record.hosts = cluster.hosts;
  record.gpus = gpus;
  record.sms = sms;
  record.memory_bytes_per_s = memory_bytes_per_s;
  if (record.truncated) {
    LogWarning(absl::StrFormat("%s has the first %d kernels, copies and NCCL operations only", file,
                               record.nodes.size()));
  }
  return WriteStepRecord(record, file);
}

std::string DescribeFailure(const RankEnd& end, const Job& job) {
  const int status = end.wait_status;
  const std::string how = WIFSIGNALED(status)
                              ? absl::StrFormat("was ended by signal %d (%s)", WTERMSIG(status),
                                                strsignal(WTERMSIG(status)))
                              : absl::StrFormat("failed with exit status %d", WEXITSTATUS(status));
  const char* others = job.ranks.size() > 1 ? "; the others were ended for that" : "";
  const RankCommand& rank = job.ranks[end.rank];
  return absl::StrFormat("%s (%s) %s%s", rank.label, job.hosts[rank.host], how, others);
}

// In the supervisor process.
int Supervise(const SessionOptions& options, ProfilerClient* profiler, int signals) {
  std::optional<Job> job;
  if (!options.job.cluster.empty()) {
    JobOptions job_options = options.job;
    job_options.network = NetworkOf(getpid());
    auto planned = PlanJob(job_options, options.command);
    if (!planned.ok()) return Fail(planned.status());
    job = *std::move(planned);
  }
  auto profile = FindGpuProfile(job ? job->cluster.host.gpu : options.gpu);
  if (!profile.ok()) return Fail(profile.status());
  auto driver = FindDriverLibraries(options.driver, options.force_driver_abi);
  if (!driver.ok()) return Fail(driver.status());
  const bool simulated = options.host_time.mode != HostTimeMode::kReal;
  const bool share_memory = SharesMemory(options, job);
  auto filter = BuildFilter({.simulated_time = simulated,
                             .shared_memory = share_memory,
                             .virtual_hosts = job.has_value()});
  if (!filter.ok()) return Fail(filter.status());
  std::unique_ptr<TraceWriter> trace;
  if (!options.trace.empty()) {
    auto opened = TraceWriter::Open(options.trace);
    if (!opened.ok()) return Fail(opened.status());
    trace = *std::move(opened);
  }
  std::unique_ptr<ReportFiles> report;
  if (!options.report.empty()) {
    auto opened = ReportFiles::Open(options.report);
    if (!opened.ok()) return Fail(opened.status());
    report = *std::move(opened);
  }
  std::unique_ptr<KernelLog> kernel_log;
  if (!options.log_kernels.empty()) {
    auto opened = KernelLog::Open(options.log_kernels, profile->name);
    if (!opened.ok()) return Fail(opened.status());
    kernel_log = *std::move(opened);
  }
  const auto missing = OpenMissing(options.missing, *profile, profiler);
  if (!missing.ok()) return Fail(missing.status());
  std::unique_ptr<RankOutput> output;
  if (job) {
    std::vector<std::string> labels;
    for (const RankCommand& rank : job->ranks) labels.push_back(rank.label);
    auto made = RankOutput::Create(options.job.output, labels);
    if (!made.ok()) return Fail(made.status());
    output = *std::move(made);
    for (size_t rank = 0; rank < job->ranks.size(); ++rank) {
      std::tie(job->ranks[rank].output, job->ranks[rank].errors) =
          output->DescriptorsOf(static_cast<int>(rank));
    }
  }
  if (simulated) AskForShortSlices();
  // The child is forked before any thread exists.
  auto command = Launch(*filter, MakeLaunchOptions(options, *driver, job, share_memory));
  if (!command.ok()) return Fail(command.status());
  if (output != nullptr) output->Start();

  auto internal_kernels = InternalKernels::Load(driver->libcuda, profile->sm_architecture(),
                                                GraphNodeBytes(driver->version.abi));
  if (!internal_kernels.ok()) {
    LogWarning(absl::StrCat("device-to-device copies and memsets will not be carried out: ",
                            std::string(internal_kernels.status().message())));
    internal_kernels = InternalKernels();
  }
  auto log = std::make_unique<CallLog>();
  if (!options.log_calls.empty()) {
    auto opened = CallLog::Open(options.log_calls);
    if (!opened.ok()) return Fail(opened.status());
    log = *std::move(opened);
  }
  Unknowns unknowns;
  MonotonicTimeSource time;
  OsEvents events(&time);
  FixedPricer fixed_pricer(VirtualSpan::Microseconds(options.kernel_microseconds.value_or(0)));
  const auto own_rows = ReadRows(options.missing, profile->name);
  if (!own_rows.ok()) return Fail(own_rows.status());
  auto model = KernelPricer::Create(
      *profile, {.rows = options.measured_rows, .own_rows = *own_rows}, &unknowns);
  if (!model.ok()) return Fail(model.status());
  WorkPricer* pricer = &fixed_pricer;
  if (simulated && !options.kernel_microseconds) pricer = model->get();
  GpuServices services{&time, &events, pricer, &*internal_kernels, log.get(), &unknowns, {}};
  GpuTimelines timelines(&services);
  const ProcessClocks* clocks = nullptr;
  RunRecorder recorder({.start = ProcessClocks::Start(),
                        .now = [&clocks](pid_t process) { return clocks->NowOf(process); },
                        .launcher_rank = LauncherRank});
  TraceWriter* const trace_writer = trace.get();
  recorder.SetTrace(std::move(trace));
  if (simulated) services.observer = &recorder;
  TurnLock machine_lock;
  GpuScheduler scheduler(&machine_lock, &services, [&events] { return events.Drain(); });
  if (simulated) scheduler.Simulate(&timelines);
  const std::string cache = UserCache();
  KernelLibrary library({profile->sm_architecture(), cache.empty() ? "" : cache + "/kernels",
                         options.missing.wanted()},
                        &unknowns);
  KernelNamer namer(&library, ParametersAt(profile->sm_architecture()), &unknowns);
  if (simulated) services.namer = &namer;
  services.kernel_log = kernel_log.get();
  services.missing = missing->get();
  // What NCCL's operations cross.
  Cluster single;
  single.name = "this machine";
  single.host.gpu = options.gpu;
  single.host.gpus = options.gpus;
  auto fabric = ClusterFabric::Create(job ? job->cluster : single);
  if (!fabric.ok()) return Fail(fabric.status());
  std::unique_ptr<LinkStatistics> links;
  if (simulated) links = std::make_unique<LinkStatistics>(fabric->get(), ProcessClocks::Start());
  (*fabric)->events().SetStart(ProcessClocks::Start());
  if (!simulated && (*fabric)->events().ahead() > 0) {
    LogWarning("nothing happens to the cluster's network: its events are in simulated time");
  }
  std::string nccl_failure;
  const auto nccl_failed = [&](const std::string& what) {
    if (!nccl_failure.empty()) return;
    nccl_failure = what;
    if (output != nullptr) output->Flush();
    LogError(what);
    SignalDescendants(SIGKILL);
  };
  std::map<pid_t, int> host_of;  // of processes that use CUDA
  std::optional<NcclRuntime::Options::Native> native;
  // Its kernels are known by their names, which they have in simulated time only.
  if (options.native_nccl && simulated) {
    native = {.architecture = profile->sm_architecture(),
              .place = [&host_of](pid_t process, int gpu) -> std::optional<GpuPlace> {
                const auto it = host_of.find(process);
                if (it == host_of.end()) return std::nullopt;
                return GpuPlace{it->second, gpu};
              }};
  }
  NcclStatistics nccl_statistics;
  NcclPlanner planner(fabric->get(), (*model)->memory_bytes_per_s(), nccl_failed);
  NcclRuntime nccl({.network = &(*fabric)->network(),
                    .planner = &planner,
                    .largest_reduction = static_cast<uint64_t>(options.largest_reduction),
                    .unknowns = &unknowns,
                    .timed = simulated,
                    .events = simulated ? &(*fabric)->events() : nullptr,
                    .failed = nccl_failed,
                    .ended = [&](const auto& ended) { nccl_statistics.Add(ended); },
                    .native = native});
  services.shared = &nccl;
  std::unique_ptr<StepRecorder> step_recorder;
  if (!options.record_step.empty()) {
    step_recorder = std::make_unique<StepRecorder>(StepRecorder::Options{
        .start = ProcessClocks::Start(),
        .wanted = [](pid_t process) { return LauncherRank(process).value_or(0) == 0; },
        .describe = [&nccl](uint64_t shared) { return DescribeOperation(nccl, shared); }});
    services.order = step_recorder.get();
  }
  StallWatch stalls(
      {.waiting =
           [&](VirtualTime since) {
             std::lock_guard lock(machine_lock);
             return nccl.DescribeWaiting(since) + nccl.world().communicators().DescribeWaiting();
           },
       .progress =
           [&] {
             std::lock_guard lock(machine_lock);
             return services.counters.kernels + services.counters.copies + nccl.world().completed();
           },
       .now = [&clocks] { return clocks->Latest(); },
       .warn = [](const std::string& what) { LogWarning(what); },
       .end = nccl_failed});
  const int gpus_per_host = job ? job->cluster.host.gpus : options.gpus;
  std::vector<std::unique_ptr<EmulatedHost>> hosts;
  std::vector<VirtualHost> views;
  for (int i = 0; i < (job ? job->cluster.hosts : 1); ++i) {
    hosts.push_back(std::make_unique<EmulatedHost>(
        Machine{.profile = *profile,
                .driver = driver->version,
                .gpus = Machine::MakeGpus(*profile, gpus_per_host, i),
                .events = &events,
                .scheduler = &scheduler,
                .services = &services,
                .log = log.get(),
                .unknowns = &unknowns,
                .memory_observer = simulated ? &recorder : nullptr},
        [&, i](pid_t process) {
          if (simulated) namer.Prepare(process);
          host_of[process] = i;
        }));
    if (!options.native_nccl) AddNccl(&nccl, i, driver->library_directory, hosts[i].get());
    if (job) {
      AddHostFiles(*job, i, &hosts[i]->files());
      VirtualHost& view = hosts[i]->view();
      view.name = job->hosts[i];
      inet_pton(AF_INET, job->addresses[static_cast<size_t>(i)].c_str(), &view.address);
      view.cores = job->cluster.host.cores;
      view.memory_bytes = static_cast<uint64_t>(job->cluster.host.memory_gib) << 30;
    }
    views.push_back(hosts[i]->view());
  }
  std::vector<int> host_of_rank;
  if (job) {
    for (const RankCommand& rank : job->ranks) host_of_rank.push_back(rank.host);
  }
  std::unique_ptr<PageSharing> sharing;
  if (share_memory) {
    auto made = PageSharing::Create();
    if (!made.ok()) return Fail(made.status());
    sharing = *std::move(made);
  }
  std::optional<RankEnd> first_failure;
  std::unique_ptr<StatusLine> status_line;
  auto supervisor = Supervisor::Create(
      {.hosts = views,
       .host_of_rank = host_of_rank,
       .sharing = sharing.get(),
       .rank_ended =
           [&](const RankEnd& end) {
             output->Flush();
             if (end.wait_status != 0 && !first_failure) first_failure = end;
           },
       .log = log.get(),
       .rank_nice = options.nice.value_or(simulated ? 0 : 19),
       .machine_lock = &machine_lock,
       .host_time = options.host_time,
       .device = &timelines,
       .unknowns = &unknowns,
       .waited =
           [&](pid_t process, pid_t, VirtualTime since, VirtualTime until) {
             recorder.Wait(process, since, until);
             if (step_recorder != nullptr) step_recorder->Waited(process, since, until);
           },
       .between_calls =
           [&] {
             if (status_line == nullptr || !status_line->Wanted()) return;
             status_line->Set({clocks->Latest() - ProcessClocks::Start(), clocks->gpu_processes(),
                               services.counters.kernels});
           },
       .watch =
           [&](const std::function<bool()>& at_rest) {
             if (simulated) stalls.Look(at_rest);
           },
       .process_died =
           [&](pid_t process) {
             const auto* ended = clocks == nullptr ? nullptr : clocks->last_finished();
             if (ended != nullptr && ended->process == process) {
               recorder.End(process, ended->elapsed, ended->waited);
             }
             for (const auto& host : hosts) host->resource_manager().ProcessDied(process);
             nccl.ProcessDied(process);
             timelines.ProcessDied(process);
             namer.ProcessDied(process);
             host_of.erase(process);
             if (step_recorder != nullptr) step_recorder->ProcessDied(process);
           }});
  if (!supervisor.ok()) {
    const char* without = simulated ? "; --host-time real does without simulated time" : "";
    return Fail(absl::Status(supervisor.status().code(),
                             absl::StrCat(std::string(supervisor.status().message()), without)));
  }
  if ((*supervisor)->time() != nullptr) clocks = &(*supervisor)->time()->clocks();
  LogInfo(absl::StrFormat("%d x %s, driver %s from %s", hosts.size() * gpus_per_host,
                          profile->product, driver->version.text, driver->library_directory));
  if (!command->listener->synchronous_wake_up()) {
    LogInfo(
        "this kernel lacks SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (Linux 6.6); driver calls "
        "are slower");
  }
  if (simulated && options.status && StatusLine::Possible(STDERR_FILENO)) {
    status_line = std::make_unique<StatusLine>(STDERR_FILENO);
  }
  scheduler.Start();
  const int status = (*supervisor)->Run(*std::move(command), signals);
  scheduler.Stop();
  if (status_line != nullptr) status_line->Stop();
  if (output != nullptr) output->Stop();
  if (first_failure && nccl_failure.empty()) LogError(DescribeFailure(*first_failure, *job));
  if (kernel_log != nullptr) Tell(kernel_log->Close(), options.log_kernels);
  if (*missing != nullptr) CloseMissing(options.missing, *profile, **missing, profiler);
  if (const uint64_t uncomputed = nccl.uncomputed_reductions(); uncomputed > 0) {
    LogWarning(absl::StrFormat(
        "%d NCCL reductions of more than %d bytes were not computed: ranks got what rank 0 "
        "contributed (--nccl-reduce)",
        uncomputed, options.largest_reduction));
  }
  if (links != nullptr) {
    ReportNetwork((*fabric)->events(), nccl.world().rerouted());
    links->Finish(nccl.world().now());
    if (const std::string line = links->Line(); !line.empty()) LogSummary(line);
    if (trace_writer != nullptr) links->Trace(trace_writer);
  }
  if (sharing != nullptr && options.verbose && !sharing->Describe().empty()) {
    LogInfo(sharing->Describe());
  }
  if (step_recorder != nullptr) {
    const int ranks_per_host =
        options.job.ranks_per_host > 0 ? options.job.ranks_per_host : gpus_per_host;
    Tell(WriteStep(*step_recorder, job ? job->cluster : single, ranks_per_host,
                   static_cast<uint32_t>(profile->sms()), (*model)->memory_bytes_per_s(),
                   options.record_step),
         options.record_step);
  }
  Report(options, **supervisor, recorder, report.get(), services, hosts, nccl_statistics,
         links.get());
  if (!nccl_failure.empty()) return 1;
  if (WIFSIGNALED(status)) {
    LogInfo(absl::StrCat("the command was ended by signal ", WTERMSIG(status)));
    return 128 + WTERMSIG(status);
  }
  return WEXITSTATUS(status);
}

}  // namespace

int RunSession(const SessionOptions& options) {
  SetLogLevel(options.verbose ? LogLevel::kInfo : LogLevel::kWarning);
  std::unique_ptr<ProfilerClient> profiler;
  if (options.missing.measure) {
    std::string gpu = options.gpu;
    if (!options.job.cluster.empty()) {
      const auto cluster = FindCluster(options.job.cluster);
      if (!cluster.ok()) return Fail(cluster.status());
      gpu = cluster->host.gpu;
    }
    const auto profile = FindGpuProfile(gpu);
    if (!profile.ok()) return Fail(profile.status());
    auto started = StartProfiler(options.missing, *profile);
    if (!started.ok()) return Fail(started.status());
    profiler = *std::move(started);
  }
  return RunGuarded([&](int signals) { return Supervise(options, profiler.get(), signals); });
}

}  // namespace phantora
