// Where runs repeat: in which order processes and threads are served. Everything but memory is made
// up.
#include <asm/prctl.h>
#include <gtest/gtest.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <initializer_list>
#include <map>
#include <memory>
#include <vector>

#include "trap/linux/call_table.h"
#include "trap/linux/fake_listener.h"
#include "trap/linux/fake_proc.h"
#include "trap/linux/fake_real_clock.h"
#include "trap/time/fake_device.h"
#include "trap/time/simulated_time.h"
#include "trap/time/thread_gate.h"

namespace phantora {
namespace {

// Process ids that no process of a machine has: Linux gives none above 2^22.
constexpr pid_t kRank = 5'000'000, kOther = 5'000'001;
constexpr int64_t kSecond = 1'000'000'000;

std::vector<pid_t>& Living() {
  static auto* const living = new std::vector<pid_t>;
  return *living;
}
template <typename T>
uint64_t AddressOf(T* object) {
  return reinterpret_cast<uint64_t>(object);
}

class SimulatedOrderTest : public ::testing::Test {
 protected:
  SimulatedOrderTest() : gate_(epoll_.get(), &threads_, &clock_) {
    Living() = {kRank, kOther};
    gate_.Attach(listener_);
    auto time = SimulatedTime::Create({.clocks = {.host = {.mode = HostTimeMode::kZero},
                                                  .device = &device_,
                                                  .machine_lock = &lock_,
                                                  .waited = nullptr,
                                                  .clock = &clock_,
                                                  .threads = &threads_,
                                                  .parent_of = [](pid_t) { return pid_t{0}; }},
                                       .unknowns = &unknowns_,
                                       .log = &log_,
                                       .sharing = nullptr,
                                       .threads = &gate_,
                                       .epoll = epoll_.get(),
                                       .descendants = [] { return Living(); }});
    time_ = *std::move(time);
    for (const pid_t process : Living()) {
      threads_.Sleeps(process, ThreadOf(process), 1, SYS_read);
      clock_.RunProcess(process, 1'000);
    }
  }

  Tracee& TraceeOf(pid_t process) {
    auto& tracee = tracees_[process];
    if (tracee == nullptr) tracee = std::make_unique<Tracee>(process);
    return *tracee;
  }
  // As CallDispatch does it.
  void Serve(pid_t process, const seccomp_notif& notification) {
    const TrappedCall call(notification, TraceeOf(process), gate_);
    if (time_->Holds(call, HandlerOf(call.number()), notification)) {
      waiting_[notification.id] = process;
      return;
    }
    gate_.Stopped(call.id(), process, call.thread());
    time_->Serve(call);
    gate_.Release();
  }
  void Call(pid_t process, pid_t thread, uint64_t id, int number,
            std::initializer_list<uint64_t> arguments = {}) {
    threads_.Sleeps(process, thread, 1, number);
    Serve(process, CallOf(thread, id, number, arguments));
  }
  // As the supervisor's loop.
  void Pass() {
    gate_.Release();
    time_->Pass(gate_);
    while (const auto next = time_->Next()) {
      Serve(waiting_.at(next->id), *next);
      time_->Pass(gate_);
    }
  }
  // One process's first thread is this process's, whose memory its calls use.
  static pid_t ThreadOf(pid_t process) { return process == kOther ? getpid() : process; }
  void Begin(pid_t process, uint64_t id) {
    Call(process, ThreadOf(process), id, SYS_arch_prctl, {ARCH_SET_FS});
  }
  // A call that others see: it sends a signal that does nothing.
  void Signal(pid_t process, uint64_t id) {
    Call(process, ThreadOf(process), id, SYS_kill, {static_cast<uint64_t>(kRank), SIGURG});
  }
  void SleepOther(uint64_t id, int64_t nanoseconds) {
    const timespec time{nanoseconds / kSecond, nanoseconds % kSecond};
    Call(kOther, getpid(), id, SYS_nanosleep, {AddressOf(&time), 0});
  }
  bool IsAnswered(uint64_t id) const { return listener_.Answered(id); }
  // What has been answered is no longer just on its way: where it sleeps, it sleeps.
  void Later() { clock_.Pass(2 * ThreadGate::kPatienceWithSleep); }

  FakeRealClock clock_{0, 1'700'000'000 * kSecond};
  FakeProc threads_;
  FakeDevice device_;
  TurnLock lock_;
  Unknowns unknowns_;
  CallLog log_;
  const UniqueFd epoll_{epoll_create1(EPOLL_CLOEXEC)};
  FakeListener listener_;
  ThreadGate gate_;
  std::map<pid_t, std::unique_ptr<Tracee>> tracees_;
  std::map<uint64_t, pid_t> waiting_;
  std::unique_ptr<SimulatedTime> time_;
};

TEST_F(SimulatedOrderTest, OneProcessIsServedAtOnce) {
  Signal(kRank, 1);
  EXPECT_TRUE(IsAnswered(1));
}

TEST_F(SimulatedOrderTest, WhatOthersSeeWaitsForWhoIsEarlier) {
  Living() = {kOther};
  SleepOther(1, 1'000);
  Pass();
  ASSERT_TRUE(IsAnswered(1));
  Living() = {kRank, kOther};
  Begin(kRank, 2);  // it is there, and a microsecond earlier
  ASSERT_TRUE(IsAnswered(2));
  Signal(kOther, 3);
  Pass();
  EXPECT_FALSE(IsAnswered(3)) << "the earlier one runs";
  Signal(kRank, 4);
  Pass();
  EXPECT_TRUE(IsAnswered(4)) << "it is the first";
  EXPECT_FALSE(IsAnswered(3));
  Later();
  Pass();
  EXPECT_TRUE(IsAnswered(3)) << "until it sleeps in a call that nobody sees";
}

TEST_F(SimulatedOrderTest, OfEqualClocksTheLowerProcessComesFirst) {
  Begin(kRank, 1);
  Begin(kOther, 2);
  Signal(kOther, 3);
  Pass();
  EXPECT_FALSE(IsAnswered(3));
  Signal(kRank, 4);
  Pass();
  EXPECT_TRUE(IsAnswered(4));
  EXPECT_FALSE(IsAnswered(3)) << "that one may do something else yet";
  Later();
  Pass();
  EXPECT_TRUE(IsAnswered(3));
}

TEST_F(SimulatedOrderTest, CallsOfAProcessThatWaitsForItsTurnComeBehind) {
  Begin(kRank, 1);
  Begin(kOther, 2);
  Signal(kOther, 3);
  Call(kOther, kOther + 10, 4, SYS_sched_yield);  // nobody would see it
  Pass();
  EXPECT_FALSE(IsAnswered(4));
  Later();
  Pass();
  EXPECT_EQ(listener_.order(), (std::vector<uint64_t>{1, 2, 3})) << "one thread at a time";
  SleepOther(5, kSecond);
  Pass();
  EXPECT_TRUE(IsAnswered(4));
}

TEST_F(SimulatedOrderTest, TimeDoesNotPassOverACallThatWaitsForItsTurn) {
  Begin(kRank, 1);
  SleepOther(2, kSecond);
  Signal(kRank, 3);
  Pass();
  EXPECT_EQ(listener_.order(), (std::vector<uint64_t>{1, 3}));
  Later();
  Pass();
  EXPECT_TRUE(IsAnswered(2));
}

TEST_F(SimulatedOrderTest, AWokenThreadGoesWhenItsWakerStops) {
  uint32_t word = 7;
  Living() = {kRank};
  Call(kRank, getpid(), 1, SYS_futex, {AddressOf(&word), FUTEX_WAIT_PRIVATE, 7, 0});
  Call(kRank, kRank, 2, SYS_futex, {AddressOf(&word), FUTEX_WAKE_PRIVATE, 1});
  EXPECT_EQ(listener_.AnswerOf(2), FakeListener::Value(1)) << "woken, though the word is as it was";
  EXPECT_FALSE(IsAnswered(1));
  Pass();
  EXPECT_FALSE(IsAnswered(1)) << "its waker runs";
  Call(kRank, kRank, 3, SYS_futex, {AddressOf(&word), FUTEX_WAKE_PRIVATE, 1});
  EXPECT_EQ(listener_.AnswerOf(1), FakeListener::Value(0));
  EXPECT_FALSE(IsAnswered(3)) << "now that one does";
}

TEST_F(SimulatedOrderTest, AWakeOfNobodyIsTheKernels) {
  uint32_t word = 7;
  Call(kRank, kRank, 1, SYS_futex, {AddressOf(&word), FUTEX_WAKE_PRIVATE, 1});
  EXPECT_EQ(listener_.AnswerOf(1), FakeListener::Continue());
}

TEST_F(SimulatedOrderTest, WhoJoinsAThreadGoesOnWhenItIsGone) {
  constexpr pid_t kThread = kRank + 50;
  uint32_t thread = kThread;
  Living() = {kRank};
  threads_.Set(kRank, kThread, 'R', 1, "running");
  Call(kRank, getpid(), 1, SYS_futex, {AddressOf(&thread), FUTEX_WAIT, kThread, 0});
  Call(kRank, kThread, 2, SYS_exit, {0});
  EXPECT_EQ(listener_.AnswerOf(2), FakeListener::Continue());
  Pass();
  EXPECT_FALSE(IsAnswered(1));
  thread = 0;  // as the kernel does
  threads_.End(kRank, kThread);
  Pass();
  EXPECT_EQ(listener_.AnswerOf(1), FakeListener::Value(0));
}

}  // namespace
}  // namespace phantora
