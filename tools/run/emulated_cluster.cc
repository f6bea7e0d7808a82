#include "tools/run/emulated_cluster.h"

#include <arpa/inet.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "fabric/library/embedded_library.h"
#include "tools/run/host_files.h"
#include "tools/run/launcher_rank.h"
#include "tools/run/user_cache.h"
#include "trap/check/check_device.h"
#include "trap/check/library/embedded_library.h"
#include "trap/gpu/front/qmd.h"
#include "trap/linux/proc.h"
#include "trap/log.h"
#include "trap/nccl/nccl_device.h"
#include "trap/rm/machine.h"
#include "trap/time/process_clocks.h"
#include "uvm_model/device_memory.h"

namespace phantora {
namespace {

// If the kernel does not say how much there is.
constexpr uint64_t kLeastMemory = uint64_t{16} << 30;
// Pages that are looked at with the machine's lock held: a tenth of a processor, or most of one.
const VirtualSpan kLookEvery = VirtualSpan::Microseconds(2000);
constexpr uint64_t kPagesPerLook = 256, kPagesWhenTight = 2048;

// Like a miscellaneous device of the kernel, with a number that it gives to none.
constexpr unsigned kMiscMajor = 10, kNcclMinor = 1048000, kCheckMinor = 1048001;

// Puts libnccl.so.2 in the place of NVIDIA's on one host.
// `libraries` is where the driver's are: programs that look along LD_LIBRARY_PATH find it there,
// also where NVIDIA's is not installed.
void AddNccl(NcclRuntime* nccl, int number, const std::string& libraries, EmulatedHost* host) {
  const auto find = [host, number](const uint8_t* uuid) -> std::optional<GpuPlace> {
    const Gpu* gpu = host->machine().GpuByUuid(uuid);
    if (gpu == nullptr) return std::nullopt;
    return GpuPlace{number, gpu->index};
  };
  host->files().AddDevice(nccl::kDevice, kMiscMajor, kNcclMinor,
                          [nccl, find](pid_t) { return std::make_shared<NcclDevice>(nccl, find); });
  const std::string library(nccl::NcclLibrary());
  host->files().ReplaceLibrary("libnccl.so.2", library);
  host->files().AddText(absl::StrCat(libraries, "/libnccl.so.2"), library);
}

std::optional<StepTables::Described> DescribeOperation(NcclRuntime& nccl, uint64_t shared) {
  const NcclRuntime::Pending pending = nccl.PendingOf(shared);
  if (pending.communicator == nullptr) return std::nullopt;
  const Communicator& communicator = *pending.communicator;
  return StepTables::Described{{communicator.number, communicator.places, communicator.settings},
                               pending.rank,
                               {pending.entries.begin(), pending.entries.end()}};
}

InternalKernels LoadInternalKernels(const RunPlan& plan) {
  auto kernels = InternalKernels::Load(plan.driver.libcuda, plan.profile.sm_architecture(),
                                       GraphNodeBytes(plan.driver.version.abi));
  if (kernels.ok()) return *std::move(kernels);
  LogWarning(absl::StrCat("device-to-device copies and memsets will not be carried out: ",
                          std::string(kernels.status().message())));
  return InternalKernels();
}

std::string KernelCache() {
  const std::string cache = UserCache();
  return cache.empty() ? "" : cache + "/kernels";
}

// In bytes. The contexts of other ranks take some of what is free now, and so do kernels' own local
// memory and their code.
uint64_t ExecutorMemory(const RemoteGpu& gpu, const SessionOptions& session) {
  if (session.executor_memory > 0) return session.executor_memory;
  return gpu.free_bytes() / 10 * 8;
}

// By a signal that the serving thread has not taken yet: it may be waiting for the machine's lock.
bool EndIsAskedFor() {
  sigset_t pending;
  sigemptyset(&pending);
  sigpending(&pending);
  return std::ranges::any_of(std::array{SIGINT, SIGTERM, SIGHUP, SIGQUIT},
                             [&](int signal) { return sigismember(&pending, signal) == 1; });
}

}  // namespace

struct EmulatedCluster::Parts {
  std::unique_ptr<Unknowns> unknowns;
  std::unique_ptr<KernelPricer> model;
  std::unique_ptr<ClusterFabric> fabric;
};

absl::StatusOr<EmulatedCluster::Parts> EmulatedCluster::MakeParts(const Options& options,
                                                                  Unknowns* unknowns) {
  const SessionOptions& session = *options.session;
  const GpuProfile& profile = options.plan->profile;
  const auto own_rows = ReadRows(session.missing, profile.name);
  if (!own_rows.ok()) return own_rows.status();
  auto model = KernelPricer::Create(profile, {.rows = session.measured_rows, .own_rows = *own_rows},
                                    unknowns);
  if (!model.ok()) return model.status();
  auto fabric = ClusterFabric::Create(options.plan->cluster);
  if (!fabric.ok()) return fabric.status();
  return Parts{nullptr, *std::move(model), *std::move(fabric)};
}

absl::StatusOr<std::unique_ptr<EmulatedCluster>> EmulatedCluster::Create(const Options& options) {
  auto unknowns = std::make_unique<Unknowns>();
  auto parts = MakeParts(options, unknowns.get());
  if (!parts.ok()) return parts.status();
  parts->unknowns = std::move(unknowns);
  return std::unique_ptr<EmulatedCluster>(new EmulatedCluster(options, *std::move(parts)));
}

EmulatedCluster::EmulatedCluster(const Options& options, Parts parts)
    : options_(options),
      unknowns_(std::move(parts.unknowns)),
      pages_(
          std::make_shared<PageStore>(std::max(Proc::Host().MachineMemory().total, kLeastMemory))),
      events_(&time_, simulated() && options.session->host_time.repeats()),
      internal_kernels_(LoadInternalKernels(*options.plan)),
      fixed_pricer_(VirtualSpan::Microseconds(options.session->kernel_microseconds.value_or(0))),
      model_(std::move(parts.model)),
      services_{&time_,
                &events_,
                &fixed_pricer_,
                &internal_kernels_,
                options.outputs->calls.get(),
                unknowns_.get(),
                {}},
      timelines_(&services_),
      recorder_(
          {.start = ProcessClocks::Start(), .now = options.now, .launcher_rank = LauncherRank}),
      trace_(options.outputs->trace.get()),
      scheduler_(&machine_lock_, &services_,
                 [this] {
                   LookForEqualPages();
                   return events_.Drain();
                 }),
      library_({options.plan->profile.sm_architecture(), KernelCache(),
                options.session->missing.wanted() || options.executor != nullptr},
               unknowns_.get()),
      namer_(&library_, ParametersAt(options.plan->profile.sm_architecture()), unknowns_.get()),
      fabric_(std::move(parts.fabric)),
      planner_(fabric_.get(), model_->memory_bytes_per_s(), options.nccl_failed) {
  pages_->set_compares(options.session->check_gpu_memory);
  recorder_.SetTrace(std::move(options.outputs->trace));
  if (simulated()) {
    if (!options.session->kernel_microseconds) services_.pricer = model_.get();
    services_.observer = &recorder_;
    services_.namer = &namer_;
    if (const auto& most = options.session->execute;
        most.value_or(1) > 0 && KernelExecution::IsPossible()) {
      KernelExecution::Budget budget = KernelExecution::kUnlimited;
      if (most == SessionOptions::kSmallExecution) {
        budget = {.per_launch = SessionOptions::kSmallExecution};
        budget.ShareBy(options.plan->processes());
      } else if (most) {
        budget.per_launch = static_cast<uint64_t>(*most);
      }
      execution_ =
          std::make_unique<KernelExecution>(options.plan->profile.sm_architecture(), budget,
                                            options.session->skipped, pages_, &EndIsAskedFor);
      if (options.executor != nullptr) {
        execution_->UseGpu(std::make_unique<RealExecution>(
            options.executor, ExecutorMemory(*options.executor, *options.session), pages_));
      }
      if (options.session->routing) execution_->UseRouting(*options.session->routing);
      // What may take as long as it likes need not have the GPU's own bits.
      if (!most) {
        std::string why;
        if (auto blas = Blas::Load(why)) {
          execution_->UseLibrary(std::move(blas));
        } else {
          LogWarning(absl::StrCat("products of matrices are computed by their own code, slowly: ",
                                  why, " (Debian's libopenblas0-pthread has it)"));
        }
      }
      services_.execution = execution_.get();
    }
    scheduler_.Simulate(&timelines_);
    links_ = std::make_unique<LinkStatistics>(fabric_.get(), ProcessClocks::Start());
  } else if (fabric_->events().ahead() > 0) {
    LogWarning("nothing happens to the cluster's network: its events are in simulated time");
  }
  services_.kernel_log = options.outputs->kernels.get();
  services_.missing = options.outputs->missing.get();
  fabric_->events().SetStart(ProcessClocks::Start());
  if (options.session->check_memory) {
    check_ = std::make_unique<MemoryCheck>(MemoryCheck::Options{
        .name = &NameOfProcess,
        .each_space =
            [this](pid_t process, const std::function<void(AddressSpace&)>& use) {
              for (const auto& host : hosts_) host->resource_manager().EachSpace(process, use);
            },
        .tell = [](const std::string& what) { LogWarning(absl::StrCat("check memory: ", what)); }});
    services_.check = check_.get();
  }
  MakeNccl();
  for (int host = 0; host < options.plan->hosts(); ++host) MakeHost(host);
}

void EmulatedCluster::MakeNccl() {
  const SessionOptions& session = *options_.session;
  std::optional<NcclRuntime::Options::Native> native;
  // Its kernels are known by their names, which they have in simulated time only. Programs that
  // NCCL is linked into have it whatever --nccl says.
  if (simulated()) {
    native = {.chosen = session.native_nccl,
              .architecture = options_.plan->profile.sm_architecture(),
              .place = [this](pid_t process, int gpu) -> std::optional<GpuPlace> {
                const auto it = host_of_.find(process);
                if (it == host_of_.end()) return std::nullopt;
                return GpuPlace{it->second, gpu};
              }};
  }
  nccl_ = std::make_unique<NcclRuntime>(
      NcclRuntime::Options{.network = &fabric_->network(),
                           .planner = &planner_,
                           .largest_reduction = static_cast<uint64_t>(session.largest_reduction),
                           .knows_taint =
                               [this, &session](pid_t process) {
                                 return session.reduces_what_is_real && execution_ != nullptr &&
                                        execution_->KnowsTaint(process);
                               },
                           .unknowns = unknowns_.get(),
                           .timed = simulated(),
                           .events = simulated() ? &fabric_->events() : nullptr,
                           .failed = options_.nccl_failed,
                           .ended = [this](const auto& ended) { nccl_statistics_.Add(ended); },
                           .native = native});
  services_.shared = nccl_.get();
  if (session.record_step.empty()) return;
  step_recorder_ = std::make_unique<StepRecorder>(StepRecorder::Options{
      .start = ProcessClocks::Start(),
      .describe = [this](uint64_t shared) { return DescribeOperation(*nccl_, shared); }});
  services_.order = step_recorder_.get();
}

void EmulatedCluster::MakeHost(int number) {
  const RunPlan& plan = *options_.plan;
  hosts_.push_back(std::make_unique<EmulatedHost>(
      Machine{.profile = plan.profile,
              .driver = plan.driver.version,
              .gpus = Machine::MakeGpus(plan.profile, plan.gpus_per_host(), number),
              .events = &events_,
              .scheduler = &scheduler_,
              .services = &services_,
              .log = options_.outputs->calls.get(),
              .unknowns = unknowns_.get(),
              .quiet = &quiet_,
              .pages = pages_,
              .memory_observer = simulated() ? &recorder_ : nullptr},
      [this, number](pid_t process) {
        if (simulated()) namer_.Prepare(process);
        host_of_[process] = number;
      }));
  EmulatedHost& host = *hosts_.back();
  if (!options_.session->native_nccl) {
    AddNccl(nccl_.get(), number, plan.driver.library_directory, &host);
  }
  if (check_ != nullptr) {
    host.files().AddDevice(check::kDevice, kMiscMajor, kCheckMinor,
                           [this](pid_t) { return std::make_shared<CheckDevice>(check_.get()); });
    host.files().AddText(plan.CheckLibrary(), std::string(check::CheckLibrary()));
  }
  if (!plan.job) return;
  AddHostFiles(*plan.job, number, &host.files());
  VirtualHost& view = host.view();
  view.name = plan.job->hosts[static_cast<size_t>(number)];
  inet_pton(AF_INET, plan.job->addresses[static_cast<size_t>(number)].c_str(), &view.address);
  view.cores = plan.cluster.host.cores;
  view.memory_bytes = static_cast<uint64_t>(plan.cluster.host.memory_gib) << 30;
}

void EmulatedCluster::LookForEqualPages() {
  const VirtualTime now = time_.Now();
  if (now < next_look_) return;
  next_look_ = now + kLookEvery;
  equal_pages_.Step(pages_->IsTight() ? kPagesWhenTight : kPagesPerLook);
}

void EmulatedCluster::AddMemory(MemoryUse* use) {
  uint64_t held;
  {
    const std::lock_guard lock(machine_lock_);
    held = pages_->held();
    use->gpu_pages = pages_->used();
    use->gpu_unshared = pages_->used_unshared();
    use->gpu_allocated = pages_->allocated();
  }
  use->files = OwnedMemory::ResidentBytes();
  const uint64_t own = OwnBytes(Proc::Host(), getpid());
  use->emulator = own - std::min(own, held);
}

void EmulatedCluster::ProcessDied(pid_t process) {
  for (const auto& host : hosts_) host->resource_manager().ProcessDied(process);
  nccl_->ProcessDied(process);
  timelines_.ProcessDied(process);
  namer_.ProcessDied(process);
  if (execution_ != nullptr) execution_->ProcessDied(process);
  if (check_ != nullptr) check_->ProcessDied(process);
  host_of_.erase(process);
  if (step_recorder_ != nullptr) step_recorder_->ProcessDied(process);
}

void EmulatedCluster::Waited(pid_t process, VirtualTime since, VirtualTime until) {
  recorder_.Wait(process, since, until);
  if (step_recorder_ != nullptr) step_recorder_->Waited(process, since, until);
}

std::vector<VirtualHost> EmulatedCluster::Views() const {
  std::vector<VirtualHost> views;
  for (const auto& host : hosts_) views.push_back(host->view());
  return views;
}

uint64_t EmulatedCluster::Progress() {
  std::lock_guard lock(machine_lock_);
  return services_.counters.kernels + services_.counters.copies + nccl_->world().completed();
}

std::string EmulatedCluster::DescribeWaiting(VirtualTime since) {
  std::lock_guard lock(machine_lock_);
  return nccl_->DescribeWaiting(since) + nccl_->world().communicators().DescribeWaiting();
}

}  // namespace phantora
