// Threads that look for something again and again: whether another one has written to memory,
// whether bytes have come, whether it is late enough.
#ifndef PHANTORA_TRAP_TIME_SPIN_LOOPS_H_
#define PHANTORA_TRAP_TIME_SPIN_LOOPS_H_

#include <sys/types.h>

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "clock/virtual_time.h"

namespace phantora {

// A look in vain is a call that comes to nothing at once: sched_yield, a sleep or poll of no time,
// a receive that would block. Who makes several in a row, and little else, spins. Then a look is a
// wait: the thread looks again when somebody else has stopped, at that one's time, since he may
// have written what it waits for; and, because it may wait for time to pass or for one who runs on
// without a stop, by itself: after a sixteenth of what it has waited, and while others run of what
// has passed since anybody has stopped, between a microsecond and 10 ms. So it is never much later
// than who hands over to it, and what the looks themselves take is in nobody's clock. Not
// thread-safe.
class SpinLoops {
 public:
  // As many looks are taken as they come.
  static constexpr uint32_t kFreeLooks = 2;
  // Processor time between two looks, ns: more is work. (A turn of a loop in Python is some
  // microseconds, and a trapped call some more.) One such turn counts, but does not end a loop that
  // there is: an interrupt is in the processor time of whom it interrupts.
  static constexpr int64_t kLongestTurnNs = 50'000;
  static constexpr int kLongTurns = 2;  // one after the other, and the thread works
  static constexpr VirtualSpan kShortestStep = VirtualSpan::Microseconds(1);
  static constexpr VirtualSpan kLongestStep = VirtualSpan::Microseconds(10'000);
  static constexpr int64_t kStepsOfLoop = 16;

  struct Turn {
    bool spins = false, begins_to = false;  // (again, too, for something else)
    VirtualSpan step;   // of one that spins: after which it looks again by itself
    int64_t spent = 0;  // ns of its processor time since its last look, if that was for the loop
  };
  // ns that a thread has used so far. Asked for only where it is needed: it takes looks at /proc.
  using ProcessorTime = absl::FunctionRef<int64_t()>;
  struct Look {
    VirtualTime now;
    // The step is of the whole wait, even if somebody has stopped meanwhile: all others rest, or
    // are seen anyway as soon as they stop.
    bool whole_wait = false;
    // The turn before it began since somebody else had stopped: it may have found something.
    bool was_let = false;
  };
  // `thread` looks in vain.
  Turn LooksInVain(pid_t process, pid_t thread, Look look, ProcessorTime processor_time);
  // It reads a clock: on the way, if it spins. ns of its processor time that were for the loop.
  int64_t ReadsClock(pid_t thread, ProcessorTime processor_time);
  bool Spins(pid_t thread) const;

  // It does anything else.
  void GoesOn(pid_t thread) {
    if (!loops_.empty()) loops_.erase(thread);
  }
  void ProcessDied(pid_t process);
  // Somebody has stopped, who does not spin.
  void SomebodyStopped(VirtualTime at) { last_stop_ = at > last_stop_ ? at : last_stop_; }

 private:
  struct Loop {
    pid_t process = 0;
    uint32_t looks = 0;
    VirtualTime since;
    int64_t processor_time = -1;             // at its last look but the first; -1: not known
    int long_turns = 0;                      // one after the other, without this one
    bool is_long = false;                    // this one is
    int reads = 0;                           // of clocks, in this turn
    int last_reads = -1, reads_before = -1;  // in the two before; -1: not known
  };
  // What it has used for the loop since it was asked last; -1: it has worked, and the loop is over.
  static int64_t TakeSpent(Loop& loop, int64_t processor_time);

  absl::flat_hash_map<pid_t, Loop> loops_;  // by thread
  VirtualTime last_stop_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_TIME_SPIN_LOOPS_H_
