// What processes are answered, and when. Their threads, processor time and GPUs are made up; where
// memory and descriptors are needed, they are this process's own.
#include "trap/time/simulated_time.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "trap/linux/fake_listener.h"
#include "trap/linux/fake_proc.h"
#include "trap/linux/fake_real_clock.h"
#include "trap/time/fake_device.h"

namespace phantora {
namespace {

// Process ids that no process of a machine has: Linux gives none above 2^22.
constexpr pid_t kRank = 5'000'000;
constexpr int64_t kSecond = 1'000'000'000, kDay = 86'400 * kSecond;
constexpr int64_t kReal = 1'700'000'000 * kSecond;  // CLOCK_REALTIME of the fake host

VirtualTime At(int64_t microseconds) {
  return ProcessClocks::Start() + VirtualSpan::Microseconds(microseconds);
}
template <typename T>
uint64_t AddressOf(T* object) {
  return reinterpret_cast<uint64_t>(object);
}
std::vector<pid_t>& Living() {
  static auto* const living = new std::vector<pid_t>;
  return *living;
}

class SimulatedTimeTest : public ::testing::Test {
 protected:
  SimulatedTimeTest() { Living().clear(); }

  void Start(HostTimeMode mode = HostTimeMode::kFixed) {
    tracees_.clear();
    listener_ = std::make_unique<FakeListener>();
    device_ = FakeDevice();
    epoll_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
    auto time = SimulatedTime::Create({.clocks = {.host = {.mode = mode},
                                                  .device = &device_,
                                                  .machine_lock = &lock_,
                                                  .waited = nullptr,
                                                  .clock = &clock_,
                                                  .threads = &threads_,
                                                  .parent_of = [](pid_t) { return pid_t{0}; }},
                                       .unknowns = &unknowns_,
                                       .log = &log_,
                                       .sharing = nullptr,
                                       .epoll = epoll_.get(),
                                       .descendants = [] { return Living(); }});
    ASSERT_TRUE(time.ok()) << time.status();
    time_ = *std::move(time);
  }
  Tracee& TraceeOf(pid_t process) {
    auto& tracee = tracees_[process];
    if (tracee == nullptr) {
      tracee = std::make_unique<Tracee>(process);
      tracee->pidfd = UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
    }
    return *tracee;
  }
  // A call of `process`, by this process's thread, whose memory and descriptors it uses.
  bool Serve(pid_t process, uint64_t id, int call, std::initializer_list<uint64_t> arguments) {
    return time_->Serve({CallOf(getpid(), id, call, arguments), TraceeOf(process), *listener_});
  }
  // By a thread of its own, which has no memory.
  bool ServeOwn(pid_t process, uint64_t id, int call, std::initializer_list<uint64_t> arguments) {
    return time_->Serve({CallOf(process, id, call, arguments), TraceeOf(process), *listener_});
  }
  void Sleep(pid_t process, uint64_t id, int64_t nanoseconds) {
    const timespec time{nanoseconds / kSecond, nanoseconds % kSecond};
    ASSERT_TRUE(Serve(process, id, SYS_nanosleep, {AddressOf(&time), 0}));
  }
  // Its threads are blocked in the kernel, as far as they are not held.
  void Block(pid_t process, int slices = 1) {
    threads_.Sleeps(process, process, slices);
    clock_.RunProcess(process, 1'000);
    Living().push_back(process);
  }
  void Pass() { time_->Pass(*listener_); }
  VirtualTime NowOf(pid_t process) { return time_->clocks().NowOf(process); }
  std::optional<FakeListener::Answer> AnswerOf(uint64_t id) { return listener_->AnswerOf(id); }

  FakeRealClock clock_{200 * kDay, kReal};
  FakeProc threads_;
  FakeDevice device_;
  TurnLock lock_;
  Unknowns unknowns_;
  CallLog log_;
  UniqueFd epoll_;
  std::map<pid_t, std::unique_ptr<Tracee>> tracees_;
  std::unique_ptr<FakeListener> listener_;
  std::unique_ptr<SimulatedTime> time_;
};

TEST_F(SimulatedTimeTest, SleepsTakeSimulatedTimeAlone) {
  Start();
  Sleep(kRank, 1, 3'600 * kSecond);
  EXPECT_FALSE(listener_->Answered(1));
  Pass();
  EXPECT_EQ(AnswerOf(1), FakeListener::Value(0));
  EXPECT_EQ(NowOf(kRank), At(3'600'000'000));
  EXPECT_EQ(clock_.Monotonic(), 200 * kDay) << "no real time";
  EXPECT_EQ(time_->counters().waits, 1u);
}

TEST_F(SimulatedTimeTest, ClocksOfAHostThatHasBeenUpForLong) {
  for (const int64_t days : {1, 200, 365 * 20}) {
    clock_ = FakeRealClock(days * kDay, kReal);
    Start();
    timespec monotonic{}, realtime{};
    timeval day{};
    Serve(kRank, 1, SYS_clock_gettime, {CLOCK_MONOTONIC, AddressOf(&monotonic)});
    Serve(kRank, 2, SYS_clock_gettime, {CLOCK_REALTIME, AddressOf(&realtime)});
    Serve(kRank, 3, SYS_gettimeofday, {AddressOf(&day), 0});
    Serve(kRank, 4, SYS_time, {0});
    EXPECT_EQ(monotonic.tv_sec, 10'000) << "the same for every run";
    EXPECT_EQ(realtime.tv_sec, 1'700'000'000) << "today";
    EXPECT_EQ(day.tv_sec, 1'700'000'000);
    EXPECT_EQ(AnswerOf(4), FakeListener::Value(1'700'000'000));
    // Sleeps to an instant of either clock.
    const timespec until{10'007, 0}, date{1'700'000'009, 0};
    Serve(kRank, 5, SYS_clock_nanosleep, {CLOCK_MONOTONIC, TIMER_ABSTIME, AddressOf(&until), 0});
    Pass();
    EXPECT_EQ(NowOf(kRank), At(7'000'000));
    Serve(kRank, 6, SYS_clock_nanosleep, {CLOCK_REALTIME, TIMER_ABSTIME, AddressOf(&date), 0});
    Pass();
    EXPECT_EQ(NowOf(kRank), At(9'000'000));
  }
}

TEST_F(SimulatedTimeTest, ClockReadsThatCannotBeWritten) {
  Start();
  EXPECT_TRUE(Serve(kRank, 1, SYS_clock_gettime, {CLOCK_MONOTONIC, 8}));
  EXPECT_EQ(AnswerOf(1), FakeListener::Error(EFAULT));
  Serve(kRank, 2, SYS_gettimeofday, {8, 0});
  EXPECT_EQ(AnswerOf(2), FakeListener::Error(EFAULT));
  Serve(kRank, 3, SYS_gettimeofday, {0, 0});
  EXPECT_EQ(AnswerOf(3), FakeListener::Value(0));
}

TEST_F(SimulatedTimeTest, SleepersWakeInTheOrderOfTheirDeadlines) {
  Start();
  const std::map<uint64_t, int64_t> sleeps = {{1, 30'000}, {2, 10'000}, {3, 20'000}, {4, 20'000}};
  for (const auto& [id, nanoseconds] : sleeps) {
    Sleep(kRank + static_cast<pid_t>(id), id, nanoseconds);
  }
  for (int i = 0; i < 4; ++i) {
    Pass();
    // The one that was let go sleeps on, so that time may pass.
    const uint64_t last = listener_->order().back();
    Sleep(kRank + static_cast<pid_t>(last), 100 + last, kSecond);
  }
  EXPECT_EQ(listener_->order(), (std::vector<uint64_t>{2, 3, 4, 1}));
}

TEST_F(SimulatedTimeTest, TimeWaitsForWhoeverRuns) {
  Start();
  Block(kRank + 1);
  threads_.Set(kRank + 1, kRank + 1, 'R', 2, "running");
  Sleep(kRank, 1, kSecond);
  Pass();
  EXPECT_FALSE(listener_->Answered(1));
  threads_.Sleeps(kRank + 1, kRank + 1, 3);
  listener_->Call(CallOf(kRank + 1, 9, SYS_getpid, {}));
  Pass();
  EXPECT_FALSE(listener_->Answered(1)) << "a call has not been received yet";
  listener_->Receive();
  Pass();
  EXPECT_EQ(AnswerOf(1), FakeListener::Value(0));
}

TEST_F(SimulatedTimeTest, WorkReachesWhatRanksShareInTheSameOrderWhoeverStoppedFirst) {
  std::vector<pid_t> ranks;
  for (pid_t rank = kRank; rank < kRank + 24; ++rank) ranks.push_back(rank);
  std::mt19937 random(5);
  for (int round = 0; round < 12; ++round) {
    Start();
    for (const pid_t rank : ranks) {
      time_->DriverCall(rank, getpid());
      if (rank % 3 == 0) time_->DriverCall(rank, getpid());  // it is later
      device_.Of(rank).unsubmitted = 1;
      Sleep(rank, static_cast<uint64_t>(rank), kSecond);
    }
    device_.submits.clear();
    Pass();
    ASSERT_GE(device_.submits.size(), ranks.size());
    const std::vector<std::pair<pid_t, VirtualTime>> submits(
        device_.submits.begin(), device_.submits.begin() + static_cast<ptrdiff_t>(ranks.size()));
    for (size_t i = 1; i < submits.size(); ++i) {
      EXPECT_LT(std::pair(submits[i - 1].second, submits[i - 1].first),
                std::pair(submits[i].second, submits[i].first));
    }
    std::shuffle(ranks.begin(), ranks.end(), random);
  }
}

TEST_F(SimulatedTimeTest, SignalsInterruptInTheOrderOfProcesses) {
  std::vector<pid_t> processes;
  for (int i = 0; i < 40; ++i) processes.push_back(kRank + i * i);
  const std::vector<uint64_t> expected(processes.begin(), processes.end());
  std::mt19937 random(9);
  for (int round = 0; round < 6; ++round) {
    Start();
    Living().clear();
    for (const pid_t process : processes) {
      threads_.SetFile(process, process, "status",
                       "SigPnd:\t0\nShdPnd:\t0000000000000200\nSigBlk:\t0\nSigIgn:\t0\n"
                       "SigCgt:\t0000000000000200\n");
      // It waits for memory that cannot be read here; a wait by its own thread.
      ServeOwn(process, static_cast<uint64_t>(process), SYS_poll, {0, 0, 60'000});
    }
    // Later than the kernel's own looks for signals.
    clock_.Pass(kSecond);
    Pass();
    EXPECT_EQ(listener_->order(), expected);
    for (const pid_t process : processes) {
      EXPECT_EQ(AnswerOf(static_cast<uint64_t>(process)), FakeListener::Error(EINTR));
    }
    std::shuffle(processes.begin(), processes.end(), random);
  }
}

TEST_F(SimulatedTimeTest, WhoADebuggerStopsMakesItsCallAgainAndWaitsNoLongerForThat) {
  Start(HostTimeMode::kMeasured);
  constexpr int kAgain = 514;  // ERESTARTNOHAND: the kernel's own, which no program sees
  constexpr auto kTimeout = VirtualSpan::Microseconds(2'000'000);
  ServeOwn(kRank, 1, SYS_poll, {0, 0, 2'000});
  const VirtualTime begin = NowOf(kRank);
  threads_.SetFile(kRank, kRank, "status",
                   "SigPnd:\t0000000000040000\nShdPnd:\t0\nSigBlk:\t0\nSigCgt:\t0\n");
  clock_.Pass(kSecond);
  Pass();
  ASSERT_EQ(AnswerOf(1), FakeListener::Error(kAgain));
  threads_.SetFile(kRank, kRank, "status", "SigPnd:\t0\nShdPnd:\t0\nSigBlk:\t0\nSigCgt:\t0\n");
  clock_.RunProcess(kRank, 5'000'000);
  ServeOwn(kRank, 2, SYS_poll, {0, 0, 2'000});
  EXPECT_GT(NowOf(kRank), begin);
  Pass();
  EXPECT_EQ(AnswerOf(2), FakeListener::Value(0));
  EXPECT_EQ(NowOf(kRank), begin + kTimeout);
  // Another call of it is not that one.
  clock_.RunProcess(kRank, 5'000'000);
  ServeOwn(kRank, 3, SYS_poll, {0, 0, 2'000});
  Pass();
  EXPECT_GE(NowOf(kRank), begin + kTimeout + kTimeout);
}

TEST_F(SimulatedTimeTest, SignalsThatAreSentAreLookedForInTheirReceiversBeforeTimePasses) {
  Start();
  Living().clear();
  const pid_t receiver = kRank + 1, other = kRank + 2;
  for (const pid_t process : {receiver, other}) {
    ServeOwn(process, static_cast<uint64_t>(process), SYS_poll, {0, 0, 60'000});
  }
  ServeOwn(kRank, 1, SYS_time, {0});
  Pass();  // looks for signals of outside, for the next while
  for (const pid_t process : {receiver, other}) {
    threads_.SetFile(process, process, "status",
                     "SigPnd:\t0\nShdPnd:\t0000000000000200\nSigBlk:\t0\nSigIgn:\t0\n"
                     "SigCgt:\t0000000000000200\n");
  }
  std::set<pid_t> asked;
  threads_.on_read = [&](pid_t thread, const std::string& name) {
    if (name == "status") asked.insert(thread);
  };
  ServeOwn(kRank, 4, SYS_kill, {static_cast<uint64_t>(receiver), SIGUSR1});
  EXPECT_EQ(AnswerOf(4), FakeListener::Continue());
  Pass();
  EXPECT_FALSE(listener_->Answered(static_cast<uint64_t>(receiver))) << "it may be sending yet";
  ServeOwn(kRank, 2, SYS_poll, {0, 0, 10'000});
  asked.clear();  // who begins to wait is asked, too
  Pass();
  EXPECT_EQ(AnswerOf(static_cast<uint64_t>(receiver)), FakeListener::Error(EINTR));
  EXPECT_FALSE(listener_->Answered(2));
  EXPECT_EQ(NowOf(receiver), At(0));
  EXPECT_EQ(asked, std::set<pid_t>{receiver});
  // Once is enough.
  ServeOwn(receiver, 3, SYS_poll, {0, 0, 5'000});
  asked.clear();
  Pass();
  EXPECT_EQ(AnswerOf(3), FakeListener::Value(0));
  EXPECT_EQ(asked, std::set<pid_t>());
  threads_.on_read = nullptr;
}

TEST_F(SimulatedTimeTest, WhoWaitsForAFutexIsNotAskedUntilOneIsWoken) {
  Start();
  Living().clear();
  const pid_t waiter = kRank + 1, other = kRank + 2;
  const auto sleeps = [this](pid_t process, int slices, const std::string& operation) {
    threads_.Set(process, process, 'S', slices, "202 0x7f00 " + operation + " 0x0 0x0 0x0");
  };
  sleeps(waiter, 1, "0x109");
  sleeps(other, 1, "0x189");
  uint64_t id = 0;
  for (const pid_t process : {waiter, other}) {
    Living().push_back(process);
    ServeOwn(process, ++id, SYS_time, {0});
  }
  std::set<pid_t> asked;
  threads_.on_read = [&](pid_t thread, const std::string& name) {
    if (name != "status") asked.insert(thread);
  };
  const auto passes = [&] {
    ServeOwn(kRank, ++id, SYS_time, {0});
    ServeOwn(kRank, ++id, SYS_poll, {0, 0, 1'000});
    asked.clear();
    Pass();
    return listener_->Answered(id);
  };
  EXPECT_TRUE(passes());
  EXPECT_EQ(asked, (std::set<pid_t>{waiter, other}));
  EXPECT_TRUE(passes());
  EXPECT_EQ(asked, std::set<pid_t>());
  ServeOwn(kRank, ++id, SYS_futex, {0x7f00, FUTEX_WAKE, 1});
  EXPECT_EQ(AnswerOf(id), FakeListener::Continue());
  threads_.AboutToSleep(waiter, waiter, 1);
  EXPECT_FALSE(passes());
  EXPECT_EQ(asked, std::set<pid_t>{waiter});
  sleeps(waiter, 2, "0x109");
  Pass();
  EXPECT_TRUE(listener_->Answered(id));
  EXPECT_TRUE(passes());
  EXPECT_EQ(asked, std::set<pid_t>());
  threads_.on_read = nullptr;
}

TEST_F(SimulatedTimeTest, WhoHasBeenKilledIsNotAnswered) {
  Start();
  Sleep(kRank, 1, kSecond);
  listener_->Die(1);
  clock_.Pass(kSecond);
  Pass();
  EXPECT_FALSE(listener_->Answered(1));
  Sleep(kRank, 2, kSecond);
  time_->ProcessDied(kRank);
  clock_.Pass(kSecond);
  Pass();
  EXPECT_FALSE(listener_->Answered(2));
}

TEST_F(SimulatedTimeTest, ASignalStirsItsReceiverIfThatIsKnown) {
  const auto resting = [this] {
    std::vector<pid_t> ids;
    for (const auto& [id, process] : time_->clocks().all()) {
      if (process->at_rest) ids.push_back(id - kRank);
    }
    return ids;
  };
  const struct {
    int call;
    uint64_t target;
    std::vector<pid_t> still;
  } calls[] = {
      {SYS_kill, kRank + 1, {2}},
      {SYS_tgkill, kRank + 2, {1}},
      {SYS_rt_sigqueueinfo, kRank + 1, {2}},
      {SYS_rt_tgsigqueueinfo, kRank + 1, {2}},
      {SYS_tkill, kRank + 1, {}},
      {SYS_pidfd_send_signal, 3, {}},
      {SYS_kill, 0, {}},
      {SYS_kill, static_cast<uint32_t>(-1), {}},
      {SYS_kill, kRank + 9, {}},
  };
  for (const auto& [call, target, still] : calls) {
    Start(HostTimeMode::kMeasured);
    Living().clear();
    uint64_t id = 0;
    for (pid_t process = kRank; process <= kRank + 2; ++process) {
      ServeOwn(process, ++id, SYS_time, {0});
      Block(process);
    }
    Sleep(kRank + 3, ++id, kSecond);
    // Its own thread, the last that was answered, is heard of again.
    ServeOwn(kRank + 2, ++id, SYS_poll, {0, 0, 10'000});
    Pass();
    EXPECT_EQ(resting(), (std::vector<pid_t>{0, 1, 2}));
    EXPECT_TRUE(ServeOwn(kRank, ++id, call, {target, 0, 0}));
    EXPECT_EQ(AnswerOf(id), FakeListener::Continue());
    EXPECT_EQ(resting(), still) << call << " to " << target;
  }
}

TEST_F(SimulatedTimeTest, AYieldWaitsForRoomInAQueueOfItsGpu) {
  Start();
  time_->DriverCall(kRank, kRank);
  device_.Of(kRank).queues = {.full = true, .short_of_room = true};
  device_.Of(kRank).events = {At(50)};
  device_.Of(kRank).waits_for_others = true;
  ServeOwn(kRank, 1, SYS_sched_yield, {});
  EXPECT_FALSE(listener_->Answered(1));
  device_.Of(kRank).queues = {};
  Pass();
  EXPECT_EQ(AnswerOf(1), FakeListener::Value(0));
}

TEST_F(SimulatedTimeTest, ALoopOfYieldsSeldomAsksForQueues) {
  Start();
  ServeOwn(kRank + 1, 1, SYS_sched_yield, {});
  EXPECT_EQ(AnswerOf(1), FakeListener::Continue());
  EXPECT_EQ(device_.queue_looks, 0) << "it has no GPU";
  time_->DriverCall(kRank, kRank);
  for (uint64_t id = 100; id < 1'100; ++id) {
    ServeOwn(kRank, id, SYS_sched_yield, {});
    for (int i = 0; i < 3 && !listener_->Answered(id); ++i) Pass();
    EXPECT_TRUE(listener_->Answered(id)) << id;
  }
  EXPECT_LT(device_.queue_looks, 64 + 1'000 / 16);
  device_.Of(kRank).queues = {.full = true, .short_of_room = true};
  device_.Of(kRank).waits_for_others = true;
  uint64_t id = 2'000;
  while (id < 2'016) {
    ServeOwn(kRank, ++id, SYS_sched_yield, {});
    if (!listener_->Answered(id)) break;
  }
  EXPECT_FALSE(listener_->Answered(id)) << "found after 16 at most";
}

TEST_F(SimulatedTimeTest, OneWithoutACallComputes) {
  Start(HostTimeMode::kMeasured);
  constexpr pid_t kComputes = kRank + 1;
  Living().push_back(kComputes);
  threads_.Set(kComputes, kComputes, 'R', 1, "running");
  Sleep(kRank, 1, 8'000'000);
  const auto compute = [this](int64_t nanoseconds) {
    clock_.Pass(nanoseconds);
    clock_.RunProcess(kComputes, nanoseconds);
    Pass();
  };
  compute(1'000'000);  // from here on it is known
  for (int i = 0; i < 7; ++i) compute(1'000'000);
  EXPECT_FALSE(listener_->Answered(1));
  compute(1'100'000);
  EXPECT_TRUE(listener_->Answered(1)) << "as long as the other one has slept";
}

TEST_F(SimulatedTimeTest, WhoSpinsLooksWhenAnotherHasStopped) {
  Start();
  constexpr pid_t kSpinner = kRank + 1;
  Sleep(kRank, 1, 8'000'000);
  uint64_t id = 100;
  const auto yield = [&] {
    ServeOwn(kSpinner, ++id, SYS_sched_yield, {});
    return listener_->Answered(id);
  };
  for (uint32_t i = 0; i < SpinLoops::kFreeLooks; ++i) ASSERT_TRUE(yield());
  EXPECT_EQ(NowOf(kSpinner), At(0));
  int looks = 0;
  while (!listener_->Answered(1)) {
    ASSERT_LT(++looks, 200);
    ASSERT_FALSE(yield()) << "it is held";
    Pass();
    if (!listener_->Answered(1)) {
      EXPECT_TRUE(listener_->Answered(id));
    }
  }
  EXPECT_GT(looks, 16) << "it may wait for time to pass";
  EXPECT_EQ(NowOf(kRank), At(8'000));
  // The other one has woken, writes and sleeps again: that is when it is looked for.
  if (!listener_->Answered(id)) Pass();
  if (listener_->Answered(id)) yield();
  Sleep(kRank, 2, kSecond);
  Pass();
  EXPECT_TRUE(listener_->Answered(id));
  EXPECT_EQ(AnswerOf(id), FakeListener::Value(0));
  EXPECT_GE(NowOf(kSpinner), At(8'000));
  EXPECT_LE(NowOf(kSpinner), At(8'001));
}

TEST_F(SimulatedTimeTest, ReceiversAreNotEarlierThanSenders) {
  Start();
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd out(ends[0]), in(ends[1]);
  const auto reads = static_cast<uint64_t>(out.get()), writes = static_cast<uint64_t>(in.get());
  Sleep(kRank, 1, 5'000);
  Pass();
  ASSERT_EQ(NowOf(kRank), At(5));
  // A read that finds nothing is held, whoever makes it.
  char byte = 0;
  EXPECT_TRUE(ServeOwn(kRank + 1, 2, SYS_read, {reads, AddressOf(&byte), 1}));
  EXPECT_EQ(AnswerOf(2), FakeListener::Continue()) << "a thread whose descriptors are not seen";
  EXPECT_TRUE(Serve(kRank + 1, 3, SYS_read, {reads, AddressOf(&byte), 1}));
  EXPECT_FALSE(listener_->Answered(3));
  EXPECT_TRUE(Serve(kRank, 4, SYS_write, {writes, AddressOf(&byte), 1}));
  EXPECT_EQ(AnswerOf(4), FakeListener::Continue());
  ASSERT_EQ(write(in.get(), "x", 1), 1);  // the kernel does
  epoll_event event{};
  ASSERT_EQ(epoll_wait(epoll_.get(), &event, 1, 1'000), 1);
  EXPECT_TRUE(time_->Ready(event.data.fd, *listener_));
  EXPECT_EQ(AnswerOf(3), FakeListener::Continue());
  EXPECT_EQ(NowOf(kRank + 1), At(5));
}

TEST_F(SimulatedTimeTest, TheWrongEndOfAPipeIsNotWaitedFor) {
  Start();
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd out(ends[0]), in(ends[1]);
  char byte = 0;
  // The kernel says EBADF.
  EXPECT_TRUE(Serve(kRank, 1, SYS_read, {static_cast<uint64_t>(in.get()), AddressOf(&byte), 1}));
  EXPECT_EQ(AnswerOf(1), FakeListener::Continue());
  EXPECT_TRUE(Serve(kRank, 2, SYS_write, {static_cast<uint64_t>(out.get()), AddressOf(&byte), 1}));
  EXPECT_EQ(AnswerOf(2), FakeListener::Continue());
}

TEST_F(SimulatedTimeTest, TimersSendTheirSignalsWhenTimeHasPassed) {
  Start();
  itimerspec setting{.it_interval = {}, .it_value = {2, 0}};
  int id = 0;
  struct {
    uint64_t value = 0;
    int32_t signal = 0, notify = SIGEV_NONE, thread = 0;
  } silent;
  EXPECT_TRUE(
      Serve(kRank, 1, SYS_timer_create, {CLOCK_MONOTONIC, AddressOf(&silent), AddressOf(&id)}));
  EXPECT_EQ(AnswerOf(1), FakeListener::Value(0));
  Serve(kRank, 2, SYS_timer_settime, {static_cast<uint64_t>(id), 0, AddressOf(&setting), 0});
  EXPECT_EQ(AnswerOf(2), FakeListener::Value(0));
  Sleep(kRank, 3, kSecond);
  Pass();
  itimerspec left{};
  Serve(kRank, 4, SYS_timer_gettime, {static_cast<uint64_t>(id), AddressOf(&left)});
  EXPECT_EQ(left.it_value.tv_sec, 1);
}

TEST_F(SimulatedTimeTest, WhatIsNotAboutTimeIsNotServed) {
  Start();
  EXPECT_FALSE(ServeOwn(kRank, 1, SYS_openat, {}));
  EXPECT_FALSE(listener_->Answered(1));
  EXPECT_FALSE(ServeOwn(kRank, 2, SYS_io_uring_setup, {}));
  EXPECT_TRUE(ServeOwn(kRank, 3, SYS_clone, {}));
  EXPECT_EQ(AnswerOf(3), FakeListener::Continue());
  EXPECT_TRUE(ServeOwn(kRank, 4, SYS_nanosleep, {8, 0}));
  EXPECT_EQ(AnswerOf(4), FakeListener::Error(EFAULT));
}

}  // namespace
}  // namespace phantora
