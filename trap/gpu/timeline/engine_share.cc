#include "trap/gpu/timeline/engine_share.h"

#include <algorithm>
#include <limits>

namespace phantora {
namespace {

// Longer than any run.
constexpr VirtualSpan kNever = VirtualSpan::Microseconds(int64_t{1'000'000} * 3600 * 24 * 50);

// Infinity rather than an overflow.
VirtualTime After(VirtualTime start, __int128 picoseconds) {
  const __int128 most = std::numeric_limits<int64_t>::max() - start.picoseconds();
  if (picoseconds >= most) return VirtualTime::Infinity();
  return start + VirtualSpan::Picoseconds(static_cast<int64_t>(picoseconds));
}

}  // namespace

void EngineShare::Add(EngineWork* work) {
  work->order_ = next_++;
  all_.emplace(std::pair(work->level_, work->order_), work);
  Divide();
}

void EngineShare::Remove(EngineWork* work) {
  all_.erase({work->level_, work->order_});
  // What it did until now is of no interest any more.
  std::erase(active_, work);
  Divide();
}

void EngineShare::Divide() {
  const VirtualTime now = std::max(clock_->Now(), divided_);
  const __int128 passed = (now - divided_).picoseconds();
  divided_ = now;
  for (EngineWork* work : active_) {
    // Rounded down: work is never over before its time.
    const __int128 done = passed * work->given_ / work->demand_;
    work->left_ -= static_cast<int64_t>(std::min<__int128>(done, work->left_));
    work->given_ = 0;
    if (work->left_ > 0) {
      work->ends_ = VirtualTime::Infinity();
    } else {
      // Over, though its owner has not looked yet: it must not wait for others again.
      all_.erase({work->level_, work->order_});
    }
  }
  active_.clear();
  uint32_t free = kWhole;
  for (const auto& [key, work] : all_) {
    if (free == 0 || active_.size() == kMostAtOnce) break;
    work->given_ = std::min(work->demand_, free);
    free -= work->given_;
    active_.push_back(work);
    if (work->began_ == VirtualTime::Infinity()) work->began_ = now;
  }
  if (active_.size() > 1) ShareMemory();
  for (EngineWork* work : active_) {
    const __int128 units = static_cast<__int128>(work->left_) * work->demand_;
    work->ends_ = After(now, (units + work->given_ - 1) / work->given_);
  }
}

void EngineShare::ShareMemory() {
  uint64_t wanted = 0;
  for (const EngineWork* work : active_) {
    wanted += uint64_t{work->memory_} * work->given_ / work->demand_;
  }
  if (wanted <= kWhole) return;
  const uint64_t excess = wanted - kWhole;
  for (EngineWork* work : active_) {
    const __int128 slowed = kWhole + static_cast<__int128>(excess) * work->memory_ / kWhole;
    const auto given = static_cast<uint32_t>(static_cast<__int128>(work->given_) * kWhole / slowed);
    work->given_ = std::max<uint32_t>(given, 1);
  }
}

EngineWork::EngineWork(EngineShare* share, VirtualTime now, const Need& need)
    : share_(need.span > VirtualSpan() ? share : nullptr),
      demand_(std::clamp(need.demand, uint32_t{1}, EngineShare::kWhole)),
      level_(need.level),
      memory_(std::min(need.memory, EngineShare::kWhole)),
      left_(need.span.picoseconds()) {
  if (share_ != nullptr) {
    share_->Add(this);
  } else {
    began_ = now;
    ends_ = After(now, std::max<int64_t>(left_, 0));
  }
}

EngineWork::~EngineWork() {
  if (share_ != nullptr) share_->Remove(this);
}

EngineWork::Need NeedWithoutEnd(double sms, uint32_t all_sms, double memory_share, uint32_t level) {
  const double part = std::clamp(sms / std::max<uint32_t>(all_sms, 1), 0.0, 1.0);
  return {.span = kNever,
          .demand = static_cast<uint32_t>(part * (EngineShare::kWhole - 1)) + 1,
          .level = level,
          .memory = static_cast<uint32_t>(memory_share * EngineShare::kWhole)};
}

}  // namespace phantora
