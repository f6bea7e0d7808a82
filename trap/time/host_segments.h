// Which segment of a program's own code a thread has just come to the end of, and what that costs.
#ifndef PHANTORA_TRAP_TIME_HOST_SEGMENTS_H_
#define PHANTORA_TRAP_TIME_HOST_SEGMENTS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "clock/host_profile.h"
#include "clock/host_time.h"
#include "clock/virtual_time.h"

namespace phantora {

// What a program is called whose words are these, one after another, each with a zero behind it
// (/proc/PID/cmdline): its own name and that of the script that it runs, without their folders. So
// the ranks of a job have one name, whatever else their launcher tells them.
std::string ProgramName(std::string_view words);

// Knows the way of each thread: its last stops. With a profile of an earlier run every segment
// costs what that says, and what the code takes here plays no part. Without one, the cost is what
// the code takes, and once the same segment has come often enough, on this rank or on others, the
// mean of that. Not thread-safe.
class HostSegments {
 public:
  // As often a segment has to have come before its mean is what it costs.
  static constexpr uint64_t kRepeats = 4;

  struct Options {
    HostTime host;
    const HostProfile* known = nullptr;  // of an earlier run; nullptr: learn
  };
  // By where their costs are from; those of a profile by detail.
  struct Counters {
    struct Part {
      uint64_t segments = 0;
      VirtualSpan cost;
    };
    Part taken, repeated, full, similar, unknown;
  };

  explicit HostSegments(Options options) : options_(options) {}

  // The process runs another program from now on. `name` tells it from others, and is the same for
  // all ranks.
  void NewProgram(pid_t process, std::string_view name);
  // `process` is a copy of `parent`, if that is known.
  void Begins(pid_t process, pid_t parent);
  void ProcessDied(pid_t process);

  // Is this call of the thread, of a process that has begun, another one than that which it stopped
  // in last? (One that has to wait for its turn comes again.)
  bool IsNew(pid_t process, pid_t thread, uint64_t call);
  // The thread has stopped in a call of this kind, after `submissions` to GPUs, and has used so
  // much processor time since it was let go, ns. What the segment costs.
  VirtualSpan Ends(pid_t process, pid_t thread, uint32_t stop, uint32_t submissions, int64_t used);

  const HostProfile& learned() const { return learned_; }
  const Counters& counters() const { return counters_; }

 private:
  // Threads and ways of a hostile process that are told apart.
  static constexpr size_t kMostThreads = 1 << 16, kMostWays = 1 << 18;

  struct Thread {
    uint64_t call = 0;
    HostSegment at;
  };
  struct Process {
    uint64_t role = 0;
    uint64_t threads_seen = 0;
    absl::flat_hash_map<pid_t, Thread> threads;
    absl::flat_hash_map<uint64_t, uint32_t> ways;  // how often it has come
  };
  Thread& Of(Process& process, pid_t thread);
  VirtualSpan Count(Counters::Part& part, VirtualSpan cost);

  const Options options_;
  HostProfile learned_;
  absl::flat_hash_map<pid_t, Process> processes_;
  Counters counters_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_TIME_HOST_SEGMENTS_H_
