#include "trap/supervisor/supervisor.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "trap/host/host_calls.h"
#include "trap/launch/guardian.h"
#include "trap/linux/event_interrupter.h"
#include "trap/linux/process_tree.h"
#include "trap/log.h"

namespace phantora {
namespace {

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

}  // namespace

absl::StatusOr<std::unique_ptr<Supervisor>> Supervisor::Create(const Options& options) {
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) {
    return absl::ResourceExhaustedError(absl::StrCat("epoll_create1: ", std::strerror(errno)));
  }
  std::unique_ptr<Supervisor> supervisor(new Supervisor(options, std::move(epoll)));
  if (options.host_time.mode != HostTimeMode::kReal) {
    auto time = SimulatedTime::Create({.clocks = {.host = options.host_time,
                                                  .device = options.device,
                                                  .machine_lock = options.machine_lock,
                                                  .waited = options.waited},
                                       .unknowns = options.unknowns,
                                       .log = options.log,
                                       .sharing = options.sharing,
                                       .epoll = supervisor->epoll_.get()});
    if (!time.ok()) return time.status();
    supervisor->time_ = *std::move(time);
  }
  return supervisor;
}

Supervisor::Supervisor(const Options& options, UniqueFd epoll)
    : options_(options),
      epoll_(std::move(epoll)),
      open_files_(epoll_.get()),
      tracees_(epoll_.get()),
      path_calls_(&open_files_, options.log, options.rank_nice) {
  std::vector<in_addr> addresses;
  for (const VirtualHost& host : options.hosts) {
    if (host.pretends()) addresses.push_back(host.address);
  }
  if (!addresses.empty()) port_calls_.emplace(std::move(addresses));
}

void Supervisor::Watch(int descriptor, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = descriptor;
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event);
}

int Supervisor::Run(LaunchedCommand command, int signals) {
  // Event pipes lose their readers when ranks die. (Not before the launch: ignored
  // signals are inherited.)
  signal(SIGPIPE, SIG_IGN);
  command_ = command.pid;
  TreeEnding ending(command.pid);
  // Hang-ups are always reported, and calls need not be.
  Watch(command.listener->fd(), 0);
  Watch(signals, EPOLLIN);
  Watch(ending.timer(), EPOLLIN);
  EventInterrupter interrupter(epoll_.get());
  for (bool listener_open = true; listener_open;) {
    std::optional<seccomp_notif> call;
    {
      EventInterrupter::Interruptible interruptible;
      // The signal of an event that came before this line is not sent again at once.
      if (!interrupter.raised() || command.listener->HasCall()) call = command.listener->Receive();
    }
    // First the events: what ended must be forgotten before its process id or a
    // descriptor number is used anew.
    if (interrupter.raised()) {
      listener_open = HandleEvents(command, signals, ending);
      interrupter.Handled();
    }
    if (call) ServeCall(*call, *command.listener);
    if (time_ != nullptr) time_->Pass(*command.listener);
    if (options_.between_calls) options_.between_calls();
    if (options_.watch) {
      options_.watch([&] { return time_ != nullptr && time_->AtRest(*command.listener); });
    }
  }
  return ending.AwaitCommand();
}

bool Supervisor::HandleEvents(LaunchedCommand& command, int signals, TreeEnding& ending) {
  bool listener_open = true;
  epoll_event events[64];
  const int count = epoll_wait(epoll_.get(), events, 64, 0);
  for (int i = 0; i < count; ++i) {
    const int descriptor = events[i].data.fd;
    if (descriptor == command.listener->fd()) {
      listener_open = false;  // no task with the filter is left
    } else if (descriptor == signals) {
      ForwardSignals(signals, command);
      ending.Reap();
    } else if (descriptor == ending.timer()) {
      ending.TimeIsUp();
    } else if (time_ != nullptr && time_->Ready(descriptor, *command.listener)) {
      continue;
    } else if (auto process = tracees_.Died(descriptor)) {
      ProcessDied(*process);
    } else {
      std::lock_guard lock(*options_.machine_lock);
      open_files_.HungUp(descriptor).reset();
    }
  }
  return listener_open;
}

void Supervisor::ServeCall(const seccomp_notif& notification, NotifyListener& listener) {
  ++counters_.traps;
  if (PathCalls::ContinuesUnseen(notification)) {
    if (time_ != nullptr) {
      const auto thread = static_cast<pid_t>(notification.pid);
      const Tracee* tracee = tracees_.OfThread(thread);
      if (tracee != nullptr)
        time_->PathCall(tracee->process, thread), time_->CallOf(tracee->process);
    }
    listener.ReplyContinue(notification.id);
    return;
  }
  Tracee* tracee = tracees_.OfThread(static_cast<pid_t>(notification.pid));
  if (tracee == nullptr) {
    listener.ReplyError(notification.id, ENOSYS);  // nobody is there to see it
    return;
  }
  if (time_ != nullptr) {
    time_->CallOf(tracee->process);
    if (time_->Serve(notification, *tracee, listener)) return;
  }
  const VirtualHost& host = options_.hosts[static_cast<size_t>(tracee->host)];
  if (ServeHostCall(notification, *tracee, host, listener)) return;
  if (options_.sharing != nullptr &&
      options_.sharing->Serve(notification, tracee->process, listener)) {
    return;
  }
  if (port_calls_ && port_calls_->Serve(notification, *tracee, listener)) return;
  if (path_calls_.Serve(notification, *tracee, host.files, listener)) return;
  if (ServeStarterCall(notification, *tracee, listener)) return;
  ServeDeviceCall(notification, *tracee, listener);
}

bool Supervisor::ServeStarterCall(const seccomp_notif& notification, Tracee& tracee,
                                  NotifyListener& listener) {
  const auto& arguments = notification.data.args;
  if (notification.data.nr != SYS_ioctl || static_cast<int>(arguments[0]) != -1) return false;
  const auto rank = static_cast<uint32_t>(arguments[2]);
  if (rank >= options_.host_of_rank.size()) return false;
  if (arguments[1] == kRankStarts && tracee.rank < 0 && ParentOf(tracee.process) == command_) {
    tracee.rank = static_cast<int>(rank);
    tracee.host = options_.host_of_rank[rank];
  } else if (arguments[1] == kRankEnded && tracee.process == command_) {
    options_.rank_ended(RankEnd::From(arguments[2]));
  } else {
    return false;
  }
  listener.ReplyValue(notification.id, 0);
  return true;
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
  if (time_ != nullptr) time_->DriverCall(tracee.process, static_cast<pid_t>(notification.pid));
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
  } else if (time_ == nullptr || !time_->HoldsAnswer(notification, tracee.process, result)) {
    listener.ReplyValue(notification.id, result);
  }
}

void Supervisor::ForwardSignals(int signals, const LaunchedCommand& command) {
  signalfd_siginfo info;
  while (read(signals, &info, sizeof info) == sizeof info) {
    if (info.ssi_signo == SIGCHLD) continue;
    if (static_cast<int>(info.ssi_signo) == GuardianDiedSignal()) {
      LogError("phantora-run was killed; ending all ranks");
      EndDescendants();
      continue;
    }
    // A terminal sends its signals to the whole foreground group, the command
    // included; only what was sent to us alone is passed on.
    if (info.ssi_code == SI_KERNEL) continue;
    syscall(SYS_pidfd_send_signal, command.pidfd.get(), info.ssi_signo, nullptr, 0);
  }
}

void Supervisor::ProcessDied(pid_t process) {
  ++counters_.processes;
  if (time_ != nullptr) time_->ProcessDied(process);
  std::lock_guard lock(*options_.machine_lock);
  // First what works on the process's memory, then the memory.
  options_.process_died(process);
  open_files_.OwnerDied(process).clear();
  options_.log->Line(process, "process ended");
}

}  // namespace phantora
