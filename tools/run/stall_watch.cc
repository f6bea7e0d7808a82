#include "tools/run/stall_watch.h"

#include "absl/strings/str_cat.h"

namespace phantora {
namespace {

// Nanoseconds of real time: between two looks, and how long nothing may happen.
constexpr int64_t kBetweenLooks = 500'000'000, kRestBeforeTelling = 3'000'000'000,
                  kRestBeforeEnding = 10'000'000'000;
// Of simulated time, for ranks that do not rest: a thread of PyTorch looks around every 100 ms
// while the others wait, so time passes quickly. PyTorch gives up after ten minutes by default.
constexpr VirtualSpan kWaitBeforeTelling = VirtualSpan::Microseconds(int64_t{60} * 1'000'000),
                      kWaitBeforeEnding = VirtualSpan::Microseconds(int64_t{3600} * 1'000'000);

}  // namespace

void StallWatch::Look(const std::function<bool()>& at_rest) {
  const int64_t now = options_.clock->Monotonic();
  if (now - looked_at_ns_ < kBetweenLooks) return;
  looked_at_ns_ = now;
  const uint64_t progress = options_.progress();
  const VirtualTime time = options_.now();
  if (progress != progress_ || progress_at_ns_ == 0) {
    progress_ = progress;
    progress_at_ns_ = now;
    progress_at_ = time;
    rested_ = true;
    told_ = false;
    return;
  }
  const std::string waiting = options_.waiting(time);
  if (waiting.empty()) {
    progress_at_ns_ = now;
    progress_at_ = time;
    return;
  }
  rested_ = rested_ && at_rest();
  if (rested_ && now - progress_at_ns_ > kRestBeforeTelling) {
    const bool for_ever = now - progress_at_ns_ > kRestBeforeEnding;
    Tell(waiting, "All processes are blocked, and nothing will happen by itself.", for_ever);
  } else if (time - progress_at_ > kWaitBeforeTelling) {
    Tell(waiting, "Nothing has made progress for more than a minute of simulated time.",
         time - progress_at_ > kWaitBeforeEnding);
  }
  if (!rested_ && time - progress_at_ < kWaitBeforeTelling) {
    // Somebody computes: what rests from now on rests anew.
    rested_ = true;
    progress_at_ns_ = now;
  }
}

void StallWatch::Tell(const std::string& waiting, const char* since, bool for_ever) {
  if (for_ever) {
    options_.end(absl::StrCat("NCCL: ranks wait for each other in vain. ", since, "\n", waiting,
                              "The run is ended."));
  } else if (!told_) {
    told_ = true;
    options_.warn(absl::StrCat("NCCL: ranks wait for others. ", since, "\n", waiting,
                               "If they wait in vain, the run is ended by and by."));
  }
}

}  // namespace phantora
