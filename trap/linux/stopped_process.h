// A process whose threads stand still, and make system calls for us.
#ifndef PHANTORA_TRAP_LINUX_STOPPED_PROCESS_H_
#define PHANTORA_TRAP_LINUX_STOPPED_PROCESS_H_

#include <sys/types.h>
#include <sys/user.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "trap/linux/children.h"

namespace phantora {

class StoppedProcess;

// Stops by ptrace(2) whatever is blocked in the kernel or runs. Calls that are interrupted by that
// go on afterwards; some report EINTR as after SIGSTOP and SIGCONT (signal(7)). Threads in calls
// that are held by the supervisor cannot run before they are answered, and are left alone.
//
// One thread at a time may use this. A thread that will not stop is let go when it does, and one
// that is killed meanwhile is buried, by ReleaseLate(), which is to be called now and then.
class ProcessStopper {
 public:
  explicit ProcessStopper(Children* children) : children_(children) {}

  // nullptr: it cannot be traced (somebody else does, or Yama forbids it), does not stop soon, or
  // has no thread in a system call, which it takes to make others. Must not outlive this.
  std::unique_ptr<StoppedProcess> Stop(pid_t process, const std::function<bool(pid_t)>& held);

  void ReleaseLate();

 private:
  friend class StoppedProcess;
  Children* const children_;
  std::vector<pid_t> late_;  // threads that had not stopped when they were given up
};

class StoppedProcess {
 public:
  // Goes on as if nothing had been.
  ~StoppedProcess();
  StoppedProcess(const StoppedProcess&) = delete;
  StoppedProcess& operator=(const StoppedProcess&) = delete;

  // What the call returns, a negative error number included; nullopt when the process is dying. Not
  // for calls that wait or are trapped.
  std::optional<int64_t> Call(int64_t number, const std::array<uint64_t, 6>& arguments);

 private:
  friend class ProcessStopper;
  explicit StoppedProcess(ProcessStopper* stopper) : stopper_(stopper) {}
  struct Thread {
    pid_t id;
    int signal = 0;  // that it was stopped with, to be delivered
  };
  bool StopAll(pid_t process, const std::function<bool(pid_t)>& held);
  bool FindCaller();

  ProcessStopper* const stopper_;
  pid_t own_child_ = 0;  // the process, if this one is its parent, whose affair its end is
  std::vector<Thread> threads_;
  std::optional<size_t> caller_;  // which of them makes calls
  uint64_t instruction_ = 0;      // where the caller has a system call
  user_regs_struct registers_{};  // of the caller, as it was
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_LINUX_STOPPED_PROCESS_H_
