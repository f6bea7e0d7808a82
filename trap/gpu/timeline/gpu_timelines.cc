#include "trap/gpu/timeline/gpu_timelines.h"

#include <algorithm>
#include <utility>

#include "trap/gpu/timeline/shared_work.h"

namespace phantora {
namespace {

// What one call may cost, about 10 ms: others wait for it. What is left is done in the next.
constexpr int64_t kCallBudget = 16 * kStepBudget;
// What every event costs of that, at least.
constexpr int64_t kEventCost = 64;
// GPFIFO entries: libcuda stops with two of 1,024 left.
constexpr uint32_t kRoomForASubmission = 4;
// One that waits for room gets this part of its queue.
constexpr uint32_t kStepsOfRoom = 16;
// Where engines are told apart by their type, the SMs.
constexpr int64_t kSms = -1;

}  // namespace

GpuTimelines::Timeline& GpuTimelines::Of(pid_t process) {
  auto& timeline = timelines_[process];
  if (timeline == nullptr) timeline = std::make_unique<Timeline>();
  return *timeline;
}

std::shared_ptr<EngineShare> GpuTimelines::EngineOf(Timeline& timeline, int gpu, int64_t engine) {
  auto& kept = timeline.engines[{gpu, engine}];
  auto share = kept.lock();
  if (share == nullptr) {
    kept = share = std::make_shared<EngineShare>(timeline.clock);
    // A process may name any engine: those that no channel uses any more are forgotten.
    absl::erase_if(timeline.engines, [](const auto& item) { return item.second.expired(); });
  }
  return share;
}

void GpuTimelines::Prepare(Channel::Config& config) {
  Timeline& timeline = Of(config.process);
  config.time = timeline.clock.get();
  config.gated = true;
  config.sms = EngineOf(timeline, config.gpu, kSms);
  config.copy_engine = EngineOf(timeline, config.gpu, config.engine);
}

void GpuTimelines::Add(std::shared_ptr<Channel> channel) {
  Timeline& timeline = Of(channel->config().process);
  timeline.channels.push_back(std::move(channel));
  timeline.ends.reset();
}

void GpuTimelines::Remove(const Channel* channel) {
  auto it = timelines_.find(channel->config().process);
  if (it == timelines_.end()) return;
  std::erase_if(it->second->channels,
                [channel](const auto& other) { return other.get() == channel; });
  it->second->waiting_submissions.erase(channel);
  it->second->ends.reset();
}

void GpuTimelines::ProcessDied(pid_t process) { timelines_.erase(process); }

SimulatedDevice::Submitted GpuTimelines::Submit(pid_t process, VirtualTime from, VirtualTime to,
                                                VirtualSpan each) {
  Timeline& timeline = Of(process);
  uint32_t count = 0;
  for (const auto& channel : timeline.channels) count += Untold(timeline, *channel);
  // What a channel waits for may be a plain store of the process.
  const bool waited = !timeline.waiters.empty();
  const uint64_t releases = releases_, interrupts = interrupts_;
  const auto seen = [&] { return releases_ != releases || interrupts_ != interrupts; };
  int64_t budget = kCallBudget;
  if (count == 0) {
    Run(process, timeline, to, false, budget);
    if (waited) LookAtWaiters(process, timeline, budget);
    return {to, 0, seen()};
  }
  const VirtualSpan step = VirtualSpan::Picoseconds((to - from).picoseconds() / (count + 1)) + each;
  VirtualTime at = from;
  // Between channels the order is not known: the work of each is taken in turn.
  const auto channels = timeline.channels;
  int revealed = 0;
  for (bool any = true; any && budget > 0;) {
    any = false;
    for (const auto& channel : channels) {
      if (count == 0 || budget <= 0 || Untold(timeline, *channel) == 0) continue;
      any = true, --count, ++revealed;
      at = at + step;
      Run(process, timeline, at, false, budget);
      if (timeline.clock->Now() < at || !timeline.submitted.empty()) {
        timeline.submitted.emplace_back(at, channel);
        ++timeline.waiting_submissions[channel.get()];
        continue;
      }
      channel->Reveal(at);
      Settle(process, timeline, budget);
    }
  }
  to = std::max(at, to);
  Run(process, timeline, to, false, budget);
  if (waited) LookAtWaiters(process, timeline, budget);
  return {to, revealed, seen()};
}

bool GpuTimelines::HasSubmitted(pid_t process) {
  auto it = timelines_.find(process);
  if (it == timelines_.end()) return false;
  const auto& channels = it->second->channels;
  return std::any_of(channels.begin(), channels.end(),
                     [&](const auto& channel) { return Untold(*it->second, *channel) > 0; });
}

SimulatedDevice::Queues GpuTimelines::QueuesOf(pid_t process) {
  Queues queues;
  auto it = timelines_.find(process);
  if (it == timelines_.end()) return queues;
  for (const auto& channel : it->second->channels) {
    queues.full |= channel->FreeEntries() < kRoomForASubmission;
    const auto waiting = it->second->waiting_submissions.find(channel.get());
    const uint32_t told = waiting == it->second->waiting_submissions.end() ? 0 : waiting->second;
    queues.short_of_room |=
        channel->FreeEntriesAfterRevealed(told) < channel->config().gpfifo_entries / kStepsOfRoom;
    queues.hidden += Untold(*it->second, *channel);
  }
  return queues;
}

const GpuTimelines::Ends& GpuTimelines::EndsOf(const Timeline& timeline) const {
  if (timeline.ends && timeline.ends->failures == services_->failures) return *timeline.ends;
  Ends ends{.failures = services_->failures};
  for (const auto& channel : timeline.channels) {
    // What is still busy until now has been run: it does not wait for time.
    const VirtualTime until = channel->BusyUntil();
    if (until > timeline.clock->Now()) ends.first = std::min(ends.first, until);
    ends.depend_on_others |= channel->HasOpenSharedWork();
  }
  return timeline.ends.emplace(ends);
}

VirtualTime GpuTimelines::Next(const Timeline& timeline) const {
  if (timeline.unfinished) return timeline.clock->Now();
  const VirtualTime submitted =
      timeline.submitted.empty() ? VirtualTime::Infinity() : timeline.submitted.front().first;
  // Somebody else may have written what a channel waits for: not before he did.
  const bool woken = !timeline.waiters.empty() && timeline.settled != releases_;
  VirtualTime next = woken ? std::max(timeline.clock->Now(), last_release_) : submitted;
  return std::min({next, submitted, EndsOf(timeline).first});
}

VirtualTime GpuTimelines::NextEvent(pid_t process) {
  auto it = timelines_.find(process);
  return it == timelines_.end() ? VirtualTime::Infinity() : Next(*it->second);
}

bool GpuTimelines::Shares(const Timeline& timeline) const {
  return services_->shared != nullptr && EndsOf(timeline).depend_on_others;
}

VirtualTime GpuTimelines::Horizon(const Timeline& timeline) const {
  return Shares(timeline) ? services_->shared->Now() : VirtualTime::Infinity();
}

uint32_t GpuTimelines::Untold(const Timeline& timeline, const Channel& channel) {
  const uint32_t hidden = channel.UnrevealedSubmissions();
  if (hidden == 0) return 0;
  auto waiting = timeline.waiting_submissions.find(&channel);
  if (waiting == timeline.waiting_submissions.end()) return hidden;
  return hidden - std::min(hidden, waiting->second);
}

void GpuTimelines::Reveal(Timeline& timeline) {
  const VirtualTime at = timeline.submitted.front().first;
  const auto channel = timeline.submitted.front().second.lock();
  timeline.submitted.pop_front();
  if (channel == nullptr) return;
  auto waiting = timeline.waiting_submissions.find(channel.get());
  if (waiting != timeline.waiting_submissions.end() && --waiting->second == 0) {
    timeline.waiting_submissions.erase(waiting);
  }
  channel->Reveal(at);
  timeline.unfinished = true;
}

bool GpuTimelines::WaitsForOthers(pid_t process) {
  auto it = timelines_.find(process);
  return it != timelines_.end() && Shares(*it->second);
}

VirtualTime GpuTimelines::NextSharedEvent() {
  return services_->shared == nullptr ? VirtualTime::Infinity() : services_->shared->NextEvent();
}

std::vector<pid_t> GpuTimelines::Passed(VirtualTime to) {
  if (services_->shared == nullptr) return {};
  services_->shared->Advance(to);
  auto changed = services_->shared->TakeChanged();
  for (const pid_t process : changed) {
    auto it = timelines_.find(process);
    if (it == timelines_.end()) continue;
    it->second->unfinished = true;
    it->second->ends.reset();
  }
  return changed;
}

SimulatedDevice::Progress GpuTimelines::Advance(pid_t process, VirtualTime to,
                                                bool stop_when_seen) {
  auto it = timelines_.find(process);
  if (it == timelines_.end()) return {.time = to};
  Timeline& timeline = *it->second;
  const uint64_t releases = releases_, interrupts = interrupts_;
  int64_t budget = kCallBudget;
  Run(process, timeline, to, stop_when_seen, budget);
  return {timeline.clock->Now(), releases_ != releases, interrupts_ != interrupts};
}

void GpuTimelines::Run(pid_t process, Timeline& timeline, VirtualTime to, bool stop_when_seen,
                       int64_t& budget) {
  const uint64_t releases = releases_, interrupts = interrupts_;
  while (budget > 0) {
    const VirtualTime next = Next(timeline);
    const VirtualTime end = std::min(to, std::max(Horizon(timeline), timeline.clock->Now()));
    if (next > end || next == VirtualTime::Infinity()) {
      if (end != VirtualTime::Infinity()) timeline.clock->AdvanceTo(end);
      return;
    }
    timeline.clock->AdvanceTo(next);
    budget -= kEventCost;
    Settle(process, timeline, budget);
    // What has ended by now is seen by what is submitted now.
    if (!timeline.submitted.empty() && timeline.submitted.front().first <= next) Reveal(timeline);
    if (stop_when_seen && (releases_ != releases || interrupts_ != interrupts)) return;
  }
}

Channel::State GpuTimelines::Step(pid_t process, Timeline& timeline, Channel& channel, bool& worked,
                                  int64_t& budget) {
  Channel::State state = Channel::State::kActive;
  while (state == Channel::State::kActive && budget > 0) {
    const uint64_t before = channel.releases(), interrupts = channel.interrupts();
    state = channel.Step(*services_, worked, budget);
    interrupts_ += channel.interrupts() - interrupts;
    if (channel.releases() != before) {
      releases_ += channel.releases() - before;
      last_release_ = std::max(last_release_, timeline.clock->Now());
    }
  }
  if (state == Channel::State::kDead && !channel.failure_told()) Failed(process, timeline, channel);
  return state;
}

void GpuTimelines::Settle(pid_t process, Timeline& timeline, int64_t& budget) {
  bool worked = true;
  while (worked && budget > 0) {
    worked = false;
    timeline.waiters.clear();
    timeline.settled = releases_;
    const auto channels = timeline.channels;  // failing ones may be removed
    for (const auto& channel : channels) {
      const Channel::State state = Step(process, timeline, *channel, worked, budget);
      if (state == Channel::State::kWaiting && !channel->Busy()) {
        timeline.waiters.push_back(channel);
      }
    }
  }
  timeline.ends.reset();
  // Without budget, some may not have been looked at.
  timeline.unfinished = worked || budget <= 0;
}

void GpuTimelines::LookAtWaiters(pid_t process, Timeline& timeline, int64_t& budget) {
  timeline.settled = releases_;
  const auto waiters = timeline.waiters;
  bool worked = false;
  for (const auto& waiter : waiters) {
    const auto channel = waiter.lock();
    if (channel == nullptr) continue;
    const Channel::State state = Step(process, timeline, *channel, worked, budget);
    worked |= state != Channel::State::kWaiting || channel->Busy();
  }
  // The others have nothing new.
  if (worked || budget <= 0) Settle(process, timeline, budget);
}

void GpuTimelines::Failed(pid_t process, Timeline& timeline, const Channel& channel) {
  for (const auto& other : timeline.channels) {
    if (other->config().group == channel.config().group) {
      other->Fail(channel.failure(), channel.warp_error(), *services_);
      other->TellFailure();
    }
  }
  ++releases_, ++interrupts_;  // the host sees it
  services_->interrupts->ChannelError(channel.config().gpu, process);
}

}  // namespace phantora
