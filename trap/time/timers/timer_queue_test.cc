#include "trap/time/timers/timer_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace phantora {
namespace {

using Kind = TimerKey::Kind;

VirtualTime At(int64_t microseconds) {
  return VirtualTime() + VirtualSpan::Microseconds(microseconds);
}
TimerKey Posix(pid_t process, int64_t id) { return {Kind::kPosix, process, id}; }

TEST(TimerQueueTest, TheEarliestIsTold) {
  TimerQueue queue;
  EXPECT_EQ(queue.Earliest(), TimerQueue::Due());
  queue.Set(Posix(10, 1), 10, At(7));
  queue.Set(Posix(20, 1), 20, At(5));
  EXPECT_EQ(queue.Earliest(), (TimerQueue::Due{At(5), 20}));
  queue.Set(Posix(20, 1), 20, At(9));
  EXPECT_EQ(queue.Earliest(), (TimerQueue::Due{At(7), 10}));
  queue.Set(Posix(10, 1), 10, VirtualTime::Infinity());
  EXPECT_EQ(queue.Earliest(), (TimerQueue::Due{At(9), 20}));
  queue.Remove(Posix(20, 1));
  EXPECT_EQ(queue.Earliest(), TimerQueue::Due());
  queue.Remove(Posix(20, 1));
}

TEST(TimerQueueTest, OfEqualOnesTheLowestKeyIsFirstWhateverTheOrderOfSetting) {
  std::vector<TimerKey> keys = {
      {Kind::kInterval, 30, 0},  {Kind::kInterval, 31, 0}, Posix(10, 5), Posix(10, 6), Posix(11, 1),
      {Kind::kDescriptor, 0, 77}};
  std::mt19937 random(3);
  auto shuffled = keys;
  for (int round = 0; round < 30; ++round) {
    std::shuffle(shuffled.begin(), shuffled.end(), random);
    TimerQueue queue;
    for (const TimerKey& key : shuffled) queue.Set(key, 10, At(4));
    EXPECT_EQ(queue.DueOf(10, At(4)), keys);
  }
}

TEST(TimerQueueTest, DueAreThoseOfOneProcessInTheOrderOfTheirDeadlines) {
  TimerQueue queue;
  queue.Set(Posix(10, 1), 10, At(9));
  queue.Set(Posix(10, 2), 10, At(3));
  queue.Set(Posix(10, 3), 10, At(10));
  queue.Set(Posix(20, 1), 20, At(1));
  EXPECT_EQ(queue.DueOf(10, At(9)), (std::vector<TimerKey>{Posix(10, 2), Posix(10, 1)}));
  EXPECT_TRUE(queue.DueOf(10, At(2)).empty());
  EXPECT_TRUE(queue.DueOf(30, At(100)).empty());
}

TEST(TimerQueueTest, CountsAndFollowsTimersThatChangeHands) {
  TimerQueue queue;
  const TimerKey descriptor{Kind::kDescriptor, 0, 5};
  queue.Set(descriptor, 20, At(5));
  queue.Set(Posix(10, 1), 10, VirtualTime::Infinity());
  queue.Set(Posix(10, 2), 10, At(3));
  EXPECT_EQ(queue.Processes(), (std::vector<pid_t>{10, 20}));
  EXPECT_EQ(queue.CountOf(10), 2u) << "disarmed ones too";
  EXPECT_EQ(queue.CountOf(20), 1u);
  queue.Set(descriptor, 10, At(5));
  EXPECT_EQ(queue.CountOf(20), 0u);
  EXPECT_EQ(queue.CountOf(10), 3u);
  EXPECT_EQ(queue.Processes(), std::vector<pid_t>{10});
  queue.Set(Posix(10, 2), 10, VirtualTime::Infinity());
  EXPECT_EQ(queue.Earliest(), (TimerQueue::Due{At(5), 10}));
}

}  // namespace
}  // namespace phantora
