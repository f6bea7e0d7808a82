// Brings every trapped call to who serves it, and the ends of processes and files to who has to
// know of them.
#ifndef PHANTORA_TRAP_SUPERVISOR_CALL_DISPATCH_H_
#define PHANTORA_TRAP_SUPERVISOR_CALL_DISPATCH_H_

#include <linux/seccomp.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "trap/call_log.h"
#include "trap/files/host_file_probe.h"
#include "trap/files/open_files.h"
#include "trap/files/path_calls.h"
#include "trap/files/path_resolver.h"
#include "trap/host/port_calls.h"
#include "trap/host/virtual_host.h"
#include "trap/launch/rank_starter.h"
#include "trap/linux/call_table.h"
#include "trap/linux/process_source.h"
#include "trap/linux/run_members.h"
#include "trap/linux/tracees.h"
#include "trap/linux/trapped_call.h"
#include "trap/memory/page_sharing.h"
#include "trap/time/simulated_time.h"
#include "trap/time/thread_gate.h"
#include "trap/time/turn_gate.h"
#include "trap/turn_lock.h"
#include "trap/unknowns.h"

namespace phantora {

struct SupervisorCounters {
  uint64_t traps = 0;
  uint64_t ioctls = 0;
  uint64_t processes = 0;  // that have ended
};

// Used by the serving thread alone; takes the machine lock where devices are used.
class CallDispatch {
 public:
  struct Options {
    // The emulated hosts, by number; at least one.
    std::vector<VirtualHost> hosts;
    // By rank, if the command is started by RunRanks().
    std::vector<int> host_of_rank;
    // Called when one has ended.
    std::function<void(const RankEnd&)> rank_ended;
    // Called under the lock when a process of the tree has died.
    std::function<void(pid_t)> process_died;
    CallLog* log;
    Unknowns* unknowns;
    TurnLock* machine_lock;
    int rank_nice = 0;  // see Supervisor::Options
    PageSharing* sharing = nullptr;
    SimulatedTime* time = nullptr;  // nullptr in real time
    int epoll;                      // see Tracees and OpenFiles
    ProcessSource* processes;
    ProcessLinks* links;
    HostFileProbe* probe;
    TurnGate* turns = nullptr;      // if processes run a few at a time
    ThreadGate* threads = nullptr;  // and threads one at a time
  };
  explicit CallDispatch(const Options& options);

  // The process that the launcher started: it tells when ranks begin and end.
  void SetCommand(pid_t command) { command_ = command; }

  // Answers the call, or keeps it to be answered when its time has come.
  void Serve(const seccomp_notif& notification, NotifyListener& listener);

  // A descriptor of the epoll is ready, or has hung up.
  void Ready(int descriptor);

  const SupervisorCounters& counters() const { return counters_; }

 private:
  static bool IsAboutTime(CallHandler handler);
  void ServeBy(CallHandler handler, const TrappedCall& call,
               const std::optional<PathCalls::Paths>& paths);
  // What RunRanks() tells; false if the call is none of its.
  bool ServeStarterCall(const TrappedCall& call);
  void ServeDeviceCall(const TrappedCall& call);
  void ProcessDied(pid_t process);
  const VirtualHost& HostOf(const TrappedCall& call) const {
    return options_.hosts[static_cast<size_t>(call.tracee().host)];
  }

  const Options options_;
  pid_t command_ = 0;
  const RunMembers members_;
  OpenFiles open_files_;
  Tracees tracees_;
  PathCalls path_calls_;
  std::optional<PortCalls> port_calls_;  // of a cluster
  SupervisorCounters counters_;
  bool refused_ = false;  // a call was, and it was said
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_SUPERVISOR_CALL_DISPATCH_H_
