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
#include "trap/linux/call_table.h"
#include "trap/linux/event_interrupter.h"
#include "trap/linux/process_tree.h"
#include "trap/log.h"

namespace phantora {
namespace {

// What a device sees of a call.
class DeviceCall : public CallContext {
 public:
  DeviceCall(const TrappedCall& call, OpenFiles& files) : call_(call), files_(files) {}

  pid_t process() const override { return call_.process(); }
  const RemoteMemory& memory() const override { return call_.memory(); }
  int descriptor() const override { return call_.Int(call_.number() == SYS_mmap ? 4 : 0); }
  // By the calling thread: the first one may have ended, or have other descriptors.
  std::shared_ptr<DeviceFile> DeviceAt(int descriptor) override {
    return files_.Find(call_.thread(), descriptor);
  }
  absl::Status Replace(int descriptor, int file) override {
    return call_.Replace(descriptor, file);
  }
  absl::Status ReplaceByDevice(int descriptor, std::shared_ptr<DeviceFile> device) override {
    auto file = files_.Add(std::move(device), call_.process());
    if (!file.ok()) return file.status();
    return Replace(descriptor, file->get());
  }

 private:
  const TrappedCall& call_;
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
      tracees_(epoll_.get(), &processes_),
      path_calls_({.open_files = &open_files_,
                   .log = options.log,
                   .machine_lock = options.machine_lock,
                   .rank_nice = options.rank_nice,
                   .links = &links_,
                   .probe = &probe_}) {
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
  const CallHandler handler = HandlerOf(notification.data.nr);
  std::optional<PathCalls::Paths> paths;
  if (handler == CallHandler::kPath) paths = PathCalls::Read(notification);
  const auto caller = tracees_.CallerOf(notification, listener);
  if (absl::IsNotFound(caller.status())) return;  // nobody is there to see an answer
  if (!caller.ok()) {
    options_.unknowns->Count("call whose process cannot be told", 0,
                             "made natively: " + std::string(caller.status().message()));
    return listener.ReplyContinue(notification.id);
  }
  const TrappedCall call(notification, **caller, listener);
  if (time_ != nullptr) {
    time_->CallOf(call.process());
    if (handler == CallHandler::kPath && !paths) {
      time_->PathCall(call.process(), call.thread());
    } else {
      time_->Heard(call.process(), call.thread());
    }
  }
  const VirtualHost& host = options_.hosts[static_cast<size_t>(call.tracee().host)];
  switch (handler) {
    case CallHandler::kPath:
      return paths ? path_calls_.Serve(call, *paths, host.files) : call.Continue();
    case CallHandler::kDevice:
      return ServeStarterCall(call) ? void() : ServeDeviceCall(call);
    case CallHandler::kHost:
      ServeHostCall(notification, call.tracee(), host, listener);
      return;
    case CallHandler::kPort:
      if (!port_calls_ || !port_calls_->Serve(notification, call.tracee(), listener)) {
        call.Continue();
      }
      return;
    case CallHandler::kMemory:
      if (options_.sharing == nullptr ||
          !options_.sharing->Serve(notification, call.process(), listener)) {
        call.Continue();
      }
      return;
    case CallHandler::kProcess:
    case CallHandler::kProgram:
    case CallHandler::kClock:
    case CallHandler::kSignal:
    case CallHandler::kYield:
    case CallHandler::kWait:
    case CallHandler::kTransfer:
    case CallHandler::kTimer:
      if (time_ == nullptr || !time_->Serve(notification, call.tracee(), listener)) {
        call.Continue();
      }
      return;
    case CallHandler::kRefusal:
      options_.unknowns->Count(CallName(call.number()), 0,
                               "refused: what it does could not be seen");
      return call.Error(ENOSYS);
    case CallHandler::kNone:
      return call.Continue();
  }
}

bool Supervisor::ServeStarterCall(const TrappedCall& call) {
  if (call.number() != SYS_ioctl || call.Int(0) != -1) return false;
  Tracee& tracee = call.tracee();
  const auto rank = static_cast<uint32_t>(call.Word(2));
  if (rank >= options_.host_of_rank.size()) return false;
  if (call.Word(1) == kRankStarts && tracee.rank < 0 && ParentOf(tracee.process) == command_) {
    tracee.rank = static_cast<int>(rank);
    tracee.host = options_.host_of_rank[rank];
  } else if (call.Word(1) == kRankEnded && tracee.process == command_) {
    options_.rank_ended(RankEnd::From(call.Word(2)));
  } else {
    return false;
  }
  call.Value(0);
  return true;
}

void Supervisor::ServeDeviceCall(const TrappedCall& call) {
  DeviceCall context(call, open_files_);
  auto device = context.DeviceAt(context.descriptor());
  if (device == nullptr) return call.Continue();
  const bool is_mmap = call.number() == SYS_mmap;
  if (time_ != nullptr) time_->DriverCall(call.process(), call.thread());
  int result = 0;
  {
    std::lock_guard lock(*options_.machine_lock);
    if (is_mmap) {
      result = device->Mmap(context,
                            {call.Word(0), call.Word(1), call.Word(2), call.Word(3), call.Word(5)});
    } else {
      ++counters_.ioctls;
      result = device->Ioctl(context, static_cast<uint32_t>(call.Word(1)), call.Address(2));
    }
    device.reset();  // under the lock: it may have been replaced, and die here
  }
  if (result >= 0 && is_mmap) return call.Continue();
  if (result >= 0 && time_ != nullptr &&
      time_->HoldsAnswer(call.notification(), call.process(), result)) {
    return;
  }
  call.Result(result);
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
