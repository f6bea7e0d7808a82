// Gathers what a run did in simulated time: statistics of every rank, and a timeline.
#ifndef PHANTORA_TOOLS_OBSERVE_RUN_RECORDER_H_
#define PHANTORA_TOOLS_OBSERVE_RUN_RECORDER_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "tools/observe/rank_statistics.h"
#include "tools/observe/step_view.h"
#include "tools/observe/timeline_trace.h"
#include "tools/observe/trace_writer.h"
#include "trap/gpu/front/gpu_services.h"
#include "trap/rm/memory_observer.h"

namespace phantora {

// Called under the machine's lock.
class RunRecorder : public WorkObserver, public MemoryObserver {
 public:
  struct Options {
    VirtualTime start;  // of the run
    // The clock of a process.
    std::function<VirtualTime(pid_t process)> now;
    // The number that a launcher gave to a process, if it did.
    std::function<std::optional<int>(pid_t process)> launcher_rank;
  };

  // A process that used a GPU.
  struct Rank {
    // Unique: the launcher's, or the lowest free one in the order of first work. Process
    // ids would differ from run to run.
    int number;
    std::string name;  // "rank 3" if the launcher says so, else "process 3"
    pid_t process;
    RankStatistics statistics;
    std::unique_ptr<TimelineTrace> trace;  // may be null
    std::unique_ptr<StepView> view;        // until its end; of the first ranks only
    std::optional<StepView::Steps> steps;  // from its end on, if anything repeated
  };

  explicit RunRecorder(Options options) : options_(std::move(options)) {}

  // Writes a timeline too, from now on.
  void SetTrace(std::unique_ptr<TraceWriter> trace) { trace_ = std::move(trace); }

  void Kernel(const Work& work, const Qmd& launch, const Code& code) override;
  void Copy(const Work& work, uint64_t bytes, CopyKind kind) override;
  void VideoMemory(pid_t process, int gpu, int64_t bytes) override;
  // A thread waited for its GPUs.
  void Wait(pid_t process, VirtualTime since, VirtualTime until);
  // The process has ended, or the run has; its clock said `elapsed` since the start, of
  // which it waited `waited`. What of it comes later is ignored, unless it is work: then
  // its id stands for another process.
  void End(pid_t process, VirtualSpan elapsed, VirtualSpan waited);

  // After the last End. Completes the trace. Errors: it could not be written.
  absl::Status Close();

  // By number.
  std::vector<const Rank*> ranks() const;
  VirtualTime start() const { return options_.start; }

 private:
  Rank& Of(pid_t process);
  const std::string& NameOf(const Code& code);
  VirtualSpan SinceStart(VirtualTime time) const { return time - options_.start; }

  const Options options_;
  std::unique_ptr<TraceWriter> trace_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::set<int> numbers_;
  absl::flat_hash_map<pid_t, Rank*> alive_;
  absl::flat_hash_map<uint64_t, std::string> names_;  // by fingerprint
};

}  // namespace phantora

#endif  // PHANTORA_TOOLS_OBSERVE_RUN_RECORDER_H_
