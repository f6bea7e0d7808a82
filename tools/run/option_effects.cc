#include "tools/run/option_effects.h"

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "tools/run/cluster_job.h"

namespace phantora {
namespace {

constexpr char kNeedsSimulatedTime[] = "needs simulated time, which --host-time real has not";
constexpr char kNoMeasuredPrices[] =
    "has no effect with --model-only, which uses no measured prices";
constexpr char kOnePriceForAll[] =
    "has no effect with --kernel-time, which says what every kernel takes";

bool Simulated(const SessionOptions& options) { return options.simulated(); }
bool RealTime(const SessionOptions& options) { return !options.simulated(); }
bool UsesMeasuredPrices(const SessionOptions& options) { return options.measured_rows; }
bool UsesPrices(const SessionOptions& options) { return !options.kernel_microseconds; }
bool MeasuresHostTime(const SessionOptions& options) {
  return options.host_time.mode == HostTimeMode::kMeasured ||
         options.host_time.mode == HostTimeMode::kLearned;
}
bool LearnsHostTime(const SessionOptions& options) {
  return options.host_time.mode == HostTimeMode::kLearned;
}
// Asking for what is not done anyway is no mistake.
bool SimulatedOrOurNccl(const SessionOptions& options) {
  return options.simulated() || !options.native_nccl;
}
bool ExecutesOrStale(const SessionOptions& options) {
  return options.execute.value_or(1) > 0 || options.skipped == Skipped::kStale;
}
bool Executes(const SessionOptions& options) { return options.execute.value_or(1) > 0; }
bool ExecutesHere(const SessionOptions& options) {
  return options.execute.value_or(1) > 0 && !options.execute_on_gpu;
}
bool ExecutesOnGpu(const SessionOptions& options) { return options.execute_on_gpu; }
bool SimulatedOrNotShared(const SessionOptions& options) {
  return options.simulated() || !options.share_memory.value_or(false);
}

// Variables of Open MPI are those of a rank.
bool RanksForOpenMpi(const SessionOptions& options) {
  const std::vector<std::string> kinds = absl::StrSplit(options.job.variables, ',');
  bool wanted = false;
  for (const std::string& kind : kinds) wanted = wanted || kind == "ompi";
  const Started started = options.job.started;
  return !wanted || started == Started::kPerRank ||
         (started == Started::kAuto && !IsLauncher(options.command));
}

constexpr OptionEffect kEffects[] = {
    {"--trace", Simulated, kNeedsSimulatedTime},
    {"--report", Simulated, kNeedsSimulatedTime},
    {"--out", Simulated, kNeedsSimulatedTime},
    {"--step-tokens", Simulated, kNeedsSimulatedTime},
    {"--record-step", Simulated, kNeedsSimulatedTime},
    {"--log-kernels", Simulated, kNeedsSimulatedTime},
    {"--execute", Simulated, kNeedsSimulatedTime},
    {"--check", Simulated, kNeedsSimulatedTime},
    {"--check", ExecutesHere,
     "looks at kernels that this machine's processor executes, which "
     "--execute off and gpu leave out"},
    {"--execute-command", ExecutesOnGpu, "is for --execute gpu"},
    {"--execute-memory", ExecutesOnGpu, "is for --execute gpu"},
    {"--skipped", Simulated, kNeedsSimulatedTime},
    {"--skipped", ExecutesOrStale, "has no effect with --execute off, which leaves what was there"},
    {"--routing", Simulated, kNeedsSimulatedTime},
    {"--routing", Executes, "has no effect with --execute off: no router chooses anything"},
    {"--missing", Simulated, kNeedsSimulatedTime},
    {"--gpu-profiler", Simulated, kNeedsSimulatedTime},
    {"--rows", Simulated, kNeedsSimulatedTime},
    {"--model-only", Simulated, kNeedsSimulatedTime},
    {"--share-memory", SimulatedOrNotShared, kNeedsSimulatedTime},
    {"--nccl", SimulatedOrOurNccl,
     "native needs simulated time, which --host-time real has not: its kernels would do nothing"},
    {"--host-scale", MeasuresHostTime,
     "scales measured time; it needs --host-time measured or learned"},
    {"--host-profile", LearnsHostTime, "needs --host-time learned, which it stands for by itself"},
    {"--nice", RealTime,
     "is for processes that wait by spinning, as they do with --host-time real only"},
    {"--rows", UsesMeasuredPrices, kNoMeasuredPrices},
    {"--gpu-profiler", UsesMeasuredPrices, kNoMeasuredPrices},
    {"--rows", UsesPrices, kOnePriceForAll},
    {"--model-only", UsesPrices, kOnePriceForAll},
    {"--gpu-profiler", UsesPrices, kOnePriceForAll},
    {"--rank-env", RanksForOpenMpi,
     "ompi says which rank a process is; it has no effect where the command starts the ranks"},
};

}  // namespace

absl::Span<const OptionEffect> OptionEffects() { return kEffects; }

}  // namespace phantora
