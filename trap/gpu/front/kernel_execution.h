// Which launches are executed, so that their results are real, and which are only timed.
#ifndef PHANTORA_TRAP_GPU_FRONT_KERNEL_EXECUTION_H_
#define PHANTORA_TRAP_GPU_FRONT_KERNEL_EXECUTION_H_

#include <sys/types.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "trap/gpu/front/engine_object.h"
#include "trap/gpu/front/qmd.h"
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
    // Is never too much, so that programs that decide by small results always see them. Once a
    // launch of a process was skipped, what it computes is not its own any more, and this is all it
    // gets.
    uint64_t always = 100'000;

    // For a run of that many processes, which this machine's processors all compute for.
    void ShareBy(int processes) {
      at_first = std::max(at_first / static_cast<uint64_t>(std::max(processes, 1)), kLeastAtFirst);
    }
    static constexpr uint64_t kLeastAtFirst = 200'000'000;
  };
  // Everything, as long as it may take.
  static constexpr Budget kUnlimited = {100'000'000'000, 0, 0, 0};

  // `is_ending`: whether somebody wants the run to end. A kernel that is under way then is given
  // up, and none is executed from then on. May be called from any thread.
  KernelExecution(int architecture, Budget budget, std::function<bool()> is_ending);

  // Does this processor have what it takes?
  static bool IsPossible();

  struct Launch {
    const Qmd& qmd;
    // Where generic addresses of shared and local memory begin.
    uint64_t shared_window, local_window;
    uint64_t fingerprint;   // of the code's beginning
    uint32_t code_bytes;    // at the program's address; 0: nobody knows
    bool together = false;  // a cooperative launch: any block may wait for any other
    const std::string& title;
    // Does what the launch does if a rule says so and it is little, as asked when the launch is not
    // executed. Grids of a fixed size that mostly find nothing to do are cheaper that way.
    absl::FunctionRef<bool()> by_rule;
  };
  // kDone: executed or skipped; kFault: it did what ends a context.
  Progress Run(ExecutionContext& context, const Launch& launch);
  // Says, with --verbose, what was not executed for it.
  void ProcessDied(pid_t process);
  // Counts a launch that somebody else could not carry out.
  void NotExecuted(pid_t process, const std::string& title, const std::string& why);

  // Whether all kernels of the process were executed so far.
  bool IsReal(pid_t process) const {
    const auto found = processes_.find(process);
    return found != processes_.end() && found->second.skipped == 0;
  }

  // Bytes of a GPU's memory go to the host's: what the program does next may depend on them. The
  // first that come after a launch of the same process that was not executed are worth a warning.
  void ReadByHost(ExecutionContext& context, uint64_t bytes);

  struct Counters {
    uint64_t executed = 0, thread_instructions = 0;
    uint64_t too_long = 0;     // over the budget of a launch
    uint64_t over_budget = 0;  // over that of the process
    uint64_t refused = 0;      // not understood, or of a kind that is not executed
    uint64_t failed = 0;  // would have failed, of inputs that skipped launches should have made
    uint64_t doubtful_reads = 0;  // copies to the host of which ReadByHost warns
    uint64_t doubtful_bytes = 0;
    uint64_t skipped() const { return too_long + over_budget + refused + failed; }
  };
  const Counters& counters() const { return counters_; }
  // Kernels that were refused, and of each process the first that was skipped, with the first
  // reason for each and how many launches that were, the most frequent first.
  std::vector<std::string> Refusals(size_t most) const;

 private:
  struct Process {
    uint64_t credit = 0;
    uint64_t executed = 0, skipped = 0;
    std::string first;  // why the first was skipped
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

  // Until it is done, with what it calls.
  sass::Outcome Execute(ExecutionContext& context, Process& process, const sass::Launch& launch,
                        std::shared_ptr<const sass::Program>& program, uint64_t most);
  // Adds the code at `address`. False: there is none, or too much already.
  static bool Extend(ExecutionContext& context, std::shared_ptr<const sass::Program>& program,
                     uint64_t address);
  Progress Finish(ExecutionContext& context, const Launch& launch, Process& process,
                  const sass::Program& program, const sass::Outcome& outcome);
  // The launch's code, in code_. False if it cannot be read.
  bool ReadCode(ExecutionContext& context, const Launch& launch);
  // Of a launch that is not executed, unless a rule carries it out.
  void Skip(Process& process, uint64_t& counter, const Launch& launch, const std::string& why);
  void Count(Process& process, uint64_t& counter, const std::string& title, const std::string& why);

  const int architecture_;
  const Budget budget_;
  const std::function<bool()> is_ending_;
  bool was_interrupted_ = false;
  sass::ProgramCache programs_;
  sass::Executor executor_;
  absl::flat_hash_map<pid_t, Process> processes_;
  absl::flat_hash_map<Shape, uint64_t> takes_more_;  // than so many thread instructions
  std::map<std::pair<std::string, std::string>, uint64_t> refusals_;
  std::vector<uint8_t> code_;
  std::vector<uint8_t> banks_[8];
  Counters counters_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_FRONT_KERNEL_EXECUTION_H_
