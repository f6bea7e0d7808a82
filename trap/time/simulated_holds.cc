// SimulatedTime's held calls: who waits, and who is let go.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "trap/time/descriptor_state.h"
#include "trap/time/simulated_time.h"

namespace phantora {
namespace {

// What a call costs that looks for something and does not find it, so that a loop over it
// ends.
constexpr VirtualSpan kFruitlessLook = VirtualSpan::Microseconds(1);
// Of memory that a process waits for, at each of its calls; ns of real time.
constexpr int64_t kLongestLook = 200'000;
// One that spins is kept no longer than this from a look, ns of real time, while others run without
// a stop: they may wait for it in turn.
constexpr int64_t kLongestKept = 20'000'000;
// And where runs repeat: each such look is one that may not come in another run.
constexpr int64_t kLongestKeptInOrder = 1'000'000'000;
constexpr size_t kWordsAtATime = 256;
// One that spins lets others look who do so, who let others look...: so often, or they would never
// stop.
constexpr int kLongestChain = 2;
// Descriptors of an epoll that are looked through for events.
constexpr size_t kMostLookedAt = 4096;

// The inode, if it is a pipe.
std::optional<ino_t> PipeOf(int file) {
  struct stat status {};
  if (fstat(file, &status) != 0 || !S_ISFIFO(status.st_mode)) return std::nullopt;
  return status.st_ino;
}

// The inodes of what an epoll looks at, of whatever kind; none if it is no epoll (proc(5), fdinfo).
std::vector<ino_t> LookedAtBy(int file) {
  std::vector<ino_t> inodes;
  std::ifstream lines("/proc/self/fdinfo/" + std::to_string(file));
  for (std::string line; inodes.size() < kMostLookedAt && std::getline(lines, line);) {
    const size_t at = line.rfind("ino:");
    if (line.rfind("tfd:", 0) != 0 || at == std::string::npos) continue;
    inodes.push_back(strtoull(line.c_str() + at + 4, nullptr, 16));
  }
  return inodes;
}

}  // namespace

void SimulatedTime::HoldOrAnswer(const CallArguments& call, pid_t id, int pidfd,
                                 std::unique_ptr<TimedWait> wait, NotifyListener& listener) {
  const pid_t thread = call.thread();
  Process& process = clocks_.Of(id);
  if (!wait->is_clock()) clocks_.ForgetThread(process, id, thread);
  quiet_ = false;
  const bool no_time = wait->verdict() == TimedWait::Verdict::kWait && !wait->is_clock() &&
                       wait->deadline() <= process.now;
  SpinLoops::Turn turn;
  if (wait->is_look() || no_time) {
    turn = LookInVain(process, thread);
    if (turn.spins) wait->WaitUntil(process.now + turn.step);
  }
  if (no_time && wait->is_sleep() && !turn.spins) {
    if (!clocks_.PassesOver(process, thread)) process.now = process.now + kFruitlessLook;
    Runs(thread, id);
    wait->TimeOut(listener, process.now);
    return;
  }
  if (wait->verdict() == TimedWait::Verdict::kWait) {
    const int descriptor = wait->WatchDescriptors(pidfd, held_.copies_left(id));
    if ((descriptor >= 0 && IsReady(descriptor, POLLIN) && wait->CollectReady()) ||
        wait->AwaitsSignal(SignalsOf(thread, *options_.clocks.threads).pending())) {
      Runs(thread, id);
      TellsOfEvents(*wait);
      wait->ReleaseDescriptors();
      wait->Ready(listener, process.now);
      return;
    }
  }
  switch (wait->verdict()) {
    case TimedWait::Verdict::kContinue:
      if (wait->left_to_kernel() != nullptr && wait->deadline() != VirtualTime::Infinity()) {
        options_.unknowns->Count("timeout kept in real time by system call",
                                 static_cast<uint64_t>(call.number()), wait->left_to_kernel());
      }
      if (!clocks_.PassesOver(process, thread)) process.now = process.now + kFruitlessLook;
      Runs(thread, id);
      LeavesEvents(*wait, pidfd, id);
      listener.ReplyContinue(call.id());
      return;
    case TimedWait::Verdict::kInvalid:
      clocks_.ChargeFruitless(process, thread);
      Runs(thread, id);
      listener.ReplyError(call.id(), wait->error());
      return;
    case TimedWait::Verdict::kWait:
      break;
  }
  HeldCall held;
  held.process = id;
  held.thread = thread;
  held.deadline = held_.DeadlineOfSame(call).value_or(wait->deadline());
  held.deadline = std::max(held.deadline, process.now);
  held.spins = turn.spins;
  if (!outside_.empty()) held.asked = outside_.AskedAmong(wait->files());
  held.wait = std::move(wait);
  held.since = process.now;
  Hold(call.id(), std::move(held));
}

void SimulatedTime::TellsOfEvents(const TimedWait& wait) {
  if (options_.events == nullptr || wait.copies() == 0) return;
  std::lock_guard lock(*options_.clocks.machine_lock);
  if (!options_.events->is_raised()) return;
  const auto tell = [this](int file, bool left_to_kernel) {
    if (const auto pipe = PipeOf(file)) return options_.events->Seen(*pipe, left_to_kernel);
    for (const ino_t inode : LookedAtBy(file)) options_.events->Seen(inode, true);
  };
  const std::vector<int> found = wait.found_readable();
  for (const int file : found) tell(file, false);
  if (!found.empty()) return;
  for (const int file : wait.files()) {
    if (IsReady(file, POLLIN)) tell(file, true);
  }
}

void SimulatedTime::LeavesEvents(TimedWait& wait, int pidfd, pid_t process) {
  if (options_.events == nullptr) return;
  {
    std::lock_guard lock(*options_.clocks.machine_lock);
    if (!options_.events->is_raised()) return;
  }
  wait.WatchDescriptors(pidfd, held_.copies_left(process));
  // Its descriptors may not be looked at (pidfd_getfd is denied), or are too many.
  if (wait.left_to_kernel() != nullptr && wait.arguments().number() != SYS_futex) {
    std::lock_guard lock(*options_.clocks.machine_lock);
    options_.events->PollsUnseen(process);
  } else {
    TellsOfEvents(wait);
  }
  wait.ReleaseDescriptors();
}

void SimulatedTime::PollsUnseen(const TrappedCall& call, TimedWait& wait) {
  if (options_.events == nullptr) return;
  wait.WatchDescriptors(call.tracee().pidfd.get(), held_.copies_left(call.process()));
  std::lock_guard lock(*options_.clocks.machine_lock);
  if (wait.left_to_kernel() != nullptr) options_.events->PollsUnseen(call.process());
  for (const int file : wait.files()) {
    if (const auto pipe = PipeOf(file)) options_.events->PollsUnseen(call.process(), *pipe);
  }
  wait.ReleaseDescriptors();
}

void SimulatedTime::AnswerHeld(HeldCalls::Calls::iterator call, NotifyListener& listener) {
  const uint64_t id = call->first;
  const HeldCall held = held_.Take(call);
  quiet_ = false;
  const ProcessClocks::Going going(clocks_, clocks_.Of(held.process), held.thread);
  Runs(held.thread, held.process);
  Log(held, "goes on:");
  if (held.try_again) {
    listener.ReplyError(id, EAGAIN);
  } else {
    listener.ReplyValue(id, held.value);
  }
}

void SimulatedTime::LetAttachedGo(HeldCalls::Calls::iterator call, NotifyListener& listener) {
  if (call->second.wait != nullptr) return LetGo(call, listener, End::kStopped);
  if (!call->second.for_gpu()) return AnswerHeld(call, listener);
  const uint64_t id = call->first;
  const HeldCall held = held_.Take(call);
  quiet_ = false;
  const ProcessClocks::Going going(clocks_, clocks_.Of(held.process), held.thread);
  Runs(held.thread, held.process);
  Log(held, "stops for a debugger:");
  listener.ReplyRestart(id);
}

bool SimulatedTime::HoldsAnswer(const CallArguments& call, pid_t id, int64_t value) {
  const pid_t thread = call.thread();
  Process& process = clocks_.Of(id);
  // With work or a wait between them (see Hold), it is no loop over driver calls.
  if (process.submissions > 0 || process.last_driver_caller != thread) process.driver_calls = 0;
  process.last_driver_caller = thread;
  if (++process.driver_calls <= ProcessClocks::kReadsOfWait || NextThing() > process.now) {
    return false;
  }
  HoldForOthers(call, process, {.for_others = true, .value = value});
  return true;
}

void SimulatedTime::HoldForOthers(const CallArguments& call, Process& process, HeldCall held) {
  held.process = process.id;
  held.thread = call.thread();
  held.since = process.now;
  if (!held.spins) held.deadline = process.now;
  Hold(call.id(), std::move(held));
}

void SimulatedTime::PassOverLoop(Process& process, pid_t thread) {
  const auto used = [&] { return clocks_.ProcessorTimeOf(thread); };
  clocks_.ExcludeProcessorTime(process, spins_.ReadsClock(thread, used));
}

SpinLoops::Turn SimulatedTime::LookInVain(Process& process, pid_t thread) {
  int depth = 0;
  if (const auto chain = looks_.find(thread); chain != looks_.end()) {
    depth = chain->second;
    looks_.erase(chain);
  }
  const auto used = [&] { return clocks_.ProcessorTimeOf(thread); };
  // Where all go in the order of time, whoever is earlier stops before this one looks again, and is
  // then seen: by itself it looks for time to pass, or for somebody who does not stop.
  const bool in_order = options_.threads != nullptr;
  const SpinLoops::Turn turn = spins_.LooksInVain(
      process.id, thread,
      {.now = process.now, .whole_wait = others_rest_ || in_order, .was_let = depth > 0}, used);
  clocks_.ExcludeProcessorTime(process, turn.spent);
  // There, too, one that spins on may have found something, and have written to others, when
  // somebody has let it look.
  const bool may_have_found = in_order && turn.spins && depth > 0 && depth < kLongestChain;
  if (turn.begins_to || may_have_found) LetSpinnersLook(process.now, thread, depth + 1);
  return turn;
}

void SimulatedTime::LetSpinnersLook(VirtualTime at, pid_t thread, int depth) {
  spins_.SomebodyStopped(at);
  for (const uint64_t id : held_.spinners()) {
    const auto call = held_.Find(id);
    if (call->second.thread == thread) continue;
    // What has been written by one who is not later can be seen at once.
    const VirtualTime now = clocks_.TimeOf(call->second.process, call->second.thread);
    looks_[call->second.thread] = depth;
    if (at > now) {
      held_.EndBy(call, at);
    } else if (options_.threads == nullptr) {
      looks_due_.push_back(id);
    } else {
      order_.AddEnd(now, call->second.process, id);
    }
  }
}

void SimulatedTime::LetLook(uint64_t id, NotifyListener& listener) {
  const auto call = held_.Find(id);
  if (call == held_.end()) return;
  SeesOthers(call->second);
  if (call->second.for_others) {
    AnswerHeld(call, listener);
  } else {
    LetGo(call, listener, End::kTimedOut);
  }
}

void SimulatedTime::SeesOthers(const HeldCall& held) {
  if (!held.spins || held.written == VirtualTime::Infinity()) return;
  clocks_.Raise(clocks_.Of(held.process), held.thread, held.written);
}

void SimulatedTime::MayHaveWritten(pid_t process, pid_t thread) {
  if (held_.spinners().empty() || spins_.Spins(thread)) return;
  const VirtualTime at = clocks_.TimeOf(process, thread);
  for (const uint64_t id : held_.spinners()) {
    HeldCall& held = held_.Find(id)->second;
    if (held.process == process || clocks_.TimeOf(held.process, held.thread) >= at) continue;
    held.written = std::min(held.written, at);
  }
}

void SimulatedTime::LetSpinnersLookAnyway(NotifyListener& listener) {
  const auto spinners = held_.spinners();
  const int64_t longest = options_.threads == nullptr ? kLongestKept : kLongestKeptInOrder;
  for (const uint64_t id : spinners) {
    if (RealNow() - held_.Find(id)->second.real_since >= longest) LetLook(id, listener);
  }
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
                      : held.spins         ? "look in a loop"
                      : held.for_others    ? "driver call, for others to come"
                                           : "wait for a GPU",
                      ends ? absl::StrFormat(" until %.9f s", seconds(held.deadline)) : ""));
}

void SimulatedTime::Hold(uint64_t id, HeldCall held) {
  ++counters_.waits;
  Process& process = clocks_.Of(held.process);
  if (held.deadline > process.now) {
    process.fruitless.erase(held.thread);
    process.driver_calls = 0;
    // In a futex of its own process, one that spins may wait for its next turn: Python's lock.
    const bool for_turn = held.wait != nullptr && held.wait->is_private();
    if (!held.spins && !for_turn) spins_.GoesOn(held.thread);
    if (!held.spins) LetSpinnersLook(process.now, held.thread);
  }
  process.looked_at = -1;
  held.real_since = RealNow();
  Log(held, "begins");
  held_.Add(id, std::move(held));
}

void SimulatedTime::LetGo(HeldCalls::Calls::iterator call, NotifyListener& listener, End end) {
  const HeldCall held = held_.Take(call);
  quiet_ = false;
  Runs(held.thread, held.process);
  Process& process = clocks_.Of(held.process);
  const ProcessClocks::Going going(clocks_, process, held.thread);
  clocks_.TakeProcessorTime(process, held.process);
  const TransferCall* transfer = held.wait->transfer();
  if (end == End::kReady && transfer != nullptr) {
    const Conduit conduit = Conduit::Of(held.wait->copy());
    NotBeforeSender(process, *transfer, conduit, held.wait->copy());
    if (transfer->kind == TransferCall::Kind::kSend) {
      messages_.Sent(conduit, transfer->bytes, ProcessClocks::SeenBy(process, held.thread),
                     held.process);
      clocks_.StirReceivers();
      const CallArguments& sent = held.wait->arguments();
      AskOutside(sent, CheckedMemory(sent.thread(), sent.id(), &listener), held.wait->copy());
    } else {
      HearOutside(held.wait->copy(), conduit.stream);
    }
  }
  if (end == End::kReady) TellsOfEvents(*held.wait);
  held.wait->ReleaseDescriptors();
  Log(held, end == End::kTimedOut  ? "timed out"
            : end == End::kReady   ? "was ready:"
            : end == End::kStopped ? "stops for a debugger:"
                                   : "was interrupted:");
  if (held.wait->is_clock()) {
    const CallArguments& call = held.wait->arguments();
    AnswerClock(call, CheckedMemory(call.thread(), call.id(), &listener),
                clocks_.ReadClock(process, held.thread), listener);
    return;
  }
  switch (end) {
    case End::kTimedOut:
      wake_times_.Forget(held.thread);
      return held.wait->TimeOut(listener, process.now);
    case End::kReady:
      return held.wait->Ready(listener, process.now);
    case End::kInterrupted:
      return held.wait->Interrupt(listener, process.now);
    case End::kStopped:
      held_.IsMadeAgain(held);
      return held.wait->Restart(listener);
  }
}

void SimulatedTime::LetGpuWaitersGo(pid_t id, NotifyListener& listener) {
  Process& process = clocks_.Of(id);
  process.seen = false;
  pid_t runner = 0;
  int runners = 0;
  const auto waiters = held_.gpu_waiters().find(id);
  if (waiters == held_.gpu_waiters().end()) return;
  for (const uint64_t call : std::vector(waiters->second.begin(), waiters->second.end())) {
    const HeldCall held = held_.Take(held_.Find(call));
    if (learns()) clocks_.Raise(process, held.thread, process.seen_at);
    const ProcessClocks::Going going(clocks_, process, held.thread);
    process.waited = process.waited + (process.now - held.since);
    Thread& thread = process.threads[held.thread];
    if (thread.waited_until != held.since) clocks_.EndWait(thread, id, held.thread);
    if (thread.waiting_since == VirtualTime()) thread.waiting_since = held.since;
    thread.waited_until = process.now;
    Log(held, "looks again:");
    runner = held.thread;
    ++runners;
    const CheckedMemory memory(held.thread, call, &listener);
    if (WriteClock(memory, held.clock_out, held.clock, process.now)) {
      listener.ReplyValue(call, 0);
    } else {
      listener.ReplyError(call, EFAULT);
    }
  }
  Runs(runner, id);
  // (Where runs repeat, it may have to wait for its turn.)
  sole_runner_ = runners == 1 && quiet_ && options_.threads == nullptr ? runner : 0;
  quiet_ = sole_runner_ != 0;
}

void SimulatedTime::LetServedWaitersGo(NotifyListener& listener) {
  if (held_.empty()) return;
  LetRoomWaitersGo(listener);
  std::vector<pid_t> served;
  for (const auto& [id, calls] : held_.gpu_waiters()) {
    const Process& process = clocks_.Of(id);
    // They waited for its GPUs, which have nothing more to do.
    const bool idle = process.next_event == VirtualTime::Infinity() && !process.waits_for_others;
    const bool in_vain = idle && std::any_of(calls.begin(), calls.end(), [this](uint64_t call) {
                           return held_.Find(call)->second.deadline == VirtualTime::Infinity();
                         });
    if (process.seen || in_vain) served.push_back(id);
  }
  for (const pid_t process : served) LetGpuWaitersGo(process, listener);
}

std::vector<uint64_t> SimulatedTime::ChangedCalls(pid_t process, bool if_ran) {
  const int64_t begin = RealNow();
  const auto [first, last] = held_.PolledOf(process);
  std::vector<uint64_t> changed;
  std::vector<RemoteAddress> words;
  std::vector<uint32_t> values;
  pid_t last_process = 0;
  bool known = false;
  for (auto it = first; it != last;) {
    const pid_t of = it->first.first;
    if (std::exchange(last_process, of) != of) {
      known = if_ran && clocks_.HasLookedAt(clocks_.Of(of));
    }
    std::vector<std::pair<uint64_t, const TimedWait*>> waits;
    words.clear();
    for (; it != last && it->first.first == of && words.size() < kWordsAtATime; ++it) {
      const TimedWait& wait = *it->second->second.wait;
      if (wait.is_private() && known) continue;
      waits.emplace_back(it->first.second, &wait);
      for (const auto& [address, value] : wait.words()) words.push_back(address);
    }
    values.resize(words.size());
    const bool all_read = RemoteMemory(of).ReadWords(words, values.data());
    auto value = values.cbegin();
    for (const auto& [call, wait] : waits) {
      const bool is_futex = !wait->words().empty();
      bool differs = !is_futex || !all_read;  // look at it alone
      for (const auto& [address, expected] : wait->words()) differs |= *value++ != expected;
      if (differs && wait->Changed()) changed.push_back(call);
    }
    // A process that waits for very much memory finds out later.
    if (!if_ran && RealNow() - begin > kLongestLook) break;
  }
  return changed;
}

void SimulatedTime::CheckPolled(pid_t process, NotifyListener& listener) {
  LetGoIfHeld(ChangedCalls(process, process == 0), listener);
}

void SimulatedTime::CheckPolledOfBlocked(NotifyListener& listener) {
  const auto blocked = std::exchange(blocked_, {});
  if (held_.polled_shared() > 0) return CheckPolled(0, listener);
  for (const pid_t process : blocked) LetGoIfHeld(ChangedCalls(process, true), listener);
}

void SimulatedTime::LetGoIfHeld(const std::vector<uint64_t>& calls, NotifyListener& listener) {
  for (const uint64_t call : calls) {
    const auto it = held_.Find(call);
    if (it != held_.end()) LetGo(it, listener, End::kReady);
  }
}

bool SimulatedTime::CheckTimers(NotifyListener& listener) {
  std::vector<pid_t> expired;
  for (const pid_t id : timers_.Processes()) {
    Process* process = clocks_.Find(id);
    if (process != nullptr && timers_.ExpireDue(id, process->now)) expired.push_back(id);
  }
  if (expired.empty()) return false;
  quiet_ = false;
  for (const pid_t id : expired) {
    signals_.Arrive(id);
    CheckSignals(id, listener);
  }
  return true;
}

}  // namespace phantora
