#include "trap/time/held_calls.h"

#include <gtest/gtest.h>

#include <utility>

namespace phantora {
namespace {

// A thread that waits for its GPU, by itself until `microseconds`; 0: as long as it takes.
HeldCall GpuWait(pid_t process, pid_t thread, int64_t microseconds) {
  HeldCall call;
  call.process = process;
  call.thread = thread;
  if (microseconds > 0) call.deadline = VirtualTime() + VirtualSpan::Microseconds(microseconds);
  return call;
}

TEST(HeldCallsTest, TheEarliestEndsFirstAndOfEqualOnesTheFirst) {
  HeldCalls calls(-1);
  EXPECT_EQ(calls.Earliest(), calls.end());
  calls.Add(1, GpuWait(10, 11, 0));
  EXPECT_EQ(calls.Earliest(), calls.end()) << "it does not end by itself";
  calls.Add(4, GpuWait(10, 12, 7));
  calls.Add(3, GpuWait(20, 21, 7));
  calls.Add(2, GpuWait(20, 22, 9));
  for (const uint64_t expected : {3, 4, 2}) {
    ASSERT_NE(calls.Earliest(), calls.end());
    EXPECT_EQ(calls.Earliest()->first, expected);
    calls.Take(calls.Earliest());
  }
  EXPECT_EQ(calls.Earliest(), calls.end());
  EXPECT_FALSE(calls.empty());
}

TEST(HeldCallsTest, KnowsWhoWaitsForGpus) {
  HeldCalls calls(-1);
  calls.Add(1, GpuWait(10, 11, 0));
  calls.Add(2, GpuWait(10, 12, 5));
  HeldCall for_room = GpuWait(20, 21, 0);
  for_room.for_room = true;
  calls.Add(3, std::move(for_room));
  ASSERT_EQ(calls.gpu_waiters().size(), 1u);
  EXPECT_EQ(calls.gpu_waiters().at(10), (std::set<uint64_t>{1, 2}));
  EXPECT_EQ(calls.room_waiters(), 1);
  EXPECT_TRUE(calls.HoldsThread(12));
  calls.Take(calls.Find(2));
  EXPECT_FALSE(calls.HoldsThread(12));
  EXPECT_EQ(calls.gpu_waiters().at(10), std::set<uint64_t>{1});
  calls.Take(calls.Find(1));
  EXPECT_TRUE(calls.gpu_waiters().empty());
}

}  // namespace
}  // namespace phantora
