#include "trap/time/process_clocks.h"

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <utility>

#include "trap/linux/thread_activity.h"

namespace phantora {
namespace {

// Simulated time, which is CLOCK_MONOTONIC of the ranks, starts here: a constant, so that
// runs can be compared.
constexpr VirtualTime kStart = VirtualTime::FromNanoseconds(10'000'000'000'000);
// Where processor time does not count, a clock read of such a loop takes as long as a turn
// of it in Python.
constexpr VirtualSpan kTurnOfWait = VirtualSpan::Microseconds(1);
// Threads whose fruitless calls are counted: a process may make them without end.
constexpr size_t kMostFruitless = 1 << 16;
// Of a loop that waits for time to pass, where processor time counts.
constexpr VirtualSpan kLongestTurn = VirtualSpan::Microseconds(50);
// The kernel takes note of the processor time of one that runs so often at least (CONFIG_HZ is 250
// mostly), ns.
constexpr int64_t kTickOfProcessorTime = 5'000'000;
// By how much a thread may have read a later time than its process has.
constexpr VirtualSpan kFurthestAhead = VirtualSpan::Microseconds(1);
// What stopping in a call costs the thread that stops, ns of its processor time.
constexpr int64_t kTrapCost = 3000;
// A process that has used so much processor time without a call, while its GPUs have work,
// is taken to spin on memory (an event query reads no clock), ns. From then on they are
// run for it, a little further each time that it has used kNudgeStep more.
constexpr int64_t kNudgeAfter = 500'000'000, kNudgeStep = 1'000'000;
// With a queue of its GPUs full, it is likely to wait for room.
constexpr int64_t kNudgeAfterFull = 200'000;
// Each time by an eighth of what it has waited: that is how late it may notice.
constexpr int64_t kNudgeFraction = 8;
// A process whose yields have found no full queue so often waits for something else, or for
// somebody: then one yield in a few asks.
constexpr uint32_t kYieldsOfInterest = 64, kYieldsPerLook = 16;
// Nanoseconds of real time for one nudge: others want to be served.
constexpr int64_t kLongestNudge = 5'000'000;

// How often a thread is looked at before it must have a name.
constexpr int kLooksAtName = 64, kIsLibcuda = -1;

}  // namespace

VirtualTime ProcessClocks::Start() { return kStart; }

ProcessClocks::Process& ProcessClocks::Of(pid_t id) {
  auto& process = processes_[id];
  if (process != nullptr) return *process;
  auto made = std::make_unique<Process>();
  made->id = id;
  made->now = kStart;
  made->parent = options_.parent_of(id);
  made->pidfd = UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, id, 0)));
  made->wall_time = clock().Monotonic();
  process = std::move(made);
  Process& result = *process;
  if (Process* parent = Find(result.parent)) {
    result.now = has_thread_clocks() ? BeginOf(id, *parent) : Shown(*parent);
    AddChild(*parent, result);
  }
  result.own = ThreadClocks(result.now);
  if (options_.segments != nullptr) options_.segments->Begins(id, result.parent);
  return result;
}

ProcessClocks::Process* ProcessClocks::Find(pid_t process) {
  auto it = processes_.find(process);
  return it == processes_.end() ? nullptr : it->second.get();
}

void ProcessClocks::KeepOnly(const std::vector<pid_t>& living) {
  std::vector<pid_t> gone;
  for (const auto& [id, process] : processes_) {
    if (process->has_called) continue;
    if (std::find(living.begin(), living.end(), id) == living.end()) gone.push_back(id);
  }
  for (const pid_t id : gone) Died(id);
}

void ProcessClocks::NoteProgress() { last_progress_ns_ = clock().Monotonic(); }

bool ProcessClocks::RestsStill(const Process& process) const {
  if (!process.at_rest) return false;
  // Whatever wakes one that waits for futexes stops here first.
  return process.woken_by != WokenBy::kAnything ||
         clock().ProcessorTime(process.id) == process.rested_at;
}

void ProcessClocks::BeginLook(Process& process) const {
  process.rested_at = clock().ProcessorTime(process.id);
  // It may run still, and then have been looked at last with the same processor time.
  process.looked_at = -1;
}

void ProcessClocks::NoteRest(Process& process, WokenBy woken_by) const {
  process.woken_by = woken_by;
  if (woken_by != WokenBy::kAnything) {
    process.at_rest = true;
    return;
  }
  const auto parent = processes_.find(process.parent);
  const bool is_worker = parent != processes_.end() && parent->second->uses_gpu;
  process.at_rest = process.children.empty() && !is_worker && process.rested_at != 0;
}

void ProcessClocks::Stir(pid_t id) {
  if (id != 0) {
    if (Process* process = Find(id)) {
      process->at_rest = false;
      process->may_run_until = clock().Monotonic() + kTickOfProcessorTime;
    }
    return;
  }
  for (auto& [other, process] : processes_) process->at_rest = false;
}

void ProcessClocks::StirReceivers() {
  for (auto& [other, process] : processes_) {
    if (process->woken_by == WokenBy::kAnything) process->at_rest = false;
  }
}

void ProcessClocks::StirFutexes() {
  for (auto& [other, process] : processes_) {
    if (process->woken_by != WokenBy::kItself) process->at_rest = false;
  }
}

bool ProcessClocks::HasLookedAt(Process& process) const {
  const int64_t used = process.at_rest ? process.rested_at : clock().ProcessorTime(process.id);
  const int64_t now = clock().Monotonic();
  if (used != process.looked_at) {
    process.looked_at = used;
    if (!process.at_rest) process.may_run_until = now + kTickOfProcessorTime;
    return false;
  }
  return process.at_rest || now >= process.may_run_until;
}

void ProcessClocks::TakeProcessorTime(Process& process, pid_t id) {
  if (!CountsProcessorTime()) return;
  const int64_t processor = clock().ProcessorTime(id);
  const int64_t wall = clock().Monotonic();
  // Threads that ran one after another count in full, those that ran at the same time
  // once: together they cannot have run for longer than the time that has passed.
  const int64_t used =
      std::min(processor - process.processor_time, wall - process.wall_time) - kTrapCost;
  if (processor == 0 || used <= 0) return;
  process.processor_time = processor;
  process.wall_time = wall;
  process.now = process.now + ScaledHostTime(used, options_.host.scale);
}

void ProcessClocks::EndSegment(pid_t id, pid_t thread, uint32_t stop, bool looks_again) {
  Process& process = Of(id);
  const int64_t processor = clock().ProcessorTime(id);
  const int64_t used = processor - process.processor_time - kTrapCost;
  process.processor_time = processor;
  uint64_t submissions = 0;
  if (process.uses_gpu) {
    const uint64_t hidden = QueuesOf(id).hidden;
    submissions = hidden - std::min(hidden, std::exchange(process.hidden_at_stop, hidden));
  }
  served_ = id;
  PassesOver(process, thread);  // finds out whose thread it is
  if (IsLibcudas(process, thread)) return process.own.Ends(thread);
  process.own.Begins(thread);
  Enter(process, thread);
  process.own.Stands(thread, process.now);
  if (looks_again && submissions == 0) return;
  constexpr uint64_t kMost = std::numeric_limits<uint32_t>::max();
  const VirtualSpan cost =
      options_.segments->Ends(id, thread, stop, static_cast<uint32_t>(std::min(submissions, kMost)),
                              processor == 0 ? 0 : used);
  process.charged_from = std::min(process.charged_from, process.now);
  process.now = process.now + cost;
  process.own.Stands(thread, process.now);
}

void ProcessClocks::DiscardProcessorTime(Process& process, pid_t id) {
  if (!CountsProcessorTime() && !has_thread_clocks()) return;
  process.processor_time = clock().ProcessorTime(id);
  process.wall_time = clock().Monotonic();
}

void ProcessClocks::NoteRead(const Process& process, Thread& thread) const {
  if (CountsProcessorTime() && process.now - thread.read_at > kLongestTurn) thread.reads = 0;
  thread.read_at = process.now;
}

VirtualTime ProcessClocks::ReadClock(Process& process, pid_t id) {
  Thread& thread = process.threads[id];
  const bool waits = ++thread.reads > kReadsOfWait;
  if (CountsProcessorTime()) {
    process.now = process.now + options_.host.clock_read;
    return process.now;
  }
  if (waits) process.now = process.now + kTurnOfWait;
  if (has_thread_clocks()) {
    if (!IsLibcudas(process, id)) process.now = process.now + options_.host.clock_read;
    return process.now;
  }
  return ChargeThread(process, id, options_.host.clock_read);
}

void ProcessClocks::PathCall(pid_t id, pid_t thread) {
  Process* process = Find(id);
  if (process == nullptr || CountsProcessorTime() || has_thread_clocks()) return;
  // A thread without a name yet counts here: libcuda's take theirs before they look for files, and
  // the program's may have no more than a few calls in which to make up names of files (XLA's).
  if (PassesOver(*process, thread) && process->passed_over[thread] == kIsLibcuda) return;
  Charge(*process, thread, options_.host.path_call);
}

VirtualTime ProcessClocks::ChargeThread(Process& process, pid_t thread, VirtualSpan charge) {
  if (PassesOver(process, thread)) return SeenBy(process, thread);
  return Charge(process, thread, charge);
}

VirtualTime ProcessClocks::Charge(Process& process, pid_t thread, VirtualSpan charge) {
  VirtualTime& shown = process.shown[thread];
  shown = std::max(shown, process.now) + charge;
  if (shown - process.now > kFurthestAhead) process.now = shown;
  return shown;
}

VirtualTime ProcessClocks::Shown(const Process& process) {
  VirtualTime shown = process.now;
  for (const auto& [thread, time] : process.shown) shown = std::max(shown, time);
  return shown;
}

VirtualTime ProcessClocks::SeenBy(const Process& process, pid_t thread) {
  const auto shown = process.shown.find(thread);
  return shown == process.shown.end() ? process.now : std::max(process.now, shown->second);
}

bool ProcessClocks::ChargeFruitless(Process& process, pid_t thread) {
  if (process.fruitless.size() > kMostFruitless) process.fruitless.clear();
  if (++process.fruitless[thread] <= kReadsOfWait) return false;
  process.now = process.now + kTurnOfWait;
  return true;
}

int ProcessClocks::Submit(Process& process, pid_t id, VirtualTime from) {
  from = std::min(from, std::exchange(process.charged_from, VirtualTime::Infinity()));
  if (!process.uses_gpu) return 0;
  const bool fixed = options_.host.mode == HostTimeMode::kFixed;
  std::lock_guard lock(*options_.machine_lock);
  const auto submitted = options_.device->Submit(id, from, process.now,
                                                 fixed ? options_.host.submission : VirtualSpan());
  process.now = submitted.now;
  process.hidden_at_stop -= std::min<uint64_t>(process.hidden_at_stop, submitted.count);
  if (submitted.count > 0) process.vain_yields = 0;
  LookAhead(process, id);
  if (submitted.seen) NoteSeen(process, process.now);
  return submitted.count;
}

void ProcessClocks::LookAhead(Process& process, pid_t id) {
  process.next_event = options_.device->NextEvent(id);
  process.waits_for_others = options_.device->WaitsForOthers(id);
}

VirtualTime ProcessClocks::NextSharedEvent() const {
  if (gpu_processes_ == 0) return VirtualTime::Infinity();
  std::lock_guard lock(*options_.machine_lock);
  return options_.device->NextSharedEvent();
}

void ProcessClocks::Passed(VirtualTime to) {
  if (to != VirtualTime::Infinity()) passed_ = std::max(passed_, to);
  if (gpu_processes_ == 0) return;
  std::lock_guard lock(*options_.machine_lock);
  for (const pid_t id : options_.device->Passed(to)) {
    if (Process* process = Find(id)) LookAhead(*process, id);
  }
}

bool ProcessClocks::HasHiddenWork() const {
  if (gpu_processes_ == 0) return false;
  std::lock_guard lock(*options_.machine_lock);
  return std::any_of(processes_.begin(), processes_.end(), [this](const auto& process) {
    return process.second->uses_gpu && options_.device->HasSubmitted(process.first);
  });
}

SimulatedDevice::Queues ProcessClocks::QueuesOf(pid_t process) const {
  std::lock_guard lock(*options_.machine_lock);
  return options_.device->QueuesOf(process);
}

bool ProcessClocks::IsYieldOfInterest(const Process& process) {
  return process.vain_yields < kYieldsOfInterest || process.vain_yields % kYieldsPerLook == 0;
}

void ProcessClocks::NoteYield(Process& process, bool full) {
  process.vain_yields = full ? 0 : process.vain_yields + 1;
}

SimulatedDevice::Progress ProcessClocks::Advance(Process& process, pid_t id, VirtualTime to) {
  std::lock_guard lock(*options_.machine_lock);
  const auto progress = options_.device->Advance(id, to, true);
  LookAhead(process, id);
  return progress;
}

void ProcessClocks::NotBeforeChildren(Process& process) {
  if (process.children.empty()) return;
  // All that have ended: a process forgets a child as soon as its end has been heard of.
  std::vector<epoll_event> ended(process.children.size());
  const int count =
      epoll_wait(process.ends_of_children.get(), ended.data(), static_cast<int>(ended.size()), 0);
  for (int i = 0; i < count; ++i) {
    const Process* child = Find(ended[i].data.fd);
    if (child != nullptr) process.now = std::max(process.now, Shown(*child));
  }
}

void ProcessClocks::AddChild(Process& parent, const Process& child) {
  parent.children.push_back(child.id);
  if (!parent.ends_of_children.valid()) {
    parent.ends_of_children = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  }
  // (Of one that cannot be watched, being gone or for want of descriptors, Died() tells.)
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = child.id;
  epoll_ctl(parent.ends_of_children.get(), EPOLL_CTL_ADD, child.pidfd.get(), &event);
}

bool ProcessClocks::IsLibcudas(const Process& process, pid_t thread) {
  const auto looks = process.passed_over.find(thread);
  return looks != process.passed_over.end() && looks->second == kIsLibcuda;
}

bool ProcessClocks::PassesOver(Process& process, pid_t thread) {
  if (CountsProcessorTime() || !process.uses_gpu) return false;
  // A thread has its maker's name at first, and may stop a few times before it takes its
  // own: until then it is passed over, whoever it is.
  int& looks = process.passed_over[thread];
  if (looks < 0 || looks >= kLooksAtName) return looks < 0;
  const std::string name = ThreadName(thread, *options_.threads);
  if (name.rfind("cuda", 0) == 0) {
    looks = kIsLibcuda;
  } else if (thread == process.id || name != ThreadName(process.id, *options_.threads)) {
    looks = kLooksAtName;
  } else {
    ++looks;
    return true;
  }
  return looks < 0;
}

ProcessClocks::Process& ProcessClocks::Stopped(pid_t id, pid_t thread, bool to_wait) {
  Process& process = Of(id);
  const VirtualTime from = process.now;
  process.has_called = true;
  TakeProcessorTime(process, id);
  NotBeforeChildren(process);
  process.submissions = 0;
  if (CountsProcessorTime() || (!to_wait && !PassesOver(process, thread))) {
    process.submissions = Submit(process, id, from);
  }
  process.quiet_since = 0;
  process.nudged_since = VirtualTime::Infinity();
  NoteProgress();
  return process;
}

void ProcessClocks::SetUsesGpu(Process& process, pid_t thread) {
  process.passed_over[thread] = kLooksAtName;
  if (!process.uses_gpu) ++gpu_processes_;
  process.uses_gpu = true;
}

void ProcessClocks::EndWait(Thread& thread, pid_t process, pid_t id) {
  if (thread.waited_until > thread.waiting_since && options_.waited) {
    options_.waited(process, id, thread.waiting_since, thread.waited_until);
  }
  thread.waiting_since = thread.waited_until = VirtualTime();
}

void ProcessClocks::ForgetThread(Process& process, pid_t id, pid_t thread) {
  auto it = process.threads.find(thread);
  if (it == process.threads.end()) return;
  EndWait(it->second, id, thread);
  process.threads.erase(it);
}

void ProcessClocks::LiftAll(VirtualTime to, bool account) {
  for (auto& [id, process] : processes_) {
    if (account && !process->at_rest) TakeProcessorTime(*process, id);
    Lift(*process, to);
  }
}

std::vector<ProcessClocks::Process*> ProcessClocks::EarlierThan(VirtualTime before) const {
  std::vector<Process*> earlier;
  for (const auto& [id, process] : processes_) {
    if (process->now < before) earlier.push_back(process.get());
  }
  std::stable_sort(earlier.begin(), earlier.end(),
                   [](const Process* a, const Process* b) { return a->now < b->now; });
  return earlier;
}

VirtualTime ProcessClocks::EarliestBut(pid_t but, VirtualTime from) {
  VirtualTime earliest = VirtualTime::Infinity();
  for (auto& [id, process] : processes_) {
    if (id == but) continue;
    if (!process->at_rest) TakeProcessorTime(*process, id);
    if (process->now >= from) earliest = std::min(earliest, process->now);
  }
  return earliest;
}

std::pair<pid_t, VirtualTime> ProcessClocks::EarliestEvent() const {
  std::pair<pid_t, VirtualTime> earliest{0, VirtualTime::Infinity()};
  // The process id decides between equal times.
  for (const auto& [id, process] : processes_) {
    if (process->next_event < earliest.second) earliest = {id, process->next_event};
  }
  return earliest;
}

int ProcessClocks::RunFor(Process& process, pid_t id, const std::function<bool()>& wanted) {
  const int64_t begin = clock().Monotonic();
  int events = 0;
  do {
    if (process.next_event == VirtualTime::Infinity()) break;
    const VirtualTime event = process.next_event;
    const auto progress = Advance(process, id, event);
    process.now = std::max(process.now, progress.time);
    process.own.RaiseRunning(process.now);
    ++events;
    // What others decide is not known yet.
    if (progress.time < event) break;
  } while (wanted() && clock().Monotonic() - begin < kLongestNudge);
  return events;
}

bool ProcessClocks::IsDue(Process& process, pid_t id) {
  std::lock_guard lock(*options_.machine_lock);
  LookAhead(process, id);
  return process.next_event <= process.now;
}

int ProcessClocks::Nudge(const std::function<bool(pid_t)>& waits) {
  int nudged = 0;
  for (auto& [id, process] : processes_) {
    if (!process->uses_gpu) continue;
    if (CountsProcessorTime()) {
      // Who has not run has submitted nothing, and may have nothing due. (What others have written
      // for its GPUs to see is looked for before time passes, and so is who wakes.)
      if (process->at_rest) continue;
      const int64_t used = clock().ProcessorTime(id);
      if (used == process->used_at_nudge && !IsDue(*process, id)) continue;
      process->used_at_nudge = used;
      const VirtualTime from = process->now;
      TakeProcessorTime(*process, id);
      Submit(*process, id, from);
      continue;
    }
    if (waits(id)) continue;
    const int64_t used = clock().ProcessorTime(id);
    const auto queues = QueuesOf(id);
    // Whoever still submits does not wait for room.
    if (process->quiet_since == 0 || queues.hidden != process->hidden) process->quiet_since = used;
    process->hidden = queues.hidden;
    const bool full = queues.full;
    const bool goes_on = process->nudged_since != VirtualTime::Infinity();
    const int64_t patience = full ? kNudgeAfterFull : goes_on ? kNudgeStep : kNudgeAfter;
    if (used - process->quiet_since < patience) continue;
    process->quiet_since = used;
    Submit(*process, id, process->now);
    VirtualTime to = process->now;
    if (goes_on) {
      to = to +
           VirtualSpan::Picoseconds((to - process->nudged_since).picoseconds() / kNudgeFraction);
    } else if (!full) {
      process->nudged_since = process->now;
    }
    // What it has submitted may have been all that was missing.
    if (full && !QueuesOf(id).short_of_room) continue;
    VirtualTime before = process->now;
    nudged += RunFor(*process, id, [&] {
      if (full) return QueuesOf(id).short_of_room;
      // At least one event, and all that are due by then.
      return process->now < to && std::exchange(before, process->now) < process->now;
    });
  }
  return nudged;
}

void ProcessClocks::Died(pid_t id) {
  auto it = processes_.find(id);
  if (it == processes_.end()) return;
  Process& process = *it->second;
  if (options_.segments != nullptr) options_.segments->ProcessDied(id);
  if (Process* parent = Find(process.parent)) {
    Lift(*parent, has_thread_clocks() ? TimeOf(id, id) : Shown(process));
    std::erase(parent->children, id);
    // Its children are its parent's from now on, if that has asked for them.
    for (const pid_t child : process.children) {
      Process* found = Find(child);
      if (found == nullptr || options_.parent_of(child) != process.parent) continue;
      found->parent = process.parent;
      AddChild(*parent, *found);
    }
  }
  if (process.uses_gpu) {
    --gpu_processes_;
    finished_.push_back({id, EndOf(process) - kStart, process.waited});
  }
  processes_.erase(it);
}

std::vector<ProcessClocks::RankTime> ProcessClocks::ranks() const {
  auto ranks = finished_;
  for (const auto& [id, process] : processes_) {
    if (process->uses_gpu) ranks.push_back({id, EndOf(*process) - kStart, process->waited});
  }
  return ranks;
}

VirtualTime ProcessClocks::NowOf(pid_t process) const {
  const auto it = processes_.find(process);
  return it == processes_.end() ? kStart : it->second->now;
}

VirtualTime ProcessClocks::Latest() const {
  VirtualTime latest = kStart;
  for (const auto& [id, process] : processes_) latest = std::max(latest, process->now);
  return latest;
}

}  // namespace phantora
