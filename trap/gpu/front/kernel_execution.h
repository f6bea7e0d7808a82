// Which launches are executed, so that their results are real, and which are only timed.
#ifndef PHANTORA_TRAP_GPU_FRONT_KERNEL_EXECUTION_H_
#define PHANTORA_TRAP_GPU_FRONT_KERNEL_EXECUTION_H_

#include <sys/types.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "trap/gpu/front/engine_object.h"
#include "trap/gpu/front/expert_routing.h"
#include "trap/gpu/front/launch_reader.h"
#include "trap/gpu/front/output_finder.h"
#include "trap/gpu/front/skipped_outputs.h"
#include "trap/gpu/products/product_library.h"
#include "trap/gpu/real/real_execution.h"
#include "trap/gpu/sass/execute.h"

namespace phantora {

// Budgets are of instructions of threads, not of seconds, so that what is executed repeats. A
// launch takes effect whole or not at all: what one writes that is given up nobody sees.
class KernelExecution {
 public:
  struct Budget {
    // Of one launch; more expensive ones are skipped. About 10^9 take a second.
    uint64_t per_launch = 50'000'000;
    // A process begins with `at_first` and gets `per_launch_on_average` more by every launch. 0: as
    // much as it wants.
    uint64_t at_first = 20'000'000'000;
    uint64_t per_launch_on_average = 4'000'000;
    // Once a launch of it was skipped, most of its results are not there, and it has no more than
    // this, and gets so much.
    uint64_t skipping_at_first = 1'000'000'000, skipping_per_launch = 5'000;
    // Is never too much, so that programs that decide by small results always see them. A launch
    // that depends on what another should have made that was skipped gets no more than that, and
    // is only sure of less.
    uint64_t always = 100'000, always_tainted = 10'000;
    // Of a launch that somebody has asked for (UseRouting).
    uint64_t wanted = 1'000'000'000;
    // To find out what launches write that are skipped: of one, and of a process, which gets
    // `try_per_launch` more by every launch.
    OutputFinder::Most try_most = {};
    uint64_t try_at_first = 4'000'000'000, try_per_launch = 10'000;

    // For a run of that many processes, which this machine's processors all compute for.
    void ShareBy(int processes) {
      for (uint64_t* each : {&at_first, &skipping_at_first, &try_at_first}) {
        *each = std::max(*each / static_cast<uint64_t>(std::max(processes, 1)), kLeastAtFirst);
      }
    }
    static constexpr uint64_t kLeastAtFirst = 200'000'000;
  };
  // Everything, as long as it may take.
  static const Budget kUnlimited;

  // `is_ending`: whether somebody wants the run to end. A kernel that is under way then is given
  // up, and none is executed from then on. May be called from any thread.
  // `store`: of the GPUs' memory.
  KernelExecution(int architecture, Budget budget, Skipped skipped,
                  std::shared_ptr<PageStore> store, std::function<bool()> is_ending);

  // From now on a real GPU executes what it can; the processor does the rest, within its budget.
  void UseGpu(std::unique_ptr<RealExecution> real) { real_ = std::move(real); }
  const RealExecution* real() const { return real_.get(); }

  // From now on a library computes products that it can.
  void UseLibrary(std::unique_ptr<Blas> blas) {
    library_ =
        std::make_unique<ProductLibrary>(std::move(blas), sass::Workers::Processors(), is_ending_);
  }
  const ProductLibrary* library() const { return library_.get(); }

  // From now on routers choose experts by these weights. What routes is executed whatever the
  // process has left of its budget.
  void UseRouting(RoutingWeights weights) {
    routing_ = std::make_unique<ExpertRouting>(std::move(weights));
  }
  const ExpertRouting* routing() const { return routing_.get(); }

  // Does this processor have what it takes?
  static bool IsPossible();

  // kDone: executed or skipped; kFault: it did what ends a context.
  Progress Run(ExecutionContext& context, const NamedLaunch& launch);
  // Says, with --verbose, what was not executed for it.
  void ProcessDied(pid_t process);
  // Counts a launch that somebody else could not carry out.
  void NotExecuted(pid_t process, const std::string& title, const std::string& why);

  // Whether it is known of all memory of the process what skipped kernels should have made.
  bool KnowsTaint(pid_t process) const {
    const auto found = processes_.find(process);
    return found != processes_.end() && found->second.unknown == 0;
  }

  // Whether the real GPU has failed with what was there of it.
  bool IsLost(AddressSpace& memory) const { return real_ != nullptr && real_->IsLost(memory); }

  // Of a launch whose code only leads to the kernel at `kernel`: that code alone, which notes the
  // time for a profiler. Run() takes the kernel itself. The first that fails is worth a warning.
  void RunEntry(ExecutionContext& context, const NamedLaunch& entry, uint64_t kernel);

  // `lines` lines of a GPU's memory go to the host's: what the program does next may depend on
  // them. The first that are tainted are worth a warning.
  void ReadByHost(ExecutionContext& context, const Lines& from);

  struct Counters {
    uint64_t executed = 0, thread_instructions = 0;
    uint64_t by_gpu = 0;       // executed by the real one
    uint64_t too_long = 0;     // over the budget of a launch
    uint64_t over_budget = 0;  // over that of the process
    uint64_t refused = 0;      // not understood, or of a kind that is not executed
    uint64_t failed = 0;  // would have failed, of inputs that skipped launches should have made
    uint64_t unknown_outputs = 0;  // skipped, and nobody knows what they write
    uint64_t doubtful_reads = 0;   // copies to the host of which ReadByHost warns
    uint64_t doubtful_bytes = 0;
    uint64_t tried = 0;  // thread instructions, to find out what skipped launches write
    uint64_t skipped() const { return too_long + over_budget + refused + failed; }
  };
  const Counters& counters() const { return counters_; }
  // Kernels that the real GPU did not execute, by how many launches that were, with the reasons.
  std::vector<std::string> NotByGpu(size_t most) const { return LinesOf(not_by_gpu_, most); }
  // Products that a library did not compute.
  std::vector<std::string> NotByLibrary(size_t most) const {
    return LinesOf(not_by_library_, most);
  }
  // Kernels that were executed by their own code, by their thread instructions, the most first.
  std::vector<std::string> Longest(size_t most) const;
  // Kernels that were refused, and of each process the first that was skipped, with the first
  // reason for each and how many launches that were, the most frequent first.
  std::vector<std::string> Refusals(size_t most) const { return LinesOf(refusals_, most); }

 private:
  using Reasons = std::map<std::pair<std::string, std::string>, uint64_t>;  // of kernels
  static std::vector<std::string> LinesOf(const Reasons& reasons, size_t most);

  struct Process {
    uint64_t credit = 0, try_credit = 0;
    uint64_t executed = 0, skipped = 0;
    uint64_t unknown = 0;  // of those skipped: nobody knows what they write
    std::string first;     // why the first was skipped
    // Of programs that have called code which lies elsewhere: with that code.
    absl::flat_hash_map<std::shared_ptr<const sass::Program>, std::shared_ptr<const sass::Program>>
        extended;
  };
  // A kernel in a shape that has been given up once: others like it are not tried.
  struct Shape {
    uint64_t fingerprint, code_bytes, blocks, threads;
    bool operator==(const Shape&) const = default;
    template <typename H>
    friend H AbslHashValue(H h, const Shape& shape) {
      return H::combine(std::move(h), shape.fingerprint, shape.code_bytes, shape.blocks,
                        shape.threads);
    }
  };

  // Where a launch found its first tainted byte: so many bytes from the pointer at `parameter`.
  struct Meeting {
    uint32_t parameter;
    uint64_t offset;
  };

  Process& ProcessOf(pid_t process);
  // nullopt: not by the real GPU.
  std::optional<Progress> RunByGpu(ExecutionContext& context, Process& process,
                                   const NamedLaunch& launch);
  // Of a product: whether the library has done it.
  bool RunByLibrary(ExecutionContext& context, Process& process, const NamedLaunch& launch,
                    const sass::Launch& read, const sass::Program& program);
  // How many thread instructions it may take.
  uint64_t MostOf(const Process& process, sass::Tracking tracking, bool is_wanted) const;
  // By what is known before it begins.
  sass::Tracking TrackingOf(ExecutionContext& context, const Process& process,
                            const NamedLaunch& launch, const Shape& shape);
  void NoteMeeting(ExecutionContext& context, const NamedLaunch& launch, const Shape& shape,
                   uint64_t address);
  // What a skipped launch should have written becomes what Skipped says, and tainted.
  void LeaveOutputs(ExecutionContext& context, Process& process, const NamedLaunch& launch);
  // The host may see what is tainted.
  void SeenByHost(ExecutionContext& context, const Process& process, uint64_t bytes);

  // Until it is done, with what it calls.
  sass::Outcome Execute(ExecutionContext& context, Process& process, const sass::Launch& launch,
                        std::shared_ptr<const sass::Program>& program, uint64_t most);
  // Adds the code at `address`. False: there is none, or too much already.
  static bool Extend(ExecutionContext& context, std::shared_ptr<const sass::Program>& program,
                     uint64_t address);
  Progress Finish(ExecutionContext& context, const NamedLaunch& launch, Process& process,
                  const sass::Program& program, const sass::Outcome& outcome, bool is_real);
  // Of a launch that is not executed.
  void Skip(ExecutionContext& context, Process& process, uint64_t& counter,
            const NamedLaunch& launch, const std::string& why);
  void NoteUnknown(Process& process, const std::string& title);
  void Count(Process& process, uint64_t& counter, const std::string& title, const std::string& why);

  const Budget budget_;
  const std::function<bool()> is_ending_;
  bool was_interrupted_ = false;
  LaunchReader reader_;
  sass::Executor executor_;
  OutputFinder finder_;
  absl::flat_hash_map<pid_t, Process> processes_;
  absl::flat_hash_map<Shape, uint64_t> takes_more_;  // than so many thread instructions
  SkippedOutputs skipped_;
  bool any_skipped_ = false;  // in the whole run
  absl::flat_hash_map<Shape, Meeting> meetings_;
  Reasons refusals_, not_by_gpu_, not_by_library_;
  uint64_t entries_failed_ = 0;
  struct Took {
    uint64_t launches = 0, thread_instructions = 0;
  };
  absl::flat_hash_map<std::string, Took> took_;  // by title
  std::unique_ptr<RealExecution> real_;
  std::unique_ptr<ProductLibrary> library_;
  std::unique_ptr<ExpertRouting> routing_;
  Counters counters_;
};

inline constexpr KernelExecution::Budget KernelExecution::kUnlimited = {
    .per_launch = 100'000'000'000, .at_first = 0, .per_launch_on_average = 0, .always = 0};

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_FRONT_KERNEL_EXECUTION_H_
