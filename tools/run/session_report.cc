#include "tools/run/session_report.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "profiles/gpu/work_price.h"
#include "tools/observe/run_report.h"
#include "tools/observe/run_summary.h"
#include "tools/observe/served_requests.h"
#include "tools/replay/step_record.h"
#include "trap/log.h"

namespace phantora {
namespace {

// Less of this machine's memory is not worth a line.
constexpr uint64_t kMuchMemory = uint64_t{1} << 30;
// Lines of kernels and of NCCL's operations, in short and at length.
constexpr size_t kFewKernels = 3, kManyKernels = 10, kFewRefusals = 3, kFewOperations = 4,
                 kManyOperations = 20;

// What was written; without a path, nothing was to be said of it.
void Tell(const absl::Status& written, const std::string& path) {
  if (!written.ok()) {
    LogWarning(std::string(written.message()));
  } else if (!path.empty()) {
    LogSummary(absl::StrCat("wrote ", path));
  }
}

}  // namespace

void SessionReport::WriteAll() {
  WriteKernels();
  TellReductions();
  TellNetwork();
  TellMemory();
  WriteStep();
  TellUnknowns();
  TellTime();
  WriteReport();
  if (from_.options->verbose) TellCounters();
}

void SessionReport::WriteKernels() {
  if (from_.outputs->kernels != nullptr) {
    Tell(from_.outputs->kernels->Close(), from_.options->log_kernels);
  }
  if (from_.outputs->missing != nullptr) {
    CloseMissing(from_.options->missing, from_.plan->profile, *from_.outputs->missing,
                 from_.profiler);
  }
}

void SessionReport::TellReductions() {
  const uint64_t uncomputed = from_.cluster->nccl().uncomputed_reductions();
  if (uncomputed == 0) return;
  LogWarning(absl::StrFormat(
      "%d NCCL reductions of more than %d bytes were not computed: ranks got what rank 0 "
      "contributed (--nccl-reduce)",
      uncomputed, from_.options->largest_reduction));
}

void SessionReport::TellNetwork() {
  LinkStatistics* links = from_.cluster->links();
  if (links == nullptr) return;
  const NetworkEvents& events = from_.cluster->fabric().events();
  for (const std::string& line : events.happened()) LogSummary(absl::StrCat("  network: ", line));
  const NcclWorld& world = from_.cluster->nccl().world();
  if (world.rerouted() > 0) {
    LogSummary(absl::StrFormat("  network: operations under way took another way %d times",
                               world.rerouted()));
  }
  if (events.ahead() > 0) {
    LogWarning(absl::StrFormat("the run was over before %d of the cluster's network events",
                               events.ahead()));
  }
  links->Finish(world.now());
  if (const std::string line = links->Line(); !line.empty()) LogSummary(line);
  if (from_.cluster->trace() != nullptr) links->Trace(from_.cluster->trace());
}

void SessionReport::TellMemory() {
  const MemoryUse use = from_.memory->peak();
  const std::string line = absl::StrCat("this machine's memory, at most ", Describe(use, nullptr));
  if (use.total() >= kMuchMemory) {
    LogSummary(absl::StrCat("  ", line));
  } else {
    LogInfo(line);
  }
  if (from_.outputs->report != nullptr) {
    const std::string& directory = from_.options->report;
    const PageStore& pages = from_.cluster->pages();
    Tell(from_.outputs->report->WriteHost({{"schema", "phantora host"},
                                           {"schema_version", 1},
                                           {"memory_at_most", Json(use)},
                                           {"gpus_at_most", pages.peak_used()},
                                           {"gpus_allocated_at_most", pages.peak_allocated()}}),
         absl::StrCat(directory, "/host.json"));
  }
  if (from_.sharing == nullptr || !from_.options->verbose) return;
  if (const std::string text = from_.sharing->Describe(); !text.empty()) LogInfo(text);
}

void SessionReport::WriteStep() {
  StepRecorder* recorder = from_.cluster->step_recorder();
  if (recorder == nullptr) return;
  // Completes what the recorder does not know.
  const auto ranks = from_.cluster->recorder().ranks();
  StepRecord record = recorder->Take([&ranks](pid_t process) {
    int64_t most = 0;
    for (const RunRecorder::Rank* rank : ranks) {
      if (rank->process == process) most = std::max(most, rank->statistics.peak_memory());
    }
    return most;
  });
  const Cluster& cluster = from_.plan->cluster;
  record.cluster = cluster.name;
  record.gpu = cluster.host.gpu;
  record.hosts = cluster.hosts;
  record.gpus = from_.options->job.ranks_per_host > 0 ? from_.options->job.ranks_per_host
                                                      : from_.plan->gpus_per_host();
  record.sms = static_cast<uint32_t>(from_.plan->profile.sms());
  record.memory_bytes_per_s = from_.cluster->model().memory_bytes_per_s();
  const std::string& file = from_.options->record_step;
  if (record.ranks.empty()) {
    LogWarning(absl::StrCat(
        file, " has nothing to replay: no process took part in NCCL operations with one GPU"));
  }
  const bool truncated = std::any_of(record.roles.begin(), record.roles.end(),
                                     [](const auto& role) { return role.truncated; });
  if (truncated) {
    LogWarning(absl::StrFormat(
        "%s has the first %d kernels, copies, NCCL operations and waits of all ranks only", file,
        StepRecord::kMostNodes));
  }
  Tell(WriteStepRecord(record, file), file);
}

void SessionReport::TellUnknowns() {
  const std::string unknown = from_.cluster->unknowns().Report();
  if (unknown.empty()) return;
  LogWarning(absl::StrCat(
      "the run met things that are not emulated; check before trusting its results:\n", unknown));
}

void SessionReport::TellTime() {
  const GpuServices& services = from_.cluster->services();
  const auto& work = services.counters;
  if (const SimulatedTime* time = from_.supervisor->time()) {
    RunRecorder& recorder = from_.cluster->recorder();
    for (const auto& rank : time->clocks().ranks()) {
      recorder.End(rank.process, rank.elapsed, rank.waited);
    }
    TellSummary();
    const size_t most = from_.options->verbose ? kManyOperations : kFewOperations;
    for (const std::string& line : from_.cluster->nccl_statistics().Lines(most)) LogSummary(line);
    Tell(recorder.Close(), from_.options->trace);
  } else if (const uint64_t skipped = work.kernels - work.internal_kernels; skipped > 0) {
    LogWarning(absl::StrFormat(
        "%d kernels were not executed and took %g us each; time is real time (see "
        "docs/LIMITATIONS.md)",
        skipped, static_cast<double>(from_.options->kernel_microseconds.value_or(0))));
  }
}

std::string SessionReport::ExecutedKernels() const {
  const KernelExecution* const execution = from_.cluster->execution();
  if (execution == nullptr) {
    return KernelExecution::IsPossible() ? "kernels were not executed"
                                         : "kernels were not executed (this processor lacks what "
                                           "that needs: AVX2, FMA, F16C, BMI2)";
  }
  const KernelExecution::Counters& counters = execution->counters();
  std::string text =
      absl::StrFormat("%d kernels were executed (%.3g instructions of threads)", counters.executed,
                      static_cast<double>(counters.thread_instructions));
  if (const RealExecution* real = execution->real()) {
    const RealMemory::Counters& memory = real->memory();
    absl::StrAppendFormat(&text,
                          ", %d of them by the %s here (%d MiB of its memory at most; %.1f GB went "
                          "there, %.1f GB came back, "
                          "%d times a context had to wait for its turn)",
                          counters.by_gpu, real->gpu_name(),
                          memory.most_pieces * (RemoteSpace::kPiece >> 20),
                          static_cast<double>(memory.put) * 1e-9,
                          static_cast<double>(memory.got) * 1e-9, memory.turns);
  }
  if (const ProductLibrary* library = execution->library()) {
    const ProductLibrary::Counters& by_library = library->counters();
    absl::StrAppendFormat(&text, ", %d of them products by OpenBLAS (%.3g FLOP)", by_library.done,
                          by_library.flops);
  }
  if (const ExpertRouting* routing = execution->routing()) {
    absl::StrAppend(&text, ", ", routing->prepared(),
                    " times experts were chosen as --routing says");
  }
  if (counters.skipped() == 0) return text;
  absl::StrAppend(&text, ", ", counters.skipped(), " were not:");
  const std::pair<uint64_t, const char*> reasons[] = {
      {counters.too_long, "more than --execute allows for one"},
      {counters.over_budget, "more than it allows for a process"},
      {counters.refused, "not of a kind that can be"},
      {counters.failed, "would have failed on results that are not there"}};
  const char* separator = " ";
  for (const auto& [count, reason] : reasons) {
    if (count == 0) continue;
    absl::StrAppend(&text, separator, count, " ", reason);
    separator = ", ";
  }
  if (counters.tried > 0) {
    absl::StrAppendFormat(&text, "; %.3g more to find out what those write",
                          static_cast<double>(counters.tried));
  }
  if (counters.unknown_outputs > 0) {
    absl::StrAppendFormat(&text, "; of %d nobody knows what they write", counters.unknown_outputs);
  }
  if (counters.doubtful_reads > 0) {
    absl::StrAppendFormat(&text, "; %d copies to hosts, of %d bytes, depend on those",
                          counters.doubtful_reads, counters.doubtful_bytes);
  }
  return text;
}

void SessionReport::TellWhetherItRepeats() {
  const ThreadGate* const threads = from_.supervisor->threads();
  if (threads == nullptr) return;
  const ThreadGate::Counters& counters = threads->counters();
  if (counters.slept + counters.ran_long + counters.not_born + counters.stopped == 0) return;
  LogWarning(absl::StrFormat(
      "threads of one process ran beside each other: %d times one slept in a system call that is "
      "not simulated, %d times one ran for long without any, %d new ones made none, %d were "
      "stopped "
      "by a debugger; in another run times may differ by microseconds",
      counters.slept, counters.ran_long, counters.not_born, counters.stopped));
}

StepView::Terms SessionReport::StepTerms() const {
  StepView::Terms terms = {.tokens = from_.options->step_tokens};
  const auto rates = FindGpuRates(from_.plan->profile.name);
  if (rates.ok()) {
    terms.peak_flops_per_s = rates->peak_flops_per_s[static_cast<size_t>(MathPrecision::kBf16)];
  }
  return terms;
}

void SessionReport::TellSummary() {
  const SessionOptions& options = *from_.options;
  TellWhetherItRepeats();
  if (LearnedHostTime* learned = from_.outputs->host_time.get()) {
    Tell(learned->Close(), options.host_profile);
    LogSummary(absl::StrCat("  ", learned->Line()));
  }
  const GpuServices& services = from_.cluster->services();
  const size_t largest = options.verbose || !options.report.empty() ? kManyKernels : kFewKernels;
  const auto lines = Summary(from_.cluster->recorder(), largest, StepTerms());
  for (const std::string& line : lines) LogSummary(line);
  if (!lines.empty()) {
    LogWarning(absl::StrCat(ExecutedKernels(), "; times come from ", services.pricer->Source(),
                            " (see docs/LIMITATIONS.md)"));
    if (const KernelExecution* execution = from_.cluster->execution()) {
      for (const std::string& line :
           execution->Refusals(options.verbose ? kManyKernels : kFewRefusals)) {
        LogWarning(absl::StrCat("not executed: ", line));
      }
      for (const std::string& line :
           execution->NotByGpu(options.verbose ? kManyKernels : kFewRefusals)) {
        LogWarning(absl::StrCat("not by the GPU here: ", line));
      }
      for (const std::string& line : execution->NotByLibrary(options.verbose ? kManyKernels : 0)) {
        LogInfo(absl::StrCat("not by OpenBLAS: ", line));
      }
      for (const std::string& line : execution->Longest(options.verbose ? kManyKernels : 0)) {
        LogInfo(absl::StrCat("executed: ", line));
      }
    }
  }
  if (MemoryCheck* const check = from_.cluster->check()) {
    check->End();
    for (const std::string& line : check->Summary(largest)) {
      LogSummary(absl::StrCat("check memory: ", line));
    }
  }
  if (!options.verbose) return;
  if (const std::string quiet = from_.cluster->quiet().Report(); !quiet.empty()) {
    LogInfo(absl::StrCat("calls that succeeded without anything being done:\n",
                         absl::StripSuffix(quiet, "\n")));
  }
  const auto& counters = from_.supervisor->time()->counters();
  LogInfo(
      absl::StrFormat("%d clock reads, %d held calls (%d waits for GPUs), %d jumps, %d looks "
                      "at all threads, %d nudges",
                      counters.clock_reads, counters.waits, counters.gpu_waits, counters.jumps,
                      counters.scans, counters.nudges));
}

void SessionReport::WriteReport() {
  if (from_.outputs->report == nullptr) return;
  const SessionOptions& options = *from_.options;
  auto content = BuildReport({.command = options.command,
                              .gpu = from_.plan->profile.name,
                              .product = from_.plan->profile.product,
                              .gpus = from_.plan->hosts() * from_.plan->gpus_per_host(),
                              .driver = from_.plan->driver.version.text,
                              .host_time = HostTimeModeName(options.host_time.mode),
                              .host_scale = options.host_time.scale,
                              .price_source = from_.cluster->services().pricer->Source(),
                              .unknowns = from_.cluster->unknowns().Report(),
                              .steps = StepTerms()},
                             from_.cluster->recorder());
  content["nccl"] = from_.cluster->nccl_statistics().Json();
  if (from_.cluster->links() != nullptr) content["links"] = from_.cluster->links()->Json();
  if (auto requests = ReadServedRequests(options.report); !requests.ok()) {
    LogWarning(
        absl::StrCat("the report is without requests: ", std::string(requests.status().message())));
  } else if (requests->has_value()) {
    content["requests"] = **std::move(requests);
  }
  Tell(from_.outputs->report->Write(content), absl::StrCat(options.report, "/report.html"));
}

void SessionReport::TellCounters() {
  const SupervisorCounters& counters = from_.supervisor->counters();
  const GpuCounters& work = from_.cluster->services().counters;
  LogInfo(
      absl::StrFormat("%d trapped calls, %d of them to the driver; %d kernels (%d libcuda's "
                      "own), %d copies, %.1f MB moved, %d faults",
                      counters.traps, counters.ioctls, work.kernels, work.internal_kernels,
                      work.copies, static_cast<double>(work.copied_bytes) / 1e6, work.faults));
  const auto& hosts = from_.cluster->hosts();
  for (size_t host = 0; host < hosts.size(); ++host) {
    for (const Gpu& gpu : hosts[host]->machine().gpus) {
      if (gpu.heap->peak() == 0) continue;
      LogInfo(absl::StrFormat("%sGPU %d: peak memory %.1f MiB",
                              hosts.size() > 1 ? absl::StrCat("host ", host, " ") : "", gpu.index,
                              static_cast<double>(gpu.heap->peak()) / 1048576.0));
    }
  }
}

}  // namespace phantora
