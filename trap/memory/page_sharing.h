// Ranks run the same program, and half of their memory is the same: libraries' code for GPUs,
// unpacked by each for itself. It is shared here, page by page, until somebody writes to it.
#ifndef PHANTORA_TRAP_MEMORY_PAGE_SHARING_H_
#define PHANTORA_TRAP_MEMORY_PAGE_SHARING_H_

#include <linux/seccomp.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "trap/linux/notify_listener.h"
#include "trap/linux/proc.h"
#include "trap/linux/process_tree.h"
#include "trap/linux/real_clock.h"
#include "trap/linux/remote_memory.h"
#include "trap/linux/stopped_process.h"
#include "trap/linux/trapped_call.h"
#include "trap/memory/page_pool.h"
#include "trap/memory/without_zeros.h"

namespace phantora {

// Takes no privilege but that of tracing one's own processes. Only private memory is shared that is
// anonymous and writable, or that was written to in the mapping of a file (a library's addresses);
// pages of zeros are given back. A process notices no more than that
// /proc/PID/maps has other lines, and that two calls fail where memory is shared, as they may:
// madvise(MADV_DONTNEED), which would not find zeros there, and mremap to a larger size. Not
// thread-safe.
class PageSharing {
 public:
  struct Options {
    Children* children;
    const Proc* proc = &Proc::Host();
    const RealClock* clock = &RealClock::Host();
    // Is what the run may take nearly used up? Beside the machine's own memory; may be empty.
    std::function<bool()> is_short = nullptr;
    // Pages of zeros are given back, nothing is shared: that takes no other settings of the
    // process, and none of its calls need be served.
    bool zeros_only = false;
    // All that may have something of the pool.
    std::vector<pid_t> (*descendants)() = Descendants;
  };
  // Errors: see PagePool::Create().
  static absl::StatusOr<std::unique_ptr<PageSharing>> Create(const Options& options);

  // Has the process so much memory of its own that a look is worth while? With `urgent`, a little
  // is enough.
  bool Wants(pid_t process, bool urgent);
  // Is the machine's memory nearly used up?
  bool IsUrgent() const;

  // Shares what it can. Nothing may run in the process or write to its memory meanwhile; `held`
  // names threads whose calls the supervisor holds, one of which is `call`. False: it cannot be
  // done with this process now.
  bool Share(pid_t process, uint64_t call, NotifyListener& listener,
             const std::function<bool(pid_t)>& held);

  // What no process has any more makes room in the pool. False: that cannot be told, and nothing
  // has changed.
  bool Recycle();

  // madvise and mremap of a thread of this process; false if the call is none of them.
  bool Serve(const TrappedCall& call);

  void ProcessDied(pid_t process);

  // Of the pool's file. May be called by any thread.
  uint64_t PoolBytes() const;

  // "820 MiB of 4 processes are shared, which take 210 MiB"; empty if nothing is.
  std::string Describe() const;

 private:
  struct Range {
    uint64_t begin = 0, end = 0;  // addresses
  };
  // Memory that is looked at: all from the pool (then from page `number` on), or none.
  struct Stretch {
    Range range;
    std::optional<uint32_t> number;
    bool is_file = false;  // not the pool's: what was never written to is the file's
    bool writable = true;
  };
  struct Process {
    uint64_t own = 0;                           // pages, after the last look
    uint64_t shared = 0;                        // pages
    int64_t next_look_ns = 0, next_try_ns = 0;  // real time
    // What comes from the pool, in order, and perhaps what has been unmapped since.
    std::vector<Range> mapped;
    bool is_known = false;  // `mapped` is
    bool moves = false;     // some of it may lie elsewhere by now
    // For looks for zeros alone: how many there were, and whether the next is to read everything.
    WithoutZeros without_zeros;
    int looks = 0;
    bool whole = false;
  };
  // Pages of the process that follow each other, and have the like in the pool, also one after the
  // other, but for those that the process keeps.
  struct Run {
    uint64_t address = 0;
    uint64_t pages = 0;
    int64_t number = 0;  // in the pool; kZeros
    uint64_t same = 0;   // pages that are shared by it
    bool writable = true;
    std::vector<uint64_t> kept{};  // addresses of pages
  };
  // As many pages of the pool as are worth a look whether they are still used.
  static constexpr uint32_t kRecycleAt = 1 << 16;
  // What a page is, where it is not a number.
  static constexpr int64_t kZeros = -1, kUntouched = -2, kOwn = -3, kNotLookedAt = -4;

  explicit PageSharing(const Options& options)
      : options_(options), stopper_(options.children), began_ns_(options.clock->Monotonic()) {}
  // What can be shared; appends to `runs`. False if memory cannot be read.
  bool FindRuns(pid_t process, std::vector<Run>& runs);
  // The same of memory within one of the pool's windows.
  void FindRunsIn(pid_t process, int pagemap, const Stretch& stretch, std::vector<Run>& runs);
  // What each page of it is. Stops where memory cannot be read.
  std::vector<int64_t> Classify(pid_t process, int pagemap, const Stretch& stretch);
  // Pages of the process's own, for zeros alone; false if they cannot be read.
  bool FindZeros(pid_t process, uint64_t begin, uint64_t end, std::vector<int64_t>& what);
  // The run that begins with page `first`, whose memory begins at `begin`.
  // Pages between two shared ones are kept, so many in a row.
  Run RunFrom(absl::Span<const int64_t> pages, size_t first, uint64_t begin, size_t longest_gap);
  bool Place(pid_t process, StoppedProcess& stopped, const Run& run, uint64_t file) const;
  // Marks the numbers that the process has in its memory. False: they cannot be told.
  bool NoteUsed(pid_t process, std::vector<bool>& used) const;
  // Does a part of the process's memory between these addresses come from the pool?
  bool Shares(pid_t id, uint64_t begin, uint64_t end);
  static bool MayShare(const Process& process, uint64_t begin, uint64_t end);
  void ReadShared(pid_t id, Process& process);

  const Options options_;
  ProcessStopper stopper_;
  std::unique_ptr<PagePool> pool_;
  absl::flat_hash_map<pid_t, Process> processes_;
  uint64_t shared_ = 0, zeros_ = 0, looks_ = 0,
           failures_ = 0;             // pages; of all processes that ever were
  uint32_t recycle_at_ = kRecycleAt;  // pages of the pool
  const int64_t began_ns_;            // real time
  int64_t took_ns_ = 0;               // of real time, in which nobody was served
  bool any_ = false;
  std::vector<uint8_t> bytes_;  // that a look has read last
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_MEMORY_PAGE_SHARING_H_
