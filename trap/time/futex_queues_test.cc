#include "trap/time/futex_queues.h"

#include <gtest/gtest.h>
#include <linux/futex.h>
#include <sys/syscall.h>

#include <cerrno>
#include <vector>

#include "trap/linux/fake_listener.h"
#include "trap/linux/fake_memory.h"
#include "trap/linux/fake_proc.h"
#include "trap/time/futex_call.h"

namespace phantora {
namespace {

constexpr pid_t kOne = 100, kTwo = 200;
constexpr uint64_t kWord = 0x7f0000001040, kElsewhere = 0x7f0000009040, kSecond = 0x7f0000002080;
using Calls = std::vector<uint64_t>;

FutexName Private(pid_t process, uint64_t address) { return {process, address, true}; }
FutexName Shared(pid_t process, uint64_t address) { return {process, address, false}; }

class FutexQueuesTest : public ::testing::Test {
 protected:
  FutexQueuesTest() {
    proc_.SetText(kOne, "maps",
                  "7f0000001000-7f0000002000 rw-s 00005000 00:01 77 /dev/shm/a\n"
                  "7f0000008000-7f000000a000 rw-p 00000000 00:00 0 \n");
    proc_.SetText(kTwo, "maps", "7f0000009000-7f000000a000 rw-s 00005000 00:01 77 /dev/shm/a\n");
  }

  FakeProc proc_;
  FutexQueues queues_{&proc_};
};

TEST_F(FutexQueuesTest, WhoHasComeFirstIsWokenFirst) {
  for (const uint64_t call : {7, 5, 9}) queues_.Add(call, Private(kOne, kWord));
  EXPECT_EQ(queues_.Waiters(Private(kOne, kWord), 2), (Calls{7, 5}));
  queues_.Remove(7);
  EXPECT_EQ(queues_.Waiters(Private(kOne, kWord), 9), (Calls{5, 9}));
  queues_.Remove(5);
  queues_.Remove(9);
  EXPECT_TRUE(queues_.empty());
  queues_.Remove(9);  // as well
}

TEST_F(FutexQueuesTest, PrivateOnesAreTheProcesssOwn) {
  queues_.Add(1, Private(kOne, kWord));
  EXPECT_EQ(queues_.Waiters(Private(kTwo, kWord), 9), Calls());
  EXPECT_EQ(queues_.Waiters(Private(kOne, kWord + 4), 9), Calls());
  EXPECT_EQ(queues_.Waiters(Shared(kOne, kWord), 9), Calls()) << "another key of the kernel's";
}

TEST_F(FutexQueuesTest, SharedOnesAreFoundByTheirFile) {
  queues_.Add(1, Shared(kOne, kWord));
  queues_.Add(2, Shared(kOne, kElsewhere));  // not shared: its own
  EXPECT_EQ(queues_.Waiters(Shared(kTwo, kElsewhere), 9), (Calls{1}));
  EXPECT_EQ(queues_.Waiters(Shared(kOne, kElsewhere), 9), (Calls{2}));
}

TEST_F(FutexQueuesTest, BitsTellWaitersApart) {
  queues_.Add(1, Private(kOne, kWord), 1);
  queues_.Add(2, Private(kOne, kWord), 2);
  EXPECT_EQ(queues_.Waiters(Private(kOne, kWord), 9, 2), (Calls{2}));
  EXPECT_EQ(queues_.Waiters(Private(kOne, kWord), 9), (Calls{1, 2}));
}

TEST_F(FutexQueuesTest, OneMayWaitForSeveral) {
  queues_.Add(1, Private(kOne, kWord));
  queues_.Add(1, Private(kOne, kSecond));
  EXPECT_EQ(queues_.FutexesOf(1).size(), 2u);
  queues_.Remove(1);
  EXPECT_EQ(queues_.Waiters(Private(kOne, kWord), 9), Calls());
  EXPECT_TRUE(queues_.FutexesOf(1).empty());
}

TEST_F(FutexQueuesTest, WhoIsMovedWaitsBehindThoseThatAreThere) {
  queues_.Add(1, Private(kOne, kWord));
  queues_.Add(2, Private(kOne, kSecond));
  queues_.Move({1}, Private(kOne, kSecond));
  EXPECT_EQ(queues_.Waiters(Private(kOne, kWord), 9), Calls());
  EXPECT_EQ(queues_.Waiters(Private(kOne, kSecond), 9), (Calls{2, 1}));
}

TEST_F(FutexQueuesTest, WaitersInAProcess) {
  queues_.Add(3, Private(kOne, kWord));
  queues_.Add(2, Private(kTwo, kWord));
  queues_.Add(1, Shared(kTwo, kElsewhere));
  EXPECT_EQ(queues_.WaitersIn(kOne), (Calls{3, 1}));
}

class FutexCallTest : public FutexQueuesTest {
 protected:
  FutexWake Parse(int operation, std::initializer_list<uint64_t> rest) {
    std::vector<uint64_t> arguments = {kWord, static_cast<uint64_t>(operation)};
    arguments.insert(arguments.end(), rest);
    auto call = CallOf(kOne, 1, SYS_futex, {});
    std::copy(arguments.begin(), arguments.end(), call.data.args);
    return FutexWake::Parse(call, kOne);
  }
  // On a word with this value; the value afterwards, or nothing if it is refused.
  std::optional<uint32_t> Operate(uint32_t old, uint32_t operation, bool* wakes_others = nullptr) {
    memory_.Put(kSecond, old);
    const auto verdict = Parse(FUTEX_WAKE_OP, {1, 1, kSecond, operation}).Do(memory_);
    if (verdict.error != 0) return std::nullopt;
    if (wakes_others != nullptr) *wakes_others = verdict.wakes_others;
    return memory_.ReadObject<uint32_t>(RemoteAddress{kSecond});
  }
  FakeMemory memory_;
};

TEST_F(FutexCallTest, AWakeWakesOneAtLeast) {
  const auto wake = Parse(FUTEX_WAKE | FUTEX_PRIVATE_FLAG, {0});
  EXPECT_EQ(wake.wakes, 1u);
  EXPECT_TRUE(wake.first.is_private);
  EXPECT_EQ(wake.first.address, kWord);
  EXPECT_EQ(Parse(FUTEX_WAKE, {5}).wakes, 5u);
  EXPECT_EQ(Parse(FUTEX_WAKE_BITSET, {5, 0, 0, 6}).bits, 6u);
  EXPECT_EQ(wake.Do(memory_).error, 0);
}

TEST_F(FutexCallTest, ARequeueWakesSomeAndMovesOthers) {
  for (const uint64_t call : {1, 2, 3, 4}) queues_.Add(call, Private(kOne, kWord));
  memory_.Put(kWord, uint32_t{8});
  const auto wake = Parse(FUTEX_CMP_REQUEUE | FUTEX_PRIVATE_FLAG, {1, 2, kSecond, 8});
  const auto woken = queues_.Waiters(wake.first, wake.wakes);
  EXPECT_EQ(woken, (Calls{1}));
  EXPECT_EQ(wake.ToMove(queues_, woken), (Calls{2, 3}));
  EXPECT_EQ(wake.second.address, kSecond);
  EXPECT_TRUE(wake.counts_moved);
  EXPECT_EQ(wake.Do(memory_).error, 0);
  EXPECT_EQ(Parse(FUTEX_CMP_REQUEUE, {1, 2, kSecond, 9}).Do(memory_).error, EAGAIN);
  EXPECT_EQ(Parse(FUTEX_REQUEUE, {1, 2, kSecond, 9}).Do(memory_).error, 0);
}

TEST_F(FutexCallTest, AnOperationChangesTheSecondWordAndComparesWhatItWas) {
  bool wakes = false;
  EXPECT_EQ(Operate(5, FUTEX_OP(FUTEX_OP_SET, 3, FUTEX_OP_CMP_EQ, 5), &wakes), 3u);
  EXPECT_TRUE(wakes);
  EXPECT_EQ(Operate(5, FUTEX_OP(FUTEX_OP_ADD, 0xfff, FUTEX_OP_CMP_GT, 5), &wakes), 4u);
  EXPECT_FALSE(wakes);
  EXPECT_EQ(Operate(5, FUTEX_OP(FUTEX_OP_OR, 8, FUTEX_OP_CMP_LE, 5), &wakes), 13u);
  EXPECT_TRUE(wakes);
  EXPECT_EQ(Operate(5, FUTEX_OP(FUTEX_OP_ANDN, 4, FUTEX_OP_CMP_NE, 5), &wakes), 1u);
  EXPECT_FALSE(wakes);
  EXPECT_EQ(
      Operate(5, FUTEX_OP(FUTEX_OP_XOR | FUTEX_OP_OPARG_SHIFT, 1, FUTEX_OP_CMP_LT, 6), &wakes), 7u);
  EXPECT_TRUE(wakes);
  EXPECT_EQ(Operate(0xffffffff, FUTEX_OP(FUTEX_OP_SET, 0, FUTEX_OP_CMP_GE, 0xfff), &wakes), 0u);
  EXPECT_TRUE(wakes) << "-1 is not less than -1";
  EXPECT_EQ(Operate(5, 7u << 28), std::nullopt) << "no such operation";
  EXPECT_EQ(Operate(5, FUTEX_OP(FUTEX_OP_SET, 0, 9, 0)), std::nullopt) << "nor comparison";
}

}  // namespace
}  // namespace phantora
