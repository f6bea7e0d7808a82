// What tests of waits have in common: a caller whose memory is made up.
#ifndef PHANTORA_TRAP_TIME_WAITS_WAITS_HARNESS_H_
#define PHANTORA_TRAP_TIME_WAITS_WAITS_HARNESS_H_

#include <errno.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <vector>

#include "trap/linux/fake_listener.h"
#include "trap/linux/fake_memory.h"
#include "trap/linux/unique_fd.h"
#include "trap/time/waits/parse_wait.h"
#include "trap/time/waits/wait_arguments.h"

namespace phantora {

inline constexpr uint64_t kCall = 42;  // notification id
// Addresses.
inline constexpr uint64_t kTimeout = 0x1000, kOut = 0x2000, kArray = 0x3000, kMask = 0x4000;
inline constexpr uint64_t kNowhere = 0xdead0000;
inline constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
inline constexpr VirtualTime kNow = VirtualTime::FromNanoseconds(10'000 * kNanosecondsPerSecond);
inline constexpr int64_t kRealtimeOffset = 1'700'000'000 * kNanosecondsPerSecond;
using Verdict = TimedWait::Verdict;

inline VirtualTime Later(int64_t nanoseconds) {
  return kNow + VirtualSpan::Nanoseconds(nanoseconds);
}

class WaitsTest : public ::testing::Test {
 protected:
  WaitsTest() : self_(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0))) {
    memory_->Put(kTimeout, timespec{1, 500});
    memory_->Put(kOut, timespec{-1, -1});
  }

  std::unique_ptr<TimedWait> Parse(int call, std::initializer_list<uint64_t> arguments) {
    return ParseWait(CallOf(getpid(), kCall, call, arguments),
                     {.now = kNow, .realtime_offset = kRealtimeOffset}, memory_);
  }
  void ExpectError(int error, int call, std::initializer_list<uint64_t> arguments) {
    const auto wait = Parse(call, arguments);
    EXPECT_EQ(wait->verdict(), Verdict::kInvalid);
    EXPECT_EQ(wait->error(), error);
  }
  // The timeout is neither readable nor a time.
  void ExpectTimeoutIsChecked(int call, std::initializer_list<uint64_t> arguments) {
    for (const timespec& time : {timespec{-1, 0}, {0, -1}, {0, 1'000'000'000}, {1, kMost}}) {
      memory_->Put(kTimeout, time);
      ExpectError(EINVAL, call, arguments);
    }
    auto elsewhere = std::vector<uint64_t>(arguments);
    std::replace(elsewhere.begin(), elsewhere.end(), kTimeout, kNowhere);
    auto notification = CallOf(getpid(), kCall, call, {});
    std::copy(elsewhere.begin(), elsewhere.end(), notification.data.args);
    const auto wait = ParseWait(notification, {.now = kNow}, memory_);
    EXPECT_EQ(wait->error(), EFAULT);
    memory_->Put(kTimeout, timespec{1, 500});
  }

  FakeListener::Answer TimeOut(const TimedWait& wait, VirtualTime now) {
    FakeListener listener;
    wait.TimeOut(listener, now);
    return listener.AnswerOf(kCall).value();
  }
  FakeListener::Answer Ready(const TimedWait& wait, VirtualTime now) {
    FakeListener listener;
    wait.Ready(listener, now);
    return listener.AnswerOf(kCall).value();
  }
  FakeListener::Answer Interrupt(const TimedWait& wait, VirtualTime now) {
    FakeListener listener;
    wait.Interrupt(listener, now);
    return listener.AnswerOf(kCall).value();
  }

  const std::shared_ptr<FakeMemory> memory_ = std::make_shared<FakeMemory>();
  const UniqueFd self_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_TIME_WAITS_WAITS_HARNESS_H_
