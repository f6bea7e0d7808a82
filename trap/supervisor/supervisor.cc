#include "trap/supervisor/supervisor.h"

#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "trap/launch/guardian.h"
#include "trap/linux/event_interrupter.h"
#include "trap/linux/process_tree.h"
#include "trap/log.h"

namespace phantora {
namespace {

// That this process may run on.
size_t Processors() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? static_cast<size_t>(CPU_COUNT(&set)) : 1;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Supervisor>> Supervisor::Create(const Options& options) {
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) {
    return absl::ResourceExhaustedError(absl::StrCat("epoll_create1: ", std::strerror(errno)));
  }
  std::unique_ptr<Supervisor> supervisor(new Supervisor(options, std::move(epoll)));
  if (options.host_time.mode != HostTimeMode::kReal) {
    TurnGate::Options turns = {.at_once = Processors(), .epoll = supervisor->epoll_.get()};
    if (options.memory_is_short) turns.is_short = options.memory_is_short;
    supervisor->turns_.emplace(std::move(turns));
    if (options.host_time.repeats()) supervisor->threads_.emplace(supervisor->epoll_.get());
    ThreadGate* const threads = supervisor->threads_ ? &*supervisor->threads_ : nullptr;
    auto time = SimulatedTime::Create({.clocks = {.host = options.host_time,
                                                  .device = options.device,
                                                  .machine_lock = options.machine_lock,
                                                  .waited = options.waited,
                                                  .segments = options.segments},
                                       .unknowns = options.unknowns,
                                       .log = options.log,
                                       .sharing = options.sharing,
                                       .turns = &*supervisor->turns_,
                                       .threads = threads,
                                       .events = options.events,
                                       .epoll = supervisor->epoll_.get()});
    if (!time.ok()) return time.status();
    supervisor->time_ = *std::move(time);
  }
  supervisor->dispatch_.emplace(
      CallDispatch::Options{.hosts = options.hosts,
                            .host_of_rank = options.host_of_rank,
                            .rank_ended = options.rank_ended,
                            .process_died = options.process_died,
                            .log = options.log,
                            .unknowns = options.unknowns,
                            .machine_lock = options.machine_lock,
                            .rank_nice = options.rank_nice,
                            .sharing = options.sharing,
                            .time = supervisor->time_.get(),
                            .epoll = supervisor->epoll_.get(),
                            .processes = &supervisor->processes_,
                            .links = &supervisor->links_,
                            .probe = &supervisor->probe_,
                            .turns = supervisor->turns_ ? &*supervisor->turns_ : nullptr,
                            .threads = supervisor->threads_ ? &*supervisor->threads_ : nullptr});
  return supervisor;
}

Supervisor::Supervisor(const Options& options, UniqueFd epoll)
    : options_(options), epoll_(std::move(epoll)) {}

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
  dispatch_->SetCommand(command.pid);
  if (threads_) threads_->Attach(*command.listener);
  NotifyListener& listener = threads_ ? static_cast<NotifyListener&>(*threads_) : *command.listener;
  TreeEnding ending(command.pid, options_.children);
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
      if (!interrupter.raised() || listener.HasCall()) call = listener.Receive();
    }
    // First the events: what ended must be forgotten before its process id or a
    // descriptor number is used anew. And where runs repeat, what a thread has done before it
    // stopped comes before its call, whether it has been told of yet or not.
    if (const bool raised = interrupter.raised(); raised || (threads_ && call)) {
      listener_open = HandleEvents(command, signals, ending, listener);
      if (raised) interrupter.Handled();
    }
    if (call) dispatch_->Serve(*call, listener);
    if (turns_) GiveTurns(listener);
    if (threads_) threads_->Release();
    if (std::exchange(thread_tick_, false)) threads_->TakeTick();
    if (time_ != nullptr) PassTime(listener);
    if (options_.between_calls) options_.between_calls();
    if (options_.watch) {
      options_.watch([&] { return time_ != nullptr && time_->AtRest(listener); });
    }
  }
  return ending.AwaitCommand();
}

bool Supervisor::HandleEvents(LaunchedCommand& command, int signals, TreeEnding& ending,
                              NotifyListener& listener) {
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
    } else if (turns_ && descriptor == turns_->timer()) {
      turns_->TakeTick();
    } else if (threads_ && descriptor == threads_->timer()) {
      thread_tick_ = true;  // a call that has been received is to be served first
    } else if (time_ != nullptr && time_->Ready(descriptor, listener)) {
      continue;
    } else {
      dispatch_->Ready(descriptor);
    }
  }
  return listener_open;
}

void Supervisor::PassTime(NotifyListener& listener) {
  time_->Pass(listener);
  while (const auto call = time_->Next()) {
    dispatch_->Serve(*call, listener);
    if (threads_) threads_->Release();
    time_->Pass(listener);
  }
}

void Supervisor::GiveTurns(NotifyListener& listener) {
  const auto rests = [&](pid_t process) { return time_->Rests(process, listener); };
  while (const auto call = turns_->Next(rests)) dispatch_->Serve(*call, listener);
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

}  // namespace phantora
