#include "trap/time/spin_loops.h"

#include <algorithm>
#include <utility>

namespace phantora {
namespace {

// Threads that have ended in a loop are forgotten with the others.
constexpr size_t kMostLoops = 1 << 16;
// In one turn; more are not told apart.
constexpr int kMostReads = 1000;

}  // namespace

int64_t SpinLoops::TakeSpent(Loop& loop, int64_t processor_time) {
  const int64_t before = std::exchange(loop.processor_time, processor_time);
  if (before < 0) return 0;
  const int64_t spent = processor_time - before;
  if (spent <= kLongestTurnNs) return std::max<int64_t>(spent, 0);
  if (std::exchange(loop.is_long, true)) return -1;  // twice in one turn: clocks are read at work
  return loop.looks > kFreeLooks && loop.long_turns + 1 < kLongTurns ? 0 : -1;
}

SpinLoops::Turn SpinLoops::LooksInVain(pid_t process, pid_t thread, Look look,
                                       ProcessorTime processor_time) {
  if (loops_.size() >= kMostLoops) loops_.clear();
  Loop& loop = loops_[thread];
  Turn turn;
  if (loop.looks > 0) turn.spent = TakeSpent(loop, processor_time());
  loop.long_turns = std::exchange(loop.is_long, false) ? loop.long_turns + 1 : 0;
  if (loop.looks == 0 || turn.spent < 0) {
    loop = {.process = process, .since = look.now, .processor_time = loop.processor_time};
    turn.spent = 0;
  }
  turn.spins = ++loop.looks > kFreeLooks;
  turn.begins_to = loop.looks == kFreeLooks + 1;
  if (const int reads = std::exchange(loop.reads, 0); loop.looks > 1) {
    const bool is_usual = reads == loop.last_reads || reads == loop.reads_before;
    if (look.was_let && loop.reads_before >= 0 && !is_usual) {
      loop.since = look.now;
      turn.begins_to = turn.spins;
    }
    loop.reads_before = std::exchange(loop.last_reads, reads);
  }
  const VirtualTime since = look.whole_wait ? loop.since : std::max(loop.since, last_stop_);
  const VirtualSpan passed = look.now > since ? look.now - since : VirtualSpan();
  turn.step = std::clamp(VirtualSpan::Picoseconds(passed.picoseconds() / kStepsOfLoop),
                         kShortestStep, kLongestStep);
  return turn;
}

bool SpinLoops::Spins(pid_t thread) const {
  const auto loop = loops_.find(thread);
  return loop != loops_.end() && loop->second.looks > kFreeLooks;
}

int64_t SpinLoops::ReadsClock(pid_t thread, ProcessorTime processor_time) {
  const auto loop = loops_.find(thread);
  if (loop == loops_.end()) return 0;
  loop->second.reads = std::min(loop->second.reads + 1, kMostReads);
  const int64_t spent = TakeSpent(loop->second, processor_time());
  if (spent >= 0) return spent;
  loops_.erase(loop);
  return 0;
}

void SpinLoops::ProcessDied(pid_t process) {
  absl::erase_if(loops_, [=](const auto& entry) { return entry.second.process == process; });
}

}  // namespace phantora
