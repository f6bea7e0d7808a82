#include "tools/session.h"

#include <signal.h>
#include <sys/wait.h>

#include <cstdlib>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clock/time_source.h"
#include "profiles/gpu_profile.h"
#include "tools/driver_libraries.h"
#include "tools/run_recorder.h"
#include "trap/gpu/gpu_scheduler.h"
#include "trap/gpu/gpu_timelines.h"
#include "trap/gpu/internal_kernels.h"
#include "trap/gpu/launch_dims_pricer.h"
#include "trap/log.h"
#include "trap/rm/driver_files.h"
#include "trap/rm/machine.h"
#include "trap/rm/os_events.h"
#include "trap/supervisor/filter_policy.h"
#include "trap/supervisor/guardian.h"
#include "trap/supervisor/launcher.h"
#include "trap/supervisor/supervisor.h"
#include "trap/turn_lock.h"
#include "trap/uvm/uvm_device.h"

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

LaunchOptions MakeLaunchOptions(const SessionOptions& options, const DriverLibraries& driver) {
  LaunchOptions launch;
  launch.command = options.command;
  launch.environment.emplace_back("LD_LIBRARY_PATH",
                                  Prepend(driver.library_directory, "LD_LIBRARY_PATH"));
  if (!driver.program_directory.empty()) {
    launch.environment.emplace_back("PATH", Prepend(driver.program_directory, "PATH"));
  }
  return launch;
}

void ReportTime(const SimulatedTime& time, const RunRecorder& recorder, bool verbose) {
  for (const auto& rank : time.clocks().ranks()) {
    const auto it = recorder.totals().find(rank.process);
    if (it == recorder.totals().end()) continue;
    const auto seconds = [](VirtualSpan span) { return span.picoseconds() / 1e12; };
    const auto& work = it->second;
    LogWarning(absl::StrFormat(
        "process %d: %.6f s of simulated time; waited %.6f s for GPUs; %d kernels in %.6f s "
        "(not executed; times from %s), %d copies in %.6f s",
        rank.process, seconds(rank.elapsed), seconds(rank.waited), work.kernels,
        seconds(work.kernel_time), recorder.source(), work.copies, seconds(work.copy_time)));
  }
  if (!verbose) return;
  const auto& counters = time.counters();
  LogInfo(
      absl::StrFormat("%d clock reads, %d held calls (%d waits for GPUs), %d jumps, %d looks "
                      "at all threads, %d nudges",
                      counters.clock_reads, counters.waits, counters.gpu_waits, counters.jumps,
                      counters.scans, counters.nudges));
}

void Report(const SessionOptions& options, const Supervisor& supervisor,
            const RunRecorder& recorder, const GpuServices& services, const Machine& machine) {
  if (const std::string unknown = machine.unknowns->Report(); !unknown.empty()) {
    LogWarning(absl::StrCat(
        "the run met things that are not emulated; check before trusting its results:\n", unknown));
  }
  const auto& work = services.counters;
  if (supervisor.time() != nullptr) {
    ReportTime(*supervisor.time(), recorder, options.verbose);
  } else if (const uint64_t skipped = work.kernels - work.internal_kernels; skipped > 0) {
    LogWarning(absl::StrFormat(
        "%d kernels were not executed and took %g us each; time is real time (see LIMITATIONS.md)",
        skipped, options.kernel_microseconds.value_or(0)));
  }
  if (!options.verbose) return;
  const SupervisorCounters& counters = supervisor.counters();
  LogInfo(
      absl::StrFormat("%d trapped calls, %d of them to the driver; %d kernels (%d libcuda's "
                      "own), %d copies, %.1f MB moved, %d faults",
                      counters.traps, counters.ioctls, services.counters.kernels,
                      services.counters.internal_kernels, services.counters.copies,
                      services.counters.copied_bytes / 1e6, services.counters.faults));
  for (const Gpu& gpu : machine.gpus) {
    if (gpu.heap->peak() == 0) continue;
    LogInfo(
        absl::StrFormat("GPU %d: peak memory %.1f MiB", gpu.index, gpu.heap->peak() / 1048576.0));
  }
}

// In the supervisor process.
int Supervise(const SessionOptions& options, int signals) {
  auto profile = FindGpuProfile(options.gpu);
  if (!profile.ok()) return Fail(profile.status());
  auto driver = FindDriverLibraries(options.driver, options.force_driver_abi);
  if (!driver.ok()) return Fail(driver.status());
  auto filter = BuildFilter(options.host_time.mode != HostTimeMode::kReal);
  if (!filter.ok()) return Fail(filter.status());
  // The child is forked before any thread exists.
  auto command = Launch(*filter, MakeLaunchOptions(options, *driver));
  if (!command.ok()) return Fail(command.status());

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
  const bool simulated = options.host_time.mode != HostTimeMode::kReal;
  FixedPricer fixed_pricer(VirtualSpan::Microseconds(options.kernel_microseconds.value_or(0)));
  LaunchDimsPricer model(*profile);
  WorkPricer* pricer = &fixed_pricer;
  if (simulated && !options.kernel_microseconds) pricer = &model;
  GpuServices services{&time, &events, pricer, &*internal_kernels, log.get(), &unknowns, {}};
  GpuTimelines timelines(&services);
  RunRecorder recorder(ProcessClocks::Start(), pricer->Source());
  if (simulated) services.observer = &recorder;
  if (!options.trace.empty()) {
    if (auto status = recorder.OpenTrace(options.trace); !status.ok()) return Fail(status);
  }
  TurnLock machine_lock;
  GpuScheduler scheduler(&machine_lock, &services, [&events] { return events.Drain(); });
  if (simulated) scheduler.Simulate(&timelines);
  Machine machine{.profile = *profile,
                  .driver = driver->version,
                  .gpus = Machine::MakeGpus(*profile, options.gpus),
                  .events = &events,
                  .scheduler = &scheduler,
                  .services = &services,
                  .log = log.get(),
                  .unknowns = &unknowns};
  ResourceManager rm{.machine = &machine, .server = {}, .tracee_memory = {}};
  SyntheticFiles files;
  AddDriverFiles(
      &rm, {.uvm = [&rm](pid_t process) { return std::make_shared<UvmDevice>(&rm, process); }},
      &files);
  auto supervisor = Supervisor::Create(
      {.files = &files,
       .log = log.get(),
       .rank_nice = options.nice,
       .machine_lock = &machine_lock,
       .host_time = options.host_time,
       .device = &timelines,
       .unknowns = &unknowns,
       .waited = [&recorder](pid_t process, pid_t thread, VirtualTime since,
                             VirtualTime until) { recorder.Wait(process, thread, since, until); },
       .process_died =
           [&](pid_t process) {
             rm.ProcessDied(process);
             timelines.ProcessDied(process);
           }});
  if (!supervisor.ok()) return Fail(supervisor.status());
  LogInfo(absl::StrFormat("%d x %s, driver %s from %s", options.gpus, profile->product,
                          driver->version.text, driver->library_directory));
  if (!command->listener.synchronous_wake_up()) {
    LogInfo(
        "this kernel lacks SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (Linux 6.6); driver calls "
        "are slower");
  }
  scheduler.Start();
  const int status = (*supervisor)->Run(*std::move(command), signals);
  scheduler.Stop();
  Report(options, **supervisor, recorder, services, machine);
  if (WIFSIGNALED(status)) {
    LogInfo(absl::StrCat("the command was ended by signal ", WTERMSIG(status)));
    return 128 + WTERMSIG(status);
  }
  return WEXITSTATUS(status);
}

}  // namespace

int RunSession(const SessionOptions& options) {
  SetLogLevel(options.verbose ? LogLevel::kInfo : LogLevel::kWarning);
  return RunGuarded([&options](int signals) { return Supervise(options, signals); });
}

}  // namespace phantora
