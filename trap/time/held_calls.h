// The calls that are kept waiting: they have been received and not answered.
#ifndef PHANTORA_TRAP_TIME_HELD_CALLS_H_
#define PHANTORA_TRAP_TIME_HELD_CALLS_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "clock/virtual_time.h"
#include "trap/linux/call_arguments.h"
#include "trap/linux/remote_memory.h"
#include "trap/time/futex_queues.h"
#include "trap/time/waits/timed_wait.h"

namespace phantora {

struct HeldCall {
  pid_t process = 0, thread = 0;
  VirtualTime since = {};
  VirtualTime deadline = VirtualTime::Infinity();
  std::unique_ptr<TimedWait> wait = nullptr;
  // Of what it waits for, sockets that somebody outside of the run is to answer through, since
  // when, in real time (ns).
  std::vector<ino_t> asked = {};
  int64_t real_since = 0;
  // Without it, it waits for a GPU: for room in a queue of it, or reading this clock to there. Or
  // it is served, and its answer, a value or EAGAIN, has to wait until the others are not earlier.
  bool for_room = false, for_others = false, try_again = false;
  // It is a look of one that spins (spin_loops.h).
  bool spins = false;
  // The earliest time at which others may have written what it looks for, since it looked last.
  VirtualTime written = VirtualTime::Infinity();
  int64_t value = 0;
  int clock = 0;
  RemoteAddress clock_out{};

  // Is it let go by what its GPUs do?
  bool for_gpu() const { return wait == nullptr && !for_room && !for_others; }
};

class HeldCalls {
 public:
  using Calls = std::map<uint64_t, HeldCall>;  // by notification id
  using Polled = std::map<std::pair<pid_t, uint64_t>, Calls::iterator>;

  // `epoll` gets the descriptors that calls wait for.
  explicit HeldCalls(int epoll);

  void Add(uint64_t id, HeldCall call);
  HeldCall Take(Calls::iterator call);

  const Calls& all() const { return calls_; }
  Calls::iterator begin() { return calls_.begin(); }
  Calls::iterator end() { return calls_.end(); }
  Calls::iterator Find(uint64_t id) { return calls_.find(id); }
  bool empty() const { return calls_.empty(); }
  bool HoldsThread(pid_t thread) const { return threads_.contains(thread); }
  Calls::iterator OfThread(pid_t thread) {
    const auto id = threads_.find(thread);
    return id == threads_.end() ? calls_.end() : calls_.find(id->second);
  }
  // Calls that wait for GPUs, by process.
  const std::map<pid_t, std::set<uint64_t>>& gpu_waiters() const { return gpu_waiters_; }
  int room_waiters() const { return room_waiters_; }
  // Of those that spin.
  const std::set<uint64_t>& spinners() const { return spinners_; }
  // It ends at `deadline`, which is finite, unless it does so before.
  void EndBy(Calls::iterator call, VirtualTime deadline);

  // It has been taken, and its thread makes it again, with the deadline that it had.
  void IsMadeAgain(const HeldCall& call);
  // That deadline, if the thread has called so before.
  std::optional<VirtualTime> DeadlineOfSame(const CallArguments& call);
  // Forgets such calls.
  void ProcessDied(pid_t process);

  size_t polled() const { return polled_.size(); }
  // Of them, those whose memory other processes may change.
  size_t polled_shared() const { return polled_shared_; }
  // Calls of `process` (0: of all, one process after another) whose end is found by looking at
  // memory.
  std::pair<Polled::const_iterator, Polled::const_iterator> PolledOf(pid_t process) const;

  // Those that wait for futexes and are woken by calls that are seen.
  FutexQueues& futexes() { return futexes_; }

  // The call that waits for `descriptor`; end() for none. `known`: there was one.
  Calls::iterator Watching(int descriptor, bool* known);
  // Its descriptor is ready: nothing more is told of that, or of whether it stays so, until
  // WatchOn().
  void NoteReady(Calls::iterator call);
  void WatchOn(Calls::iterator call);
  // The earliest end; the first of equal ones. end() if no call ends by itself.
  Calls::iterator Earliest();

  // How many copies of descriptors may be made for a process; more would leave none for
  // other ranks.
  size_t copies_left(pid_t process) const;

 private:
  const int epoll_;
  Calls calls_;
  absl::flat_hash_map<pid_t, uint64_t> threads_;
  absl::flat_hash_map<int, uint64_t> watched_;  // descriptor -> call
  std::map<pid_t, std::set<uint64_t>> gpu_waiters_;
  std::set<std::pair<VirtualTime, uint64_t>> deadlines_;  // of calls that end by themselves
  int room_waiters_ = 0;
  std::set<uint64_t> spinners_;
  FutexQueues futexes_;
  Polled polled_;  // by process and notification id
  size_t polled_shared_ = 0;
  struct MadeAgain {
    pid_t process;
    CallArguments call;
    VirtualTime deadline;
  };
  absl::flat_hash_map<pid_t, MadeAgain> made_again_;  // by thread
  absl::flat_hash_map<pid_t, size_t> copies_;
  size_t all_copies_ = 0, most_copies_ = 0;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_TIME_HELD_CALLS_H_
