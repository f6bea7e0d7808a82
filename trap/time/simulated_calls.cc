// SimulatedTime's calls: what processes ask for.
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "trap/linux/descriptor_copy.h"
#include "trap/time/descriptor_state.h"
#include "trap/time/host_segments.h"
#include "trap/time/simulated_time.h"
#include "trap/time/waits/clock_wait.h"
#include "trap/time/waits/parse_wait.h"
#include "trap/time/waits/transfer_wait.h"
#include "trap/time/waits/wait_arguments.h"

namespace phantora {
namespace {

// CLOCK_MONOTONIC_RAW reads in a row that make a wait for a GPU. libcuda's event thread
// makes two between its polls.
constexpr uint32_t kSpinsOfWait = 6;
// A spinning thread with idle GPUs looks after 1 us, 2 us, ... 1024 us.
constexpr uint32_t kLooksUntilRarest = 10;

// SO_RCVTIMEO or SO_SNDTIMEO; Infinity if there is none.
VirtualTime SocketDeadline(int socket, int option, VirtualTime now) {
  timeval timeout{};
  socklen_t size = sizeof timeout;
  if (getsockopt(socket, SOL_SOCKET, option, &timeout, &size) != 0 ||
      (timeout.tv_sec == 0 && timeout.tv_usec == 0)) {
    return VirtualTime::Infinity();
  }
  return After(now, timeout);
}

// Does the call make a thread of the same process?
bool MakesThread(const TrappedCall& call) {
  uint64_t flags = 0;
  if (call.number() == SYS_clone) {
    flags = call.Word(0);
  } else if (call.number() == SYS_clone3) {
    // The first member of clone_args. (If another thread changes it meanwhile, that process is
    // found when the next one forks: it is the caller's own time that may then pass too early.)
    flags = call.memory().ReadObject<uint64_t>(call.Address(0)).value_or(0);
  }
  return (flags & CLONE_THREAD) != 0;
}

}  // namespace

SimulatedTime::Handler SimulatedTime::HandlerOf(int call) {
  static const auto* const handlers = new absl::flat_hash_map<int, Handler>{
      {SYS_clone, &SimulatedTime::ServeNewProcess},
      {SYS_clone3, &SimulatedTime::ServeNewProcess},
      {SYS_fork, &SimulatedTime::ServeNewProcess},
      {SYS_vfork, &SimulatedTime::ServeNewProcess},
      {SYS_arch_prctl, &SimulatedTime::ServeNewProgram},
      {SYS_set_robust_list, &SimulatedTime::ServeThreadBegins},
      {SYS_exit, &SimulatedTime::ServeThreadEnds},
      {SYS_clock_gettime, &SimulatedTime::ServeClock},
      {SYS_gettimeofday, &SimulatedTime::ServeClock},
      {SYS_time, &SimulatedTime::ServeClock},
      {SYS_kill, &SimulatedTime::ServeSignal},
      {SYS_tkill, &SimulatedTime::ServeSignal},
      {SYS_tgkill, &SimulatedTime::ServeSignal},
      {SYS_rt_sigqueueinfo, &SimulatedTime::ServeSignal},
      {SYS_rt_tgsigqueueinfo, &SimulatedTime::ServeSignal},
      {SYS_pidfd_send_signal, &SimulatedTime::ServeSignal},
      {SYS_fcntl, &SimulatedTime::ServeStop},
      {SYS_prctl, &SimulatedTime::ServeStop},
      {SYS_mq_notify, &SimulatedTime::ServeStop},
      {SYS_sched_yield, &SimulatedTime::ServeYield},
  };
  if (const auto handler = handlers->find(call); handler != handlers->end()) {
    return handler->second;
  }
  if (IsWait(call)) return &SimulatedTime::ServeWait;
  return VirtualTimers::Serves(call) ? &SimulatedTime::ServeTimer : nullptr;
}

bool SimulatedTime::Serve(const TrappedCall& call) {
  if (call.thread() == runner_) let_go_ = false;
  stopped_ = call.process();
  HeardOf(call.process(), call.thread());
  const Handler handler =
      IsFutexWake(call) ? &SimulatedTime::ServeFutexWake : HandlerOf(call.number());
  if (handler != nullptr) {
    (this->*handler)(call);
    return true;
  }
  const auto transfer = TransferCall::Parse(call, call.memory());
  if (transfer) ServeTransfer(call, *transfer);
  return transfer.has_value();
}

bool SimulatedTime::IsSeenByOthers(const TrappedCall& call, CallHandler handler) {
  switch (handler) {
    case CallHandler::kPort:
    case CallHandler::kSignal:
      return true;
    case CallHandler::kProcess:
      return call.number() != SYS_set_robust_list && call.number() != SYS_exit &&
             !MakesThread(call);
    case CallHandler::kTransfer:
      return Conduit::MayBe(call.thread(), call.Int(0));
    case CallHandler::kWait:
      switch (call.number()) {
        case SYS_nanosleep:
        case SYS_clock_nanosleep:
        case SYS_rt_sigtimedwait:
          return false;
        case SYS_futex:
          return (call.Int(1) & FUTEX_PRIVATE_FLAG) == 0;
        default:
          return true;
      }
    default:
      return false;
  }
}

bool SimulatedTime::Holds(const TrappedCall& call, CallHandler handler,
                          const seccomp_notif& notification) {
  if (options_.threads == nullptr || call.id() == ordered_) return false;
  // With a clock of its own, a thread does not come after what another one does later.
  if ((learns() || !order_.Has(call.process())) && !IsSeenByOthers(call, handler)) return false;
  const VirtualTime now = clocks_.NowOf(call.process());
  if (order_.empty() && options_.threads->AllOthersStand(call.process()) && NextThing() > now) {
    ordered_at_ = now;
    return false;
  }
  if (call.thread() == runner_) let_go_ = false;
  if (learns()) {
    options_.threads->Stopped(call.id(), call.process(), call.thread());
  } else {
    options_.threads->StandsUnserved(call.process());
  }
  order_.Add(now, call.process(), notification);
  return true;
}

void SimulatedTime::ServeTimer(const TrappedCall& call) {
  const pid_t thread = call.thread();
  Process& process = clocks_.Stopped(call.process(), thread);
  clocks_.ChargeFruitless(process, thread);
  NoteAskedStop(call);
  timers_.Serve(call, ProcessClocks::SeenBy(process, thread));
  quiet_ = false;
  Runs(thread, call.process());
}

void SimulatedTime::ServeNewProcess(const TrappedCall& call) {
  const pid_t thread = call.thread();
  spins_.GoesOn(thread);
  Process& process = clocks_.Stopped(call.process(), thread);  // the child starts with this time
  NoteAskedStop(call);
  quiet_ = false;
  Runs(thread, call.process());
  if (MakesThread(call)) {
    process.own.Makes(process.now);
    activity_.StartsThread(call.process());
    if (options_.threads != nullptr) options_.threads->StartsThread(call.id());
  } else {
    ProcessClocks::Forks(process);
    processes_known_ = false;
    forkers_.insert(call.process());
  }
  call.Continue();
}

void SimulatedTime::ServeThreadBegins(const TrappedCall& call) {
  quiet_ = false;
  Runs(call.thread(), call.process());
  call.Continue();
}

void SimulatedTime::ServeThreadEnds(const TrappedCall& call) {
  spins_.GoesOn(call.thread());
  const Process& process = clocks_.Stopped(call.process(), call.thread(), true);
  quiet_ = false;
  LetSpinnersLook(process.now, call.thread());
  if (options_.threads != nullptr) options_.threads->Ends(call.id());
  Runs(call.thread(), call.process());
  call.Continue();
}

void SimulatedTime::ServeNewProgram(const TrappedCall& call) {
  if (options_.threads != nullptr) options_.threads->NewProgram(call.process(), call.thread());
  // It sets the thread pointer, which every C library does once, before anything of the
  // program runs.
  clocks_.Of(call.process());
  timers_.NewProgram(call.process());
  if (learns()) {
    options_.clocks.segments->NewProgram(
        call.process(), ProgramName(options_.clocks.threads->Text(call.process(), "cmdline")));
  }
  processes_known_ = quiet_ = false;  // a rank that was started from outside
  Runs(call.thread(), call.process());
  if (auto status = vdso_.Redirect(call.process()); !status.ok()) {
    options_.unknowns->Count("clock of a process", 0,
                             "it reads real time: " + std::string(status.message()));
  }
  call.Continue();
}

bool SimulatedTime::WriteClock(const RemoteMemory& memory, RemoteAddress to, int clock,
                               VirtualTime now) const {
  const int64_t time = now.nanoseconds() + (IsRealtime(clock) ? realtime_offset_ : 0);
  const timespec value{.tv_sec = time / 1'000'000'000, .tv_nsec = time % 1'000'000'000};
  return memory.WriteObject(to, value);
}

void SimulatedTime::AnswerClock(const CallArguments& call, const RemoteMemory& memory,
                                VirtualTime now, NotifyListener& listener) {
  const int64_t realtime = now.nanoseconds() + realtime_offset_;
  bool written = true;
  int64_t value = 0;
  switch (call.number()) {
    case SYS_clock_gettime:
      written = WriteClock(memory, call.Address(1), call.Int(0), now);
      break;
    case SYS_gettimeofday: {
      const timeval time{.tv_sec = realtime / 1'000'000'000,
                         .tv_usec = realtime % 1'000'000'000 / 1000};
      const struct timezone utc {};
      if (call.Word(0) != 0) written = memory.WriteObject(call.Address(0), time);
      if (call.Word(1) != 0) written &= memory.WriteObject(call.Address(1), utc);
      break;
    }
    case SYS_time:
      value = realtime / 1'000'000'000;
      if (call.Word(0) != 0) written = memory.WriteObject(call.Address(0), value);
      break;
  }
  if (written) {
    listener.ReplyValue(call.id(), value);
  } else {
    listener.ReplyError(call.id(), EFAULT);
  }
}

void SimulatedTime::ServeClock(const TrappedCall& call) {
  ++counters_.clock_reads;
  const pid_t id = call.process();
  const pid_t thread_id = call.thread();
  const int clock = call.Int(0);
  const bool continues = quiet_ && sole_runner_ == thread_id;
  if (continues) clocks_.DiscardProcessorTime(clocks_.Of(id), id);  // it only looked again
  PassOverLoop(clocks_.Of(id), thread_id);
  Process& process = clocks_.Stopped(id, thread_id);
  Thread& thread = process.threads[thread_id];
  clocks_.NoteRead(process, thread);
  const bool raw =
      call.number() == SYS_clock_gettime && clock == CLOCK_MONOTONIC_RAW && process.uses_gpu;
  // Who has submitted something has not been waiting.
  if (process.submissions > 0 || !raw) clocks_.EndWait(thread, id, thread_id);
  if (process.submissions > 0) thread = Thread{}, spins_.GoesOn(thread_id);
  thread.spins = raw ? thread.spins + 1 : 0;
  if (thread.spins >= kSpinsOfWait) {
    quiet_ = continues;
    sole_runner_ = 0;
    if (!continues) ++counters_.gpu_waits;
    HeldCall held;
    held.process = id;
    held.thread = thread_id;
    held.clock = clock;
    held.clock_out = call.Address(1);
    held.since = process.now;
    if (process.next_event == VirtualTime::Infinity() && !process.waits_for_others) {
      // Its own GPUs have nothing to do, so it waits for somebody else. It looks again
      // later, and later still.
      const uint32_t looks = std::min(thread.spins - kSpinsOfWait, kLooksUntilRarest);
      held.deadline = process.now + VirtualSpan::Microseconds(int64_t{1} << looks);
    }
    Hold(call.id(), std::move(held));
    return;
  }
  quiet_ = false;
  if (thread.reads > ProcessClocks::kReadsOfWait && NextThing() <= process.now) {
    // It waits for somebody who has to be earlier.
    auto wait = std::make_unique<ClockWait>(call, process.now);
    HoldOrAnswer(call, id, -1, std::move(wait), call.listener());
    return;
  }
  Runs(thread_id, id);
  // libcuda's reads are not charged, whose number depends on how its threads happen to run:
  // CLOCK_MONOTONIC_RAW, and calls so coarse that nobody could tell.
  const bool charged = call.number() == SYS_clock_gettime && clock != CLOCK_MONOTONIC_RAW;
  VirtualTime shown = ProcessClocks::SeenBy(process, thread_id);
  if (spins_.Spins(thread_id)) {
    // On the way to the next look, which may be in vain.
  } else if (charged || thread.reads > ProcessClocks::kReadsOfWait) {
    shown = clocks_.ReadClock(process, thread_id);
  } else {
    ++thread.reads;
  }
  AnswerClock(call, call.memory(), shown, call.listener());
}

void SimulatedTime::ServeYield(const TrappedCall& call) {
  const pid_t thread = call.thread();
  Process* known = clocks_.Find(call.process());
  bool full = false;
  if (known != nullptr && known->uses_gpu) {
    full = ProcessClocks::IsYieldOfInterest(*known) && clocks_.QueuesOf(call.process()).full;
    ProcessClocks::NoteYield(*known, full);
  }
  if (!full) return ServeVainYield(call);
  Process& process = clocks_.Stopped(call.process(), thread);
  quiet_ = false;
  HeldCall held;
  held.process = call.process();
  held.thread = thread;
  held.for_room = true;
  held.since = process.now;
  Hold(call.id(), std::move(held));
  LetRoomWaitersGo(call.listener());
}

void SimulatedTime::ServeVainYield(const TrappedCall& call) {
  const pid_t thread = call.thread();
  const SpinLoops::Turn turn = LookInVain(clocks_.Of(call.process()), thread);
  quiet_ = false;
  if (turn.spins) {
    Process& process = clocks_.Stopped(call.process(), thread, true);
    HoldForOthers(call, process,
                  {.deadline = process.now + turn.step, .for_others = true, .spins = true});
    return;
  }
  Runs(thread, call.process());
  call.Continue();
}

bool SimulatedTime::IsLeftToKernel(const TrappedCall& call, Process& process) {
  return options_.threads != nullptr && options_.sharing != nullptr && call.number() == SYS_poll &&
         call.Int(2) < 0 && clocks_.PassesOver(process, call.thread());
}

void SimulatedTime::ServeWait(const TrappedCall& call) {
  const pid_t thread = call.thread();
  if (spins_.Spins(thread)) PassOverLoop(clocks_.Of(call.process()), thread);
  Process& process = clocks_.Stopped(call.process(), thread, true);
  const auto parsed = [&] {
    return ParseWait(call,
                     {.now = ProcessClocks::SeenBy(process, thread),
                      .realtime_offset = realtime_offset_,
                      .sees_wakes = sees_wakes()},
                     std::make_shared<CheckedMemory>(thread, call.id(), &call.listener()));
  };
  if (IsLeftToKernel(call, process)) {
    options_.threads->GoesToSleep(call.id());
    PollsUnseen(call, *parsed());
    quiet_ = false;
    Runs(thread, call.process());
    return call.Continue();
  }
  HoldOrAnswer(call, call.process(), call.tracee().pidfd.get(), parsed(), call.listener());
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

void SimulatedTime::ServeTransfer(const TrappedCall& call, const TransferCall& transfer) {
  const pid_t thread = call.thread();
  DescriptorCopy file;
  if (Conduit::MayBe(thread, transfer.descriptor)) {
    file = DescriptorCopy::Of(call.tracee().pidfd.get(), transfer.descriptor);
  }
  const Conduit conduit = file.valid() ? Conduit::Of(file.get()) : Conduit();
  // To write to where bytes only come from is an error, and nothing to wait for.
  const bool can_be = transfer.kind == TransferCall::Kind::kSend ? conduit.sends : conduit.receives;
  if (conduit.kind == Conduit::Kind::kOther || !can_be) {
    if (transfer.kind == TransferCall::Kind::kReceive && file.valid())
      timers_.BeforeRead(file.get());
    file.reset();
    quiet_ = false;
    Runs(thread, call.process());
    call.Continue();
    return;
  }
  ++counters_.transfers;
  Process& process = clocks_.Stopped(call.process(), thread, true);
  const bool sends = transfer.kind == TransferCall::Kind::kSend;
  const bool is_socket = conduit.kind == Conduit::Kind::kSocket;
  const bool ready = IsReady(file.get(), sends ? POLLOUT : POLLIN);
  VirtualTime deadline = VirtualTime::Infinity();
  if (is_socket) {
    deadline = SocketDeadline(file.get(), sends ? SO_SNDTIMEO : SO_RCVTIMEO,
                              ProcessClocks::SeenBy(process, thread));
  }
  const bool waits = !ready && !conduit.nonblocking && !transfer.dont_wait;
  // A send that blocks is left to the kernel, unless it has a timeout.
  if (waits && (!sends || deadline != VirtualTime::Infinity())) {
    file.reset();
    HoldOrAnswer(call, call.process(), call.tracee().pidfd.get(),
                 std::make_unique<TransferWait>(call, transfer, deadline), call.listener());
    return;
  }
  clocks_.ForgetThread(process, call.process(), thread);
  if (!ready && !waits) {
    const SpinLoops::Turn turn = LookInVain(process, thread);
    if (turn.spins && !transfer.error_queue) {
      file.reset();
      quiet_ = false;
      HoldForOthers(call, process,
                    {.deadline = process.now + turn.step,
                     .for_others = true,
                     .try_again = true,
                     .spins = true});
      return;
    }
  } else {
    spins_.GoesOn(thread);
    if (sends) {
      messages_.Sent(conduit, transfer.bytes, ProcessClocks::SeenBy(process, thread),
                     call.process());
      LetSpinnersLook(process.now, thread);
      clocks_.StirReceivers();
      if (is_socket) AskOutside(call, call.memory(), file.get());
    } else {
      NotBeforeSender(process, transfer, conduit, file.get());
      HearOutside(file.get(), conduit.stream);
    }
  }
  file.reset();  // it must not outlive the descriptor of a caller who closes it next
  quiet_ = false;
  Runs(thread, call.process());
  call.Continue();
}

}  // namespace phantora
