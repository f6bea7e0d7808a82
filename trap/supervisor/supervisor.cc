#include "trap/supervisor/supervisor.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "trap/log.h"
#include "trap/supervisor/process_tree.h"

namespace phantora {
namespace {

// What outlives the command gets this long to end by itself, and then again
// this long after SIGTERM.
constexpr int kGraceMilliseconds = 2000;

class TrappedCall : public CallContext {
 public:
  TrappedCall(const seccomp_notif& notification, const Tracee& tracee, NotifyListener& listener,
              OpenFiles& files)
      : notification_(notification),
        tracee_(tracee),
        thread_memory_(static_cast<pid_t>(notification.pid)),
        listener_(listener),
        files_(files) {}

  pid_t process() const override { return tracee_.process; }
  // By the calling thread: the first one may have ended, or have other descriptors.
  const RemoteMemory& memory() const override { return thread_memory_; }
  int descriptor() const override {
    return static_cast<int>(notification_.data.args[notification_.data.nr == SYS_mmap ? 4 : 0]);
  }
  std::shared_ptr<DeviceFile> DeviceAt(int descriptor) override {
    return files_.Find(static_cast<pid_t>(notification_.pid), descriptor);
  }
  absl::Status Replace(int descriptor, int file) override {
    return listener_.Replace(notification_.id, descriptor, file);
  }
  absl::Status ReplaceByDevice(int descriptor, std::shared_ptr<DeviceFile> device) override {
    auto file = files_.Add(std::move(device), tracee_.process);
    if (!file.ok()) return file.status();
    return Replace(descriptor, file->get());
  }

 private:
  const seccomp_notif& notification_;
  const Tracee& tracee_;
  const RemoteMemory thread_memory_;
  NotifyListener& listener_;
  OpenFiles& files_;
};

int64_t MonotonicMilliseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * int64_t{1000} + now.tv_nsec / 1000000;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Supervisor>> Supervisor::Create(const Options& options) {
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) {
    return absl::ResourceExhaustedError(absl::StrCat("epoll_create1: ", std::strerror(errno)));
  }
  return std::unique_ptr<Supervisor>(new Supervisor(options, std::move(epoll)));
}

Supervisor::Supervisor(const Options& options, UniqueFd epoll)
    : options_(options),
      epoll_(std::move(epoll)),
      open_files_(epoll_.get()),
      tracees_(epoll_.get()),
      path_calls_(options.files, &open_files_, options.log, options.rank_nice) {}

void Supervisor::Watch(int descriptor) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = descriptor;
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event);
}

int Supervisor::Run(LaunchedCommand command, int signals) {
  // Event pipes lose their readers when ranks die. (Not before the launch: ignored
  // signals are inherited.)
  signal(SIGPIPE, SIG_IGN);
  Watch(command.listener.fd());
  Watch(signals);
  std::optional<int> wait_status;
  bool listener_open = true;
  bool reap = true;  // children may have died
  int64_t deadline = 0;
  int stage = 0;  // of ending what outlives the command
  while (listener_open) {
    epoll_event events[64];
    const int count = epoll_wait(epoll_.get(), events, 64, wait_status ? 50 : -1);
    uint32_t calls = 0;
    for (int i = 0; i < count; ++i) {
      const int descriptor = events[i].data.fd;
      if (descriptor == command.listener.fd()) {
        // Last: what ended must be forgotten before its process id or a descriptor
        // number is used anew.
        calls = events[i].events;
      } else if (descriptor == signals) {
        ForwardSignals(signals, command);
        reap = true;
      } else if (auto process = tracees_.Died(descriptor)) {
        ProcessDied(*process);
      } else {
        std::lock_guard lock(*options_.machine_lock);
        open_files_.HungUp(descriptor).reset();
      }
    }
    if ((calls & EPOLLIN) != 0) {
      Serve(command.listener);
    } else if ((calls & EPOLLHUP) != 0) {
      listener_open = false;  // no task with the filter is left
    }
    // Reap the command, and orphans of its tree that were handed to us.
    int status = 0;
    pid_t child;
    reap |= wait_status.has_value();
    while (reap && (child = waitpid(-1, &status, WNOHANG)) > 0) {
      if (child == command.pid) {
        wait_status = status;
        deadline = MonotonicMilliseconds() + kGraceMilliseconds;
      }
    }
    reap = false;
    if (wait_status && MonotonicMilliseconds() >= deadline && stage < 2) {
      const int killed = SignalDescendants(stage == 0 ? SIGTERM : SIGKILL);
      if (killed > 0) {
        LogInfo(absl::StrCat("the command has exited; ending ", killed, " processes it left"));
      }
      ++stage;
      deadline = MonotonicMilliseconds() + kGraceMilliseconds;
    }
  }
  while (!wait_status) {
    int status = 0;
    const pid_t child = waitpid(command.pid, &status, 0);
    if (child == command.pid) wait_status = status;
    if (child < 0 && errno != EINTR) wait_status = 0;
  }
  return *wait_status;
}

void Supervisor::Serve(NotifyListener& listener) {
  auto notification = listener.Receive();
  if (!notification) return;
  ++counters_.traps;
  if (PathCalls::ContinuesUnseen(*notification)) {
    listener.ReplyContinue(notification->id);
    return;
  }
  Tracee* tracee = tracees_.OfThread(static_cast<pid_t>(notification->pid));
  if (tracee == nullptr) {
    listener.ReplyError(notification->id, ENOSYS);  // nobody is there to see it
    return;
  }
  if (path_calls_.Serve(*notification, *tracee, listener)) return;
  ServeDeviceCall(*notification, *tracee, listener);
}

void Supervisor::ServeDeviceCall(const seccomp_notif& notification, Tracee& tracee,
                                 NotifyListener& listener) {
  TrappedCall call(notification, tracee, listener, open_files_);
  auto device = call.DeviceAt(call.descriptor());
  const auto& arguments = notification.data.args;
  int result = 0;
  if (device == nullptr) {
    listener.ReplyContinue(notification.id);
    return;
  }
  {
    std::lock_guard lock(*options_.machine_lock);
    if (notification.data.nr == SYS_mmap) {
      result = device->Mmap(call,
                            {arguments[0], arguments[1], arguments[2], arguments[3], arguments[5]});
    } else {
      ++counters_.ioctls;
      result =
          device->Ioctl(call, static_cast<uint32_t>(arguments[1]), RemoteAddress{arguments[2]});
    }
    device.reset();  // under the lock: it may have been replaced, and die here
  }
  if (result < 0) {
    listener.ReplyError(notification.id, -result);
  } else if (notification.data.nr == SYS_mmap) {
    listener.ReplyContinue(notification.id);
  } else {
    listener.ReplyValue(notification.id, result);
  }
}

void Supervisor::ForwardSignals(int signals, const LaunchedCommand& command) {
  signalfd_siginfo info;
  while (read(signals, &info, sizeof info) == sizeof info) {
    if (info.ssi_signo == SIGCHLD) continue;
    // A terminal sends its signals to the whole foreground group, the command
    // included; only what was sent to us alone is passed on.
    if (info.ssi_code == SI_KERNEL) continue;
    syscall(SYS_pidfd_send_signal, command.pidfd.get(), info.ssi_signo, nullptr, 0);
  }
}

void Supervisor::ProcessDied(pid_t process) {
  ++counters_.processes;
  std::lock_guard lock(*options_.machine_lock);
  // First what works on the process's memory, then the memory.
  options_.process_died(process);
  open_files_.OwnerDied(process).clear();
  options_.log->Line(process, "process ended");
}

}  // namespace phantora
