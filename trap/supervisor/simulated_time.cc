#include "trap/supervisor/simulated_time.h"

#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "trap/supervisor/process_tree.h"

namespace phantora {
namespace {

// CLOCK_MONOTONIC_RAW reads in a row that make a wait for a GPU. libcuda's event thread
// makes two between its polls.
constexpr uint32_t kSpinsOfWait = 6;
// A spinning thread with idle GPUs looks after 1 us, 2 us, ... 1024 us.
constexpr uint32_t kLooksUntilRarest = 10;
// What a call costs that looks for something and does not find it, so that a loop over it
// ends.
constexpr VirtualSpan kFruitlessLook = VirtualSpan::Microseconds(1);
// Of memory that a process waits for, at each of its calls; ns of real time.
constexpr int64_t kLongestLook = 200'000;

// Between two looks for calls, ns of real time.
constexpr int64_t kLongestPass = 10'000'000;
// Real time between looks at threads that run, ns. Memory that others wait for to change
// is looked at more often, as long as that costs little.
constexpr int64_t kShortestTick = 250'000, kLongestTick = 4'000'000, kPolledTick = 250'000;
constexpr int64_t kTickPerPolled = 100'000;
constexpr int64_t kLongestPostponement = 1'000'000;
// And between looks for signals.
constexpr int64_t kSignalCheck = 20'000'000, kSignalCheckPerCall = 4'000'000;
// When somebody has run for so long, in processor time, and nothing has moved, time passes
// nevertheless: the one who runs may wait for memory to change.
constexpr int64_t kImpatience = 10'000'000'000;

bool IsRealtime(int clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE ||
         clock == CLOCK_REALTIME_ALARM || clock == CLOCK_TAI;
}

// SO_RCVTIMEO or SO_SNDTIMEO; Infinity if there is none.
VirtualTime SocketDeadline(int socket, int option, VirtualTime now) {
  timeval timeout{};
  socklen_t size = sizeof timeout;
  if (getsockopt(socket, SOL_SOCKET, option, &timeout, &size) != 0 ||
      (timeout.tv_sec == 0 && timeout.tv_usec == 0)) {
    return VirtualTime::Infinity();
  }
  const timespec end{.tv_sec = timeout.tv_sec + now.nanoseconds() / 1'000'000'000,
                     .tv_nsec = timeout.tv_usec * 1000 + now.nanoseconds() % 1'000'000'000};
  return InstantOf(CLOCK_MONOTONIC, end, 0);
}

// Does the call make a thread of the same process?
bool MakesThread(const seccomp_notif& notification) {
  uint64_t flags = 0;
  if (notification.data.nr == SYS_clone) {
    flags = notification.data.args[0];
  } else if (notification.data.nr == SYS_clone3) {
    // The first member of clone_args. (If another thread changes it meanwhile, that process is
    // found when the next one forks: it is the caller's own time that may then pass too early.)
    flags = RemoteMemory(static_cast<pid_t>(notification.pid))
                .ReadObject<uint64_t>(RemoteAddress{notification.data.args[0]})
                .value_or(0);
  }
  return (flags & CLONE_THREAD) != 0;
}

bool IsReady(int file, short events) {
  pollfd descriptor{file, events, 0};
  return poll(&descriptor, 1, 0) > 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SimulatedTime>> SimulatedTime::Create(const Options& options) {
  auto vdso = Vdso::Create();
  if (!vdso.ok()) return vdso.status();
  std::unique_ptr<SimulatedTime> time(new SimulatedTime(options, *std::move(vdso)));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = time->tick_.get();
  if (!time->tick_.valid() ||
      epoll_ctl(options.epoll, EPOLL_CTL_ADD, time->tick_.get(), &event) != 0) {
    return absl::ResourceExhaustedError("cannot make a timer");
  }
  return time;
}

SimulatedTime::SimulatedTime(const Options& options, Vdso vdso)
    : options_(options),
      vdso_(std::move(vdso)),
      realtime_offset_(HostNanoseconds(CLOCK_REALTIME) - ProcessClocks::Start().nanoseconds()),
      tick_(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)),
      clocks_(options.clocks),
      held_(options.epoll),
      timers_(realtime_offset_, [this] {
        std::vector<std::pair<pid_t, int>> living;
        for (const auto& [id, process] : clocks_.all()) {
          living.emplace_back(id, process->pidfd.get());
        }
        return living;
      }) {}

void SimulatedTime::Runs(pid_t thread, pid_t process) {
  clocks_.Stir(process);
  let_go_ = true;
  runner_ = thread;
  let_go_since_ = HostNanoseconds(CLOCK_MONOTONIC);
}

void SimulatedTime::DriverCall(pid_t id, pid_t thread) {
  Process& process = clocks_.Stopped(id, thread);
  clocks_.SetUsesGpu(process, thread);
  clocks_.ForgetThread(process, id, thread);
  if (options_.clocks.host.mode == HostTimeMode::kFixed) {
    process.now = process.now + options_.clocks.host.driver_call;
  }
  quiet_ = false;
  Runs(thread, id);
}

void SimulatedTime::ProcessDied(pid_t process) {
  for (auto it = held_.begin(); it != held_.end();) {
    auto next = std::next(it);
    if (it->second.process == process) held_.Take(it);
    it = next;
  }
  processes_known_ = quiet_ = false;
  signals_sent_ = true;  // SIGCHLD
  Runs(0, 0);            // its parent, perhaps
  clocks_.Died(process);
  timers_.ProcessDied(process);
}

// --- Calls --------------------------------------------------------------------------

bool SimulatedTime::Serve(const seccomp_notif& notification, const Tracee& tracee,
                          NotifyListener& listener) {
  const pid_t thread = static_cast<pid_t>(notification.pid);
  if (thread == runner_) let_go_ = false;
  stopped_ = tracee.process;
  switch (notification.data.nr) {
    case SYS_clone:
    case SYS_clone3:
    case SYS_fork:
    case SYS_vfork:
      ServeNewProcess(notification, tracee);
      listener.ReplyContinue(notification.id);
      return true;
    case SYS_arch_prctl:
      ServeNewProgram(notification, tracee);
      listener.ReplyContinue(notification.id);
      return true;
    case SYS_clock_gettime:
    case SYS_gettimeofday:
    case SYS_time:
      ServeClock(notification, tracee.process, listener);
      return true;
    case SYS_kill:
    case SYS_tkill:
    case SYS_tgkill:
    case SYS_rt_sigqueueinfo:
    case SYS_rt_tgsigqueueinfo:
    case SYS_pidfd_send_signal:
      signals_sent_ = true;
      quiet_ = false;
      Runs(thread, tracee.process);
      clocks_.Stir(0);  // who gets it
      listener.ReplyContinue(notification.id);
      return true;
    case SYS_sched_yield:
      ServeYield(notification, tracee, listener);
      return true;
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
    case SYS_poll:
    case SYS_ppoll:
    case SYS_select:
    case SYS_pselect6:
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
    case SYS_epoll_pwait2:
    case SYS_futex:
    case SYS_futex_waitv:
    case SYS_rt_sigtimedwait:
    case SYS_mq_timedsend:
    case SYS_mq_timedreceive:
    case SYS_semtimedop:
      ServeWait(notification, tracee, listener);
      return true;
    case SYS_io_uring_setup:
      options_.unknowns->Count("io_uring", 0,
                               "refused: its transfers and timeouts could not be simulated");
      quiet_ = false;
      Runs(thread, tracee.process);
      listener.ReplyError(notification.id, ENOSYS);
      return true;
    default:
      break;
  }
  if (const auto call = TransferCall::Parse(notification)) {
    ServeTransfer(notification, *call, tracee, listener);
    return true;
  }
  if (!VirtualTimers::Serves(notification.data.nr)) return false;
  Process& process = clocks_.Stopped(tracee.process, thread);
  clocks_.ChargeFruitless(process);
  timers_.Serve(notification, tracee, ProcessClocks::SeenBy(process, thread), listener);
  quiet_ = false;
  Runs(thread, tracee.process);
  return true;
}

void SimulatedTime::ServeNewProcess(const seccomp_notif& notification, const Tracee& tracee) {
  const pid_t thread = static_cast<pid_t>(notification.pid);
  clocks_.Stopped(tracee.process, thread);  // the child starts with this time
  quiet_ = false;
  Runs(thread, tracee.process);
  if (MakesThread(notification)) {
    activity_.StartsThread(tracee.process);
    return;
  }
  processes_known_ = false;
  forkers_.insert(tracee.process);
}

void SimulatedTime::ServeNewProgram(const seccomp_notif& notification, const Tracee& tracee) {
  // It sets the thread pointer, which every C library does once, before anything of the
  // program runs.
  clocks_.Of(tracee.process);
  timers_.NewProgram(tracee.process);
  processes_known_ = quiet_ = false;  // a rank that was started from outside
  Runs(static_cast<pid_t>(notification.pid), tracee.process);
  if (auto status = vdso_.Redirect(tracee.process); !status.ok()) {
    options_.unknowns->Count("clock of a process", 0,
                             "it reads real time: " + std::string(status.message()));
  }
}

bool SimulatedTime::WriteClock(pid_t thread, RemoteAddress to, int clock, VirtualTime now) const {
  const int64_t time = now.nanoseconds() + (IsRealtime(clock) ? realtime_offset_ : 0);
  const timespec value{.tv_sec = time / 1'000'000'000, .tv_nsec = time % 1'000'000'000};
  return RemoteMemory(thread).WriteObject(to, value);
}

void SimulatedTime::AnswerClock(const seccomp_notif& notification, VirtualTime now,
                                NotifyListener& listener) {
  const pid_t thread = static_cast<pid_t>(notification.pid);
  const auto& arguments = notification.data.args;
  const int64_t realtime = now.nanoseconds() + realtime_offset_;
  const RemoteMemory memory(thread);
  bool written = true;
  int64_t value = 0;
  switch (notification.data.nr) {
    case SYS_clock_gettime:
      written =
          WriteClock(thread, RemoteAddress{arguments[1]}, static_cast<int>(arguments[0]), now);
      break;
    case SYS_gettimeofday: {
      const timeval time{.tv_sec = realtime / 1'000'000'000,
                         .tv_usec = realtime % 1'000'000'000 / 1000};
      const struct timezone utc {};
      if (arguments[0] != 0) written = memory.WriteObject(RemoteAddress{arguments[0]}, time);
      if (arguments[1] != 0) written &= memory.WriteObject(RemoteAddress{arguments[1]}, utc);
      break;
    }
    case SYS_time:
      value = realtime / 1'000'000'000;
      if (arguments[0] != 0) written = memory.WriteObject(RemoteAddress{arguments[0]}, value);
      break;
  }
  if (written) {
    listener.ReplyValue(notification.id, value);
  } else {
    listener.ReplyError(notification.id, EFAULT);
  }
}

void SimulatedTime::ServeClock(const seccomp_notif& notification, pid_t id,
                               NotifyListener& listener) {
  ++counters_.clock_reads;
  const pid_t thread_id = static_cast<pid_t>(notification.pid);
  const int clock = static_cast<int>(notification.data.args[0]);
  const bool continues = quiet_ && sole_runner_ == thread_id;
  if (continues) clocks_.DiscardProcessorTime(clocks_.Of(id), id);  // it only looked again
  Process& process = clocks_.Stopped(id, thread_id);
  Thread& thread = process.threads[thread_id];
  clocks_.NoteRead(process, thread);
  const bool raw =
      notification.data.nr == SYS_clock_gettime && clock == CLOCK_MONOTONIC_RAW && process.uses_gpu;
  // Who has submitted something has not been waiting.
  if (process.submissions > 0 || !raw) clocks_.EndWait(thread, id, thread_id);
  if (process.submissions > 0) thread = Thread{};
  thread.spins = raw ? thread.spins + 1 : 0;
  if (thread.spins >= kSpinsOfWait) {
    quiet_ = continues;
    sole_runner_ = 0;
    if (!continues) ++counters_.gpu_waits;
    HeldCall held;
    held.process = id;
    held.thread = thread_id;
    held.clock = clock;
    held.clock_out = RemoteAddress{notification.data.args[1]};
    held.since = process.now;
    if (process.next_event == VirtualTime::Infinity() && !process.waits_for_others) {
      // Its own GPUs have nothing to do, so it waits for somebody else. It looks again
      // later, and later still.
      const uint32_t looks = std::min(thread.spins - kSpinsOfWait, kLooksUntilRarest);
      held.deadline = process.now + VirtualSpan::Microseconds(int64_t{1} << looks);
    }
    Hold(notification.id, std::move(held));
    return;
  }
  quiet_ = false;
  if (thread.reads > ProcessClocks::kReadsOfWait && NextThing() <= process.now) {
    // It waits for somebody who has to be earlier.
    auto wait = std::make_unique<TimedWait>(notification, process.now);
    HoldOrAnswer(notification, id, -1, std::move(wait), listener);
    return;
  }
  Runs(thread_id, id);
  // libcuda's reads are not charged, whose number depends on how its threads happen to run:
  // CLOCK_MONOTONIC_RAW, and calls so coarse that nobody could tell.
  const bool charged = notification.data.nr == SYS_clock_gettime && clock != CLOCK_MONOTONIC_RAW;
  VirtualTime shown = ProcessClocks::SeenBy(process, thread_id);
  if (charged || thread.reads > ProcessClocks::kReadsOfWait) {
    shown = clocks_.ReadClock(process, thread_id);
  } else {
    ++thread.reads;
  }
  AnswerClock(notification, shown, listener);
}

void SimulatedTime::ServeYield(const seccomp_notif& notification, const Tracee& tracee,
                               NotifyListener& listener) {
  const pid_t thread = static_cast<pid_t>(notification.pid);
  const Process* known = clocks_.Find(tracee.process);
  if (known == nullptr || !known->uses_gpu || !clocks_.QueuesOf(tracee.process).full) {
    quiet_ = false;
    Runs(thread, tracee.process);
    listener.ReplyContinue(notification.id);
    return;
  }
  Process& process = clocks_.Stopped(tracee.process, thread);
  quiet_ = false;
  HeldCall held;
  held.process = tracee.process;
  held.thread = thread;
  held.for_room = true;
  held.since = process.now;
  Hold(notification.id, std::move(held));
  LetRoomWaitersGo(listener);
}

void SimulatedTime::AnswerHeld(HeldCalls::Calls::iterator call, NotifyListener& listener) {
  const uint64_t id = call->first;
  const HeldCall held = held_.Take(call);
  quiet_ = false;
  Runs(held.thread, held.process);
  Log(held, "goes on:");
  listener.ReplyValue(id, held.value);
}

bool SimulatedTime::HoldsAnswer(const seccomp_notif& notification, pid_t id, int64_t value) {
  const pid_t thread = static_cast<pid_t>(notification.pid);
  Process& process = clocks_.Of(id);
  // With work or a wait between them (see Hold), it is no loop over driver calls.
  if (process.submissions > 0 || process.last_driver_caller != thread) process.driver_calls = 0;
  process.last_driver_caller = thread;
  if (++process.driver_calls <= ProcessClocks::kReadsOfWait || NextThing() > process.now) {
    return false;
  }
  HeldCall held;
  held.process = id;
  held.thread = thread;
  held.for_others = true;
  held.value = value;
  held.since = held.deadline = process.now;
  Hold(notification.id, std::move(held));
  return true;
}

void SimulatedTime::LetRoomWaitersGo(NotifyListener& listener) {
  if (held_.room_waiters() == 0) return;
  for (auto it = held_.begin(); it != held_.end();) {
    const auto next = std::next(it);
    if (it->second.for_room) {
      const Process& process = clocks_.Of(it->second.process);
      const bool nothing_comes =
          process.next_event == VirtualTime::Infinity() && !process.waits_for_others;
      if (nothing_comes || !clocks_.QueuesOf(process.id).short_of_room) AnswerHeld(it, listener);
    }
    it = next;
  }
}

void SimulatedTime::ServeWait(const seccomp_notif& notification, const Tracee& tracee,
                              NotifyListener& listener) {
  const pid_t thread = static_cast<pid_t>(notification.pid);
  Process& process = clocks_.Stopped(tracee.process, thread, true);
  HoldOrAnswer(notification, tracee.process, tracee.pidfd.get(),
               std::make_unique<TimedWait>(notification, ProcessClocks::SeenBy(process, thread),
                                           realtime_offset_),
               listener);
}

void SimulatedTime::HoldOrAnswer(const seccomp_notif& notification, pid_t id, int pidfd,
                                 std::unique_ptr<TimedWait> wait, NotifyListener& listener) {
  const pid_t thread = static_cast<pid_t>(notification.pid);
  Process& process = clocks_.Of(id);
  if (!wait->is_clock()) clocks_.ForgetThread(process, id, thread);
  quiet_ = false;
  if (wait->verdict() == TimedWait::Verdict::kWait) {
    const int descriptor = wait->WatchDescriptors(pidfd, held_.copies_left(id));
    if ((descriptor >= 0 && IsReady(descriptor, POLLIN) && wait->CollectReady()) ||
        wait->AwaitsSignal(SignalsOf(thread).pending())) {
      Runs(thread, id);
      wait->ReleaseDescriptors();
      wait->Ready(listener, process.now);
      return;
    }
  }
  switch (wait->verdict()) {
    case TimedWait::Verdict::kContinue:
      if (wait->left_to_kernel() != nullptr) {
        options_.unknowns->Count("timeout kept in real time by system call",
                                 static_cast<uint64_t>(notification.data.nr),
                                 wait->left_to_kernel());
      }
      if (!clocks_.PassesOver(process, thread)) process.now = process.now + kFruitlessLook;
      Runs(thread, id);
      listener.ReplyContinue(notification.id);
      return;
    case TimedWait::Verdict::kInvalid:
      clocks_.ChargeFruitless(process);
      Runs(thread, id);
      listener.ReplyError(notification.id, wait->error());
      return;
    case TimedWait::Verdict::kWait:
      break;
  }
  HeldCall held;
  held.process = id;
  held.thread = thread;
  held.deadline = wait->deadline();
  if (held.deadline <= process.now && !wait->is_clock()) {
    clocks_.ChargeFruitless(process);
    held.deadline = process.now;
  }
  held.wait = std::move(wait);
  held.since = process.now;
  Hold(notification.id, std::move(held));
}

void SimulatedTime::NotBeforeSender(Process& process, const TransferCall& call,
                                    const Conduit& conduit, int file) {
  if (call.kind != TransferCall::Kind::kReceive) return;
  int unread = 0;
  ioctl(file, FIONREAD, &unread);
  const VirtualTime sent =
      messages_.Received(conduit, static_cast<uint64_t>(std::max(unread, 0)), call.bytes);
  process.now = std::max(process.now, sent);
}

void SimulatedTime::ServeTransfer(const seccomp_notif& notification, const TransferCall& call,
                                  const Tracee& tracee, NotifyListener& listener) {
  const pid_t thread = static_cast<pid_t>(notification.pid);
  UniqueFd file;
  if (Conduit::MayBe(thread, call.descriptor)) {
    file = UniqueFd(
        static_cast<int>(syscall(SYS_pidfd_getfd, tracee.pidfd.get(), call.descriptor, 0)));
  }
  const Conduit conduit = file.valid() ? Conduit::Of(file.get()) : Conduit();
  if (conduit.kind == Conduit::Kind::kOther) {
    if (call.kind == TransferCall::Kind::kReceive && file.valid()) timers_.BeforeRead(file.get());
    file.reset();
    quiet_ = false;
    Runs(thread, tracee.process);
    listener.ReplyContinue(notification.id);
    return;
  }
  ++counters_.transfers;
  Process& process = clocks_.Stopped(tracee.process, thread, true);
  const bool sends = call.kind == TransferCall::Kind::kSend;
  const bool is_socket = conduit.kind == Conduit::Kind::kSocket;
  const bool ready = IsReady(file.get(), sends ? POLLOUT : POLLIN);
  VirtualTime deadline = VirtualTime::Infinity();
  if (is_socket) {
    deadline = SocketDeadline(file.get(), sends ? SO_SNDTIMEO : SO_RCVTIMEO,
                              ProcessClocks::SeenBy(process, thread));
  }
  const bool waits = !ready && !conduit.nonblocking && !call.dont_wait;
  // A send that blocks is left to the kernel, unless it has a timeout.
  if (waits && (!sends || deadline != VirtualTime::Infinity())) {
    file.reset();
    HoldOrAnswer(notification, tracee.process, tracee.pidfd.get(),
                 std::make_unique<TimedWait>(notification, call.descriptor,
                                             sends ? uint32_t{EPOLLOUT} : EPOLLIN, deadline),
                 listener);
    return;
  }
  clocks_.ForgetThread(process, tracee.process, thread);
  if (!ready && !waits) {
    clocks_.ChargeFruitless(process);
  } else if (sends) {
    messages_.Sent(conduit, call.bytes, ProcessClocks::SeenBy(process, thread), tracee.process);
    clocks_.Stir(0);  // who receives it
  } else {
    NotBeforeSender(process, call, conduit, file.get());
  }
  file.reset();  // it must not outlive the descriptor of a caller who closes it next
  quiet_ = false;
  Runs(thread, tracee.process);
  listener.ReplyContinue(notification.id);
}

// --- Held calls ---------------------------------------------------------------------

void SimulatedTime::Log(const HeldCall& held, const char* what) {
  if (!options_.log->enabled()) return;
  const auto seconds = [](VirtualTime time) {
    return (time - ProcessClocks::Start()).picoseconds() / 1e12;
  };
  const bool ends = held.deadline != VirtualTime::Infinity();
  options_.log->Line(
      held.process,
      absl::StrFormat("thread %d at %.9f s: %s %s%s", held.thread,
                      seconds(clocks_.Of(held.process).now), what,
                      held.wait != nullptr ? held.wait->name()
                      : held.for_room      ? "wait for room in a queue"
                      : held.for_others    ? "driver call, for others to come"
                                           : "wait for a GPU",
                      ends ? absl::StrFormat(" until %.9f s", seconds(held.deadline)) : ""));
}

void SimulatedTime::Hold(uint64_t id, HeldCall held) {
  ++counters_.waits;
  Process& process = clocks_.Of(held.process);
  if (held.deadline > process.now) process.fruitless = process.driver_calls = 0;
  Log(held, "begins");
  held_.Add(id, std::move(held));
}

void SimulatedTime::LetGo(HeldCalls::Calls::iterator call, NotifyListener& listener,
                          Answer answer) {
  const HeldCall held = held_.Take(call);
  quiet_ = false;
  Runs(held.thread, held.process);
  Process& process = clocks_.Of(held.process);
  clocks_.TakeProcessorTime(process, held.process);
  if (answer == &TimedWait::Ready && held.wait->is_descriptor()) {
    const Conduit conduit = Conduit::Of(held.wait->copy());
    const auto transfer = TransferCall::Parse(held.wait->notification());
    if (transfer) NotBeforeSender(process, *transfer, conduit, held.wait->copy());
    if (transfer && transfer->kind == TransferCall::Kind::kSend) {
      messages_.Sent(conduit, transfer->bytes, ProcessClocks::SeenBy(process, held.thread),
                     held.process);
      clocks_.Stir(0);
    }
  }
  held.wait->ReleaseDescriptors();
  Log(held, answer == &TimedWait::TimeOut ? "timed out"
            : answer == &TimedWait::Ready ? "was ready:"
                                          : "was interrupted:");
  if (held.wait->is_clock()) {
    AnswerClock(held.wait->notification(), clocks_.ReadClock(process, held.thread), listener);
  } else {
    (held.wait.get()->*answer)(listener, process.now);
  }
}

void SimulatedTime::LetGpuWaitersGo(pid_t id, NotifyListener& listener) {
  Process& process = clocks_.Of(id);
  process.seen = false;
  pid_t runner = 0;
  int runners = 0;
  for (auto it = held_.begin(); it != held_.end();) {
    auto next = std::next(it);
    if (it->second.process == id && it->second.for_gpu()) {
      const uint64_t notification = it->first;
      const HeldCall held = held_.Take(it);
      process.waited = process.waited + (process.now - held.since);
      Thread& thread = process.threads[held.thread];
      if (thread.waited_until != held.since) clocks_.EndWait(thread, id, held.thread);
      if (thread.waiting_since == VirtualTime()) thread.waiting_since = held.since;
      thread.waited_until = process.now;
      Log(held, "looks again:");
      runner = held.thread;
      ++runners;
      if (WriteClock(held.thread, held.clock_out, held.clock, process.now)) {
        listener.ReplyValue(notification, 0);
      } else {
        listener.ReplyError(notification, EFAULT);
      }
    }
    it = next;
  }
  if (runners == 0) return;
  Runs(runner, id);
  sole_runner_ = runners == 1 && quiet_ ? runner : 0;
  quiet_ = sole_runner_ != 0;
}

void SimulatedTime::LetServedWaitersGo(NotifyListener& listener) {
  if (held_.empty()) return;
  LetRoomWaitersGo(listener);
  std::vector<pid_t> served;
  for (const auto& [id, process] : clocks_.all()) {
    if (process->seen && held_.gpu_waiters(id) > 0) served.push_back(id);
  }
  for (const auto& [id, held] : held_.all()) {
    // It waited for its GPUs, and they have nothing more to do.
    if (!held.for_gpu() || held.deadline != VirtualTime::Infinity()) continue;
    const Process& process = clocks_.Of(held.process);
    if (process.next_event == VirtualTime::Infinity() && !process.waits_for_others) {
      served.push_back(held.process);
    }
  }
  for (const pid_t process : served) LetGpuWaitersGo(process, listener);
}

void SimulatedTime::TakeTick() {
  uint64_t expirations;
  if (read(tick_.get(), &expirations, sizeof expirations) != sizeof expirations) return;
  ticked_ns_ = tick_ns_;
  tick_ns_ = 0;
}

bool SimulatedTime::Ready(int descriptor, NotifyListener& listener) {
  if (descriptor == tick_.get()) {
    // Time does not pass here: a call may be at hand that has not been served yet.
    TakeTick();
    // The tick may have been armed long before.
    if (HostNanoseconds(CLOCK_MONOTONIC) - let_go_since_ > kShortestTick / 2) let_go_ = false;
    stopped_ = 0;
    if (sole_runner_ != 0) quiet_ = false, sole_runner_ = 0;  // it does something else
    const int nudged =
        clocks_.Nudge([this](pid_t process) { return held_.gpu_waiters(process) > 0; });
    counters_.nudges += static_cast<uint64_t>(nudged);
    if (nudged > 0) ticked_ns_ = 0;  // look again soon
    return true;
  }
  bool known = false;
  auto call = held_.Watching(descriptor, &known);
  if (call != held_.end() && call->second.wait->CollectReady()) {
    LetGo(call, listener, &TimedWait::Ready);
  }
  return known;
}

void SimulatedTime::CheckPolled(pid_t process, NotifyListener& listener) {
  if (held_.polled() == 0) return;
  const int64_t begin = HostNanoseconds(CLOCK_MONOTONIC);
  for (auto it = held_.begin(); it != held_.end();) {
    auto next = std::next(it);
    const HeldCall& held = it->second;
    const bool looked_at = (process == 0 || held.process == process) && held.wait != nullptr &&
                           held.wait->is_polled();
    if (looked_at && !(held.wait->is_private() && clocks_.Of(held.process).polled()) &&
        held.wait->Changed()) {
      LetGo(it, listener, &TimedWait::Ready);
    }
    // A process that waits for very much memory finds out later.
    if (process != 0 && HostNanoseconds(CLOCK_MONOTONIC) - begin > kLongestLook) break;
    it = next;
  }
  if (process != 0) return;
  for (const auto& [id, known] : clocks_.all()) known->polled_at_rest = known->at_rest;
}

void SimulatedTime::CheckSignals(NotifyListener& listener) {
  // One thread handles a signal that was sent to a process: the first, if it may.
  absl::flat_hash_map<pid_t, uint64_t> handlers;
  for (auto it = held_.begin(); it != held_.end();) {
    auto next = std::next(it);
    const HeldCall& held = it->second;
    const ThreadSignals signals = SignalsOf(held.thread);
    // First the signal, then whether the call still stands: who is being killed has one
    // or the other.
    if (signals.killed() || !listener.StillPending(it->first)) {
      if (!signals.killed()) held_.Take(it);
      quiet_ = false;
      Runs(0, 0);  // it is about to end, and whoever waits for that goes on now
    } else if (held.wait != nullptr && !held.wait->is_clock()) {
      const std::optional<uint64_t> mask = held.wait->mask();
      if (signals.Due(signals.own, mask) != 0) {
        LetGo(it, listener, &TimedWait::Interrupt);
      } else if (held.wait->AwaitsSignal(signals.pending())) {
        LetGo(it, listener, &TimedWait::Ready);
      } else if (signals.Due(signals.shared, mask) != 0 &&
                 (held.thread == held.process || !handlers.contains(held.process))) {
        handlers[held.process] = it->first;
      }
    }
    it = next;
  }
  for (const auto& [process, id] : handlers) {
    auto it = held_.begin();
    while (it != held_.end() && it->first != id) ++it;
    if (it != held_.end()) LetGo(it, listener, &TimedWait::Interrupt);
  }
  last_signal_check_ns_ = HostNanoseconds(CLOCK_MONOTONIC);
}

bool SimulatedTime::CheckTimers(NotifyListener& listener) {
  bool expired = false;
  for (const pid_t id : timers_.Processes()) {
    Process* process = clocks_.Find(id);
    if (process != nullptr) expired |= timers_.ExpireDue(id, process->now);
  }
  if (!expired) return false;
  quiet_ = false;
  CheckSignals(listener);
  return true;
}

// --- Passing of time ----------------------------------------------------------------

bool SimulatedTime::RunsForNothing() {
  const pid_t thread = activity_.running();
  const int64_t ran = RunTime(thread);
  if (thread != suspect_ || clocks_.last_progress() > suspect_since_) {
    suspect_ = thread;
    suspect_ran_ = ran;
    suspect_since_ = clocks_.last_progress();
  }
  return ran - suspect_ran_ > kImpatience;
}

bool SimulatedTime::MayPass(VirtualTime to, NotifyListener& listener, bool again) {
  // Calls that have not been received, and descriptors that held calls wait for.
  pollfd events{options_.epoll, POLLIN, 0};
  const auto is_called = [&] {
    TakeTick();  // all that it asks for is a look
    return listener.HasCall() || poll(&events, 1, 0) > 0;
  };
  if (is_called()) {
    quiet_ = false;
    return false;
  }
  ++counters_.scans;
  if (!processes_known_) {
    processes_ = Descendants();
    processes_known_ = true;
    activity_.KeepOnly(processes_);
  }
  std::vector<pid_t> behind;
  bool somebody_ahead = false;
  for (const pid_t id : processes_) {
    Process* process = clocks_.Find(id);
    if (process != nullptr) clocks_.TakeProcessorTime(*process, id);
    if (process != nullptr && process->now >= to) {
      somebody_ahead = true;
      continue;
    }
    // Who rested at the last look and has had no reason to wake does so still.
    if (process != nullptr && clocks_.RestsStill(*process)) continue;
    if (process != nullptr) clocks_.BeginLook(*process);
    behind.push_back(id);
  }
  const auto held = [this](pid_t thread) { return held_.HoldsThread(thread); };
  const bool blocked = activity_.AllBlocked(behind, held);
  const bool called = is_called();
  if (called || !blocked) {
    if (activity_.saw_dying()) processes_known_ = false;
    quiet_ = false;
    return !called && RunsForNothing();
  }
  for (const pid_t id : behind) {
    if (Process* process = clocks_.Find(id)) clocks_.NoteRest(*process);
  }
  // The child of somebody who is ahead is ahead too.
  const auto seen_blocked = [&](pid_t forker) {
    const Process* process = clocks_.Find(forker);
    return process == nullptr || process->now < to;
  };
  if (!again && absl::erase_if(forkers_, seen_blocked) > 0) {
    processes_known_ = false;
    return MayPass(to, listener, true);
  }
  quiet_ = !somebody_ahead;
  sole_runner_ = 0;
  return true;
}

int SimulatedTime::SubmitAll(VirtualTime before) {
  int submitted = 0;
  for (auto& [id, process] : clocks_.all()) {
    if (process->now >= before) continue;
    submitted += clocks_.Submit(*process, id, process->now);
  }
  return submitted;
}

VirtualTime SimulatedTime::NextThing() {
  auto call = held_.Earliest();
  const VirtualTime deadline =
      call == held_.end() ? VirtualTime::Infinity() : call->second.deadline;
  return std::min({deadline, timers_.Earliest().time, clocks_.EarliestEvent().second,
                   clocks_.NextSharedEvent()});
}

void SimulatedTime::Pass(NotifyListener& listener) {
  // Others are to be served too, even if GPUs never come to rest.
  const int64_t begin = HostNanoseconds(CLOCK_MONOTONIC);
  const int64_t ticked = ticked_ns_;
  bool hidden_work = false;
  const auto held_calls = static_cast<int64_t>(held_.all().size());
  if (begin - last_signal_check_ns_ > std::max(kSignalCheck, held_calls * kSignalCheckPerCall)) {
    CheckSignals(listener);
  }
  // Memory changes when a process runs: its own calls may wait for that, and once in a
  // while others.
  CheckPolled(stopped_, listener);
  CheckTimers(listener);
  while (HostNanoseconds(CLOCK_MONOTONIC) - begin < kLongestPass) {
    if (let_go_ || (quiet_ && sole_runner_ != 0)) break;
    LetServedWaitersGo(listener);
    if (let_go_ || (quiet_ && sole_runner_ != 0)) break;
    auto call = held_.Earliest();
    const VirtualTime deadline =
        call == held_.end() ? VirtualTime::Infinity() : call->second.deadline;
    const VirtualTimers::Due timer = timers_.Earliest();
    const auto [process, event] = clocks_.EarliestEvent();
    const VirtualTime shared = clocks_.NextSharedEvent();
    const VirtualTime next = std::min({deadline, event, timer.time, shared});
    if (next == VirtualTime::Infinity()) {
      // Work may have been submitted by threads that have not made a call since.
      hidden_work = clocks_.HasHiddenWork();
      if (!hidden_work || ticked == 0 || !MayPass(next, listener) || SubmitAll(next) == 0) break;
      quiet_ = false;
      continue;
    }
    const bool known_quiet = quiet_ && sole_runner_ == 0;
    if (!known_quiet) {
      if (!MayPass(next, listener)) break;
      // What was submitted before everybody stopped; not what somebody submits who runs.
      const int submitted = SubmitAll(quiet_ ? VirtualTime::Infinity() : next);
      CheckPolled(0, listener);
      if (signals_sent_) {
        signals_sent_ = !quiet_;
        CheckSignals(listener);
      }
      // It may have raised an interrupt, and woken somebody.
      if (submitted > 0) quiet_ = false;
      if (submitted > 0 || let_go_) continue;
    }
    clocks_.NoteProgress();
    ++counters_.jumps;
    // What is shared comes first: what GPUs do at this time may follow from it.
    clocks_.Passed(next);
    if (shared == next) {
      if (quiet_) clocks_.LiftAll(next, true);
      continue;
    }
    if (event <= std::min(deadline, timer.time)) {
      PassToEvent(process, event, listener);
    } else if (timer.time <= deadline) {
      PassToTimer(timer, listener);
    } else {
      PassToDeadline(call, listener);
    }
  }
  ticked_ns_ = 0;
  ArmNextTick(hidden_work, ticked);
}

bool SimulatedTime::AtRest(NotifyListener& listener) {
  const VirtualTime never = VirtualTime::Infinity();
  return NextThing() == never && !clocks_.HasHiddenWork() && MayPass(never, listener) && quiet_;
}

void SimulatedTime::PassToEvent(pid_t id, VirtualTime event, NotifyListener& listener) {
  Process& process = clocks_.Of(id);
  const auto progress = clocks_.Advance(process, id, event);
  if (quiet_) {
    clocks_.LiftAll(progress.time, true);
  } else {
    process.now = std::max(process.now, progress.time);
  }
  if (progress.interrupted) quiet_ = false;
  process.seen |= progress.released || progress.interrupted;
  LetServedWaitersGo(listener);
  if (progress.interrupted) {
    quiet_ = false;
    Runs(0, id);  // somebody, perhaps
  }
}

void SimulatedTime::PassToTimer(VirtualTimers::Due due, NotifyListener& listener) {
  if (quiet_) clocks_.LiftAll(due.time, true);
  Process& process = clocks_.Of(due.process);
  process.now = std::max(process.now, due.time);
  timers_.ExpireDue(due.process, process.now);
  quiet_ = false;
  Runs(0, 0);  // who handles the signal, or reads the timer
  CheckSignals(listener);
}

void SimulatedTime::PassToDeadline(HeldCalls::Calls::iterator call, NotifyListener& listener) {
  const VirtualTime deadline = call->second.deadline;
  if (quiet_) clocks_.LiftAll(deadline, true);
  Process& process = clocks_.Of(call->second.process);
  process.now = std::max(process.now, deadline);
  if (call->second.for_others) {
    AnswerHeld(call, listener);
  } else if (call->second.for_gpu()) {
    LetGpuWaitersGo(call->second.process, listener);
  } else {
    LetGo(call, listener, &TimedWait::TimeOut);
  }
}

void SimulatedTime::ArmNextTick(bool hidden_work, int64_t ticked) {
  // While others run and nothing happens, the looks become rarer.
  const bool timers = timers_.Earliest().time != VirtualTime::Infinity();
  if (!held_.empty() || timers || hidden_work ||
      clocks_.EarliestEvent().second != VirtualTime::Infinity() ||
      clocks_.NextSharedEvent() != VirtualTime::Infinity()) {
    const int64_t polled = held_.polled() * kTickPerPolled;
    const int64_t longest = held_.polled() > 0 ? std::max(polled, kPolledTick) : kLongestTick;
    ArmTick(let_go_ ? kShortestTick : std::clamp(ticked * 2, kShortestTick, longest));
  } else if (clocks_.gpu_processes() > 0) {
    ArmTick(kLongestTick);  // submissions of one that makes no calls
  }
}

void SimulatedTime::ArmTick(int64_t nanoseconds) {
  const int64_t now = HostNanoseconds(CLOCK_MONOTONIC);
  if (tick_ns_ != 0 && tick_ns_ <= nanoseconds) {
    // While calls come, nobody has to look; others wait no longer for that than a while.
    const bool postponed = let_go_ && now - armed_since_ > kShortestTick / 2 &&
                           now - tick_wanted_since_ < kLongestPostponement;
    if (!postponed) return;
  } else {
    tick_wanted_since_ = now;
  }
  armed_since_ = now;
  tick_ns_ = nanoseconds;
  const itimerspec once{.it_interval = {}, .it_value = {.tv_sec = 0, .tv_nsec = tick_ns_}};
  timerfd_settime(tick_.get(), 0, &once, nullptr);
}

}  // namespace phantora
