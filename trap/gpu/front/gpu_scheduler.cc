#include "trap/gpu/front/gpu_scheduler.h"

#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "trap/abi/methods.h"

namespace phantora {
namespace {

// After work the thread polls without a pause for a little while, since the next
// submission of a program that waits for every launch follows within microseconds.
// Then it naps, longer the longer nothing has happened: ranks need the processor.
constexpr VirtualSpan kPollWithoutNap = VirtualSpan::Microseconds(40);
constexpr int64_t kShortestNapNs = 20'000;
constexpr int64_t kLongestNapNs = 500'000;
// In simulated time only the timers of others are run by the thread.
constexpr int64_t kSimulatedNapNs = 2'000'000;
// A nap is at most this fraction of the time since the last work.
constexpr int64_t kIdleToNap = 50;
// A round ends when this has been used: calls wait for it.
constexpr int64_t kRoundBudget = 4 * kStepBudget;

}  // namespace

GpuScheduler::GpuScheduler(TurnLock* machine_lock, GpuServices* services,
                           std::function<bool()> before_round)
    : machine_lock_(machine_lock), services_(services), before_round_(std::move(before_round)) {}

GpuScheduler::~GpuScheduler() { Stop(); }

std::shared_ptr<Doorbell> GpuScheduler::AddDoorbell() {
  auto doorbell = std::make_shared<Doorbell>();
  doorbell->page = std::make_shared<OwnedMemory>(MemoryKind::kRegisters, abi::kUsermodeBytes);
  if (doorbell->page->HostPointer() == nullptr) return nullptr;
  doorbells_.push_back(doorbell);
  return doorbell;
}

void GpuScheduler::Add(std::shared_ptr<Channel> channel,
                       const std::shared_ptr<Doorbell>& doorbell) {
  if (timelines_ != nullptr) {
    timelines_->Add(std::move(channel));
    return;
  }
  std::erase_if(doorbell->channels, [](const auto& weak) { return weak.expired(); });
  doorbell->channels.push_back(channel);
  all_[channel.get()] = std::move(channel);
}

void GpuScheduler::Prepare(Channel::Config& config) {
  if (timelines_ != nullptr) timelines_->Prepare(config);
}

TimeSource& GpuScheduler::TimeOf(pid_t process) {
  return timelines_ != nullptr ? timelines_->TimeOf(process) : *services_->time;
}

void GpuScheduler::Remove(const Channel* channel) {
  if (timelines_ != nullptr) timelines_->Remove(channel);
  if (is_active_.erase(channel) > 0) {
    auto queue = active_.find(channel->config().process);
    std::erase_if(queue->second, [channel](const auto& other) { return other.get() == channel; });
    if (queue->second.empty()) active_.erase(queue);
  }
  all_.erase(channel);
}

void GpuScheduler::Activate(const std::shared_ptr<Channel>& channel) {
  if (!is_active_.insert(channel.get()).second) return;
  active_[channel->config().process].push_back(channel);
}

void GpuScheduler::FailGroup(uint64_t group, uint32_t code, const WarpError& warp_error) {
  for (const auto& [key, channel] : all_) {
    if (channel->config().group == group) channel->Fail(code, warp_error, *services_);
  }
}

bool GpuScheduler::Round() {
  timers_pending_ = before_round_();
  if (timelines_ != nullptr) return false;  // doorbells are not listened to
  for (size_t i = 0; i < doorbells_.size();) {
    auto doorbell = doorbells_[i].lock();
    if (doorbell == nullptr) {
      doorbells_[i] = std::move(doorbells_.back());
      doorbells_.pop_back();
      continue;
    }
    ++i;
    auto* bell = reinterpret_cast<uint32_t*>(doorbell->page->HostPointer() + abi::kDoorbell);
    std::atomic_ref<uint32_t> word(*bell);
    // The word names the last of possibly several channels: look at all.
    if (word.load(std::memory_order_relaxed) != 0 &&
        word.exchange(0, std::memory_order_acquire) != 0) {
      for (const auto& weak : doorbell->channels) {
        if (auto channel = weak.lock()) Activate(channel);
      }
    }
  }
  bool worked = false;
  int64_t round_budget = kRoundBudget;
  for (size_t processes = active_.size(); processes > 0 && round_budget > 0; --processes) {
    auto queue = active_.upper_bound(last_served_);
    if (queue == active_.end()) queue = active_.begin();
    last_served_ = queue->first;
    int64_t budget = kStepBudget;
    RunProcess(queue->second, budget, worked);
    round_budget -= kStepBudget - budget;
    if (queue->second.empty()) active_.erase(queue);
  }
  return worked;
}

void GpuScheduler::RunProcess(std::deque<std::shared_ptr<Channel>>& queue, int64_t& budget,
                              bool& worked) {
  for (size_t channels = queue.size(); channels > 0 && budget > 0; --channels) {
    const auto channel = std::move(queue.front());
    queue.pop_front();
    const Channel::State state = channel->Step(*services_, worked, budget);
    if (state == Channel::State::kDead) {
      // Recovery resets the whole group, for the reason that the one had.
      FailGroup(channel->config().group, channel->failure(), channel->warp_error());
      services_->interrupts->ChannelError(channel->config().gpu, channel->config().process);
    }
    if (state == Channel::State::kIdle || state == Channel::State::kDead) {
      is_active_.erase(channel.get());
    } else {
      queue.push_back(channel);
    }
  }
}

void GpuScheduler::Start() {
  thread_ = std::thread([this] { Run(); });
}

void GpuScheduler::Stop() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

void GpuScheduler::Run() {
  prctl(PR_SET_NAME, "phantora-gpu");
  prctl(PR_SET_TIMERSLACK, 1000);  // ns; the default of 50 us would double a nap
  RealTimeSource clock;
  VirtualTime last_work = clock.Now();
  while (!stop_) {
    bool worked, waiting;
    {
      std::lock_guard lock(*machine_lock_);
      worked = Round();
      waiting = !active_.empty() || timers_pending_;
    }
    const VirtualTime now = clock.Now();
    if (worked) last_work = now;
    const VirtualSpan idle = now - last_work;
    if (idle < kPollWithoutNap && timelines_ == nullptr) continue;
    int64_t nap = kShortestNapNs;
    if (timelines_ != nullptr) {
      nap = kSimulatedNapNs;
    } else if (!waiting) {
      nap = std::clamp(idle.nanoseconds() / kIdleToNap, nap, kLongestNapNs);
    }
    const timespec pause{0, nap};
    nanosleep(&pause, nullptr);
  }
}

}  // namespace phantora
