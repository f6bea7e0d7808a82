// The processes under supervision: who made a call, and who has died.
#ifndef PHANTORA_TRAP_LINUX_TRACEES_H_
#define PHANTORA_TRAP_LINUX_TRACEES_H_

#include <linux/seccomp.h>
#include <sys/types.h>

#include <memory>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "trap/linux/notify_listener.h"
#include "trap/linux/process_source.h"
#include "trap/linux/remote_memory.h"
#include "trap/linux/unique_fd.h"

namespace phantora {

struct Tracee {
  explicit Tracee(pid_t pid) : process(pid), memory(pid) {}
  const pid_t process;
  const RemoteMemory memory;
  UniqueFd pidfd;
  int host = 0;   // of the emulated cluster
  int rank = -1;  // -1: it is none, but perhaps a child of one
};

class Tracees {
 public:
  // `epoll` gets a pidfd per process, with the descriptor as user data.
  Tracees(int epoll, ProcessSource* processes) : epoll_(epoll), processes_(processes) {}

  // The process whose thread makes a call. NotFound: it has died meanwhile. ResourceExhausted: it
  // lives, but cannot be told for want of descriptors.
  absl::StatusOr<Tracee*> CallerOf(const seccomp_notif& call, NotifyListener& listener);

  // `pidfd` became readable. Forgets and returns the process; nullopt if it is
  // none of ours.
  std::optional<pid_t> Died(int pidfd);

  // nullptr if it has made no call yet, or is gone.
  Tracee* Find(pid_t process);

  size_t size() const { return tracees_.size(); }

 private:
  Tracee* Known(pid_t thread);
  // Its end will be seen; false if there are no descriptors for that.
  bool Watch(Tracee& tracee);
  int HostOf(pid_t process);

  const int epoll_;
  ProcessSource* const processes_;
  absl::flat_hash_map<pid_t, std::unique_ptr<Tracee>> tracees_;
  absl::flat_hash_map<pid_t, pid_t> process_of_thread_;
  absl::flat_hash_map<int, pid_t> process_of_pidfd_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_LINUX_TRACEES_H_
