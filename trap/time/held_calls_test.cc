#include "trap/time/held_calls.h"

#include <gtest/gtest.h>
#include <linux/futex.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <memory>
#include <utility>
#include <vector>

#include "trap/linux/fake_listener.h"
#include "trap/linux/fake_memory.h"
#include "trap/time/waits/parse_wait.h"
#include "trap/time/waits/transfer_wait.h"

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

// A wait for a futex's word, which is looked at.
HeldCall FutexWaitOf(pid_t process, pid_t thread, uint64_t id, bool is_private) {
  const auto memory = std::make_shared<FakeMemory>();
  memory->Put(0x1000, timespec{1, 0});
  memory->Put(0x2000, uint32_t{5});
  const uint64_t operation = FUTEX_WAIT | (is_private ? FUTEX_PRIVATE_FLAG : 0);
  HeldCall call;
  call.process = process;
  call.thread = thread;
  call.wait = ParseWait(CallOf(thread, id, SYS_futex, {0x2000, operation, 5, 0x1000}), {}, memory);
  call.deadline = call.wait->deadline();
  return call;
}

TEST(HeldCallsTest, KnowsWhoseMemoryIsToBeLookedAt) {
  HeldCalls calls(-1);
  calls.Add(5, FutexWaitOf(20, 21, 5, true));
  calls.Add(3, FutexWaitOf(10, 11, 3, true));
  calls.Add(4, FutexWaitOf(10, 12, 4, false));
  calls.Add(9, GpuWait(10, 13, 0));
  EXPECT_EQ(calls.polled(), 3u);
  EXPECT_EQ(calls.polled_shared(), 1u);
  const auto ids = [&](pid_t process) {
    std::vector<uint64_t> ids;
    const auto [first, last] = calls.PolledOf(process);
    for (auto it = first; it != last; ++it) ids.push_back(it->second->first);
    return ids;
  };
  EXPECT_EQ(ids(10), (std::vector<uint64_t>{3, 4}));
  EXPECT_EQ(ids(20), std::vector<uint64_t>{5});
  EXPECT_TRUE(ids(30).empty());
  EXPECT_EQ(ids(0), (std::vector<uint64_t>{3, 4, 5})) << "one process after another";
  calls.Take(calls.Find(4));
  EXPECT_EQ(calls.polled_shared(), 0u);
  calls.Take(calls.Find(3));
  EXPECT_EQ(calls.polled(), 1u);
  EXPECT_FALSE(calls.HoldsThread(11));
}

TEST(HeldCallsTest, FindsTheCallByTheDescriptorThatIsReady) {
  const UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC)), file(eventfd(0, EFD_CLOEXEC));
  const UniqueFd self(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
  HeldCalls calls(epoll.get());
  const size_t left = calls.copies_left(10);
  ASSERT_GT(left, 2u);
  HeldCall call;
  call.process = 10;
  call.thread = 11;
  const TransferCall transfer{.kind = TransferCall::Kind::kReceive, .descriptor = file.get()};
  call.wait = std::make_unique<TransferWait>(CallOf(11, 7, SYS_read, {}), transfer,
                                             VirtualTime::Infinity());
  const int watched = call.wait->WatchDescriptors(self.get(), left);
  ASSERT_GE(watched, 0);
  calls.Add(7, std::move(call));
  EXPECT_EQ(calls.copies_left(10), left - 2) << "the copy and the set";
  EXPECT_EQ(calls.copies_left(20), left) << "another process's share";
  epoll_event event{};
  EXPECT_EQ(epoll_wait(epoll.get(), &event, 1, 0), 0);
  ASSERT_EQ(eventfd_write(file.get(), 1), 0);
  ASSERT_EQ(epoll_wait(epoll.get(), &event, 1, 0), 1);
  bool known = false;
  const auto found = calls.Watching(event.data.fd, &known);
  EXPECT_TRUE(known);
  ASSERT_NE(found, calls.end());
  EXPECT_EQ(found->first, 7u);
  EXPECT_EQ(calls.Watching(watched + 1, &known), calls.end());
  EXPECT_FALSE(known);
  HeldCall taken = calls.Take(found);
  EXPECT_EQ(calls.copies_left(10), left);
  EXPECT_EQ(calls.Watching(watched, &known), calls.end());
}

TEST(HeldCallsTest, AfterAnExecAThreadMayBeHeldTwice) {
  HeldCalls calls(-1);
  calls.Add(1, GpuWait(10, 10, 5));
  calls.Add(2, GpuWait(10, 10, 6));
  calls.Take(calls.Find(1));
  EXPECT_TRUE(calls.HoldsThread(10)) << "the later call is still held";
  calls.Take(calls.Find(2));
  EXPECT_FALSE(calls.HoldsThread(10));
  EXPECT_TRUE(calls.empty());
}

}  // namespace
}  // namespace phantora
