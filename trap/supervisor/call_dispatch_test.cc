#include "trap/supervisor/call_dispatch.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "trap/linux/fake_listener.h"
#include "trap/linux/fake_processes.h"

namespace phantora {
namespace {

uint64_t Word(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

// What a device was asked, and what it is to answer.
struct DeviceLog {
  std::vector<uint32_t> commands;
  std::vector<uint64_t> mapped;
  int answer = 0;
  int closed = 0;
};

class FakeDevice : public DeviceFile {
 public:
  explicit FakeDevice(DeviceLog* log) : log_(log) {}
  ~FakeDevice() override { ++log_->closed; }
  std::string name() const override { return "fake"; }
  int Ioctl(CallContext& call, uint32_t command, RemoteAddress) override {
    EXPECT_EQ(call.DeviceAt(call.descriptor()).get(), this);
    log_->commands.push_back(command);
    return log_->answer;
  }
  int Mmap(CallContext& call, const MmapRequest& request) override {
    EXPECT_EQ(call.DeviceAt(call.descriptor()).get(), this);
    log_->mapped.push_back(request.length);
    return log_->answer;
  }

 private:
  DeviceLog* const log_;
};

// Two hosts with a device each, and rank 0 on the second. Calls are this process's own.
class CallDispatchTest : public testing::Test {
 protected:
  CallDispatchTest() {
    for (int host = 0; host < 2; ++host) {
      files_[host].AddDevice("/dev/test0", 195, 0, [this, host](pid_t) {
        return std::make_shared<FakeDevice>(&devices_[host]);
      });
    }
    std::vector<VirtualHost> hosts(2);
    for (int host = 0; host < 2; ++host) {
      hosts[host].files = &files_[host];
      hosts[host].name = host == 0 ? "one" : "two";
      hosts[host].cores = 4;
    }
    dispatch_.emplace(
        CallDispatch::Options{.hosts = hosts,
                              .host_of_rank = {1},
                              .rank_ended = [this](const RankEnd& end) { ended_.push_back(end); },
                              .process_died = [this](pid_t process) { died_.push_back(process); },
                              .log = &log_,
                              .unknowns = &unknowns_,
                              .machine_lock = &lock_,
                              .epoll = epoll_.get(),
                              .processes = &processes_,
                              .links = &links_,
                              .probe = &probe_});
    processes_.process_of[getpid()] = getpid();
    processes_.parent_of[getpid()] = kCommand;
    processes_.process_of[kCommand] = kCommand;
    dispatch_->SetCommand(kCommand);
  }

  FakeListener::Answer Do(int number, std::initializer_list<uint64_t> arguments,
                          pid_t thread = getpid()) {
    const seccomp_notif call = listener_.Call(thread, number, arguments);
    dispatch_->Serve(call, listener_);
    const auto answer = listener_.AnswerOf(call);
    EXPECT_TRUE(answer) << "not answered";
    return answer.value_or(FakeListener::Answer());
  }
  UniqueFd OpenDevice() { return UniqueFd(Do(SYS_open, {Word("/dev/test0"), O_RDWR}).descriptor); }
  // Until nothing is ready any more.
  void HandleEvents() {
    epoll_event event;
    while (epoll_wait(epoll_.get(), &event, 1, 0) == 1) dispatch_->Ready(event.data.fd);
  }

  static constexpr pid_t kCommand = 1000000;
  UniqueFd epoll_{epoll_create1(EPOLL_CLOEXEC)};
  SyntheticFiles files_[2];
  DeviceLog devices_[2];
  CallLog log_;
  Unknowns unknowns_;
  TurnLock lock_;
  FakeProcesses processes_;
  ProcessLinks links_;
  HostFileProbe probe_;
  FakeListener listener_;
  std::vector<RankEnd> ended_;
  std::vector<pid_t> died_;
  std::optional<CallDispatch> dispatch_;
};

TEST_F(CallDispatchTest, DevicesAreOpenedUsedAndClosed) {
  UniqueFd device = OpenDevice();
  ASSERT_TRUE(device.valid());
  const auto descriptor = static_cast<uint64_t>(device.get());
  EXPECT_EQ(Do(SYS_ioctl, {descriptor, 0xc0204600, 0}).value, 0);
  devices_[0].answer = -EINVAL;
  EXPECT_EQ(Do(SYS_ioctl, {descriptor, 0xc0204601, 0}).error, EINVAL);
  EXPECT_EQ(devices_[0].commands, (std::vector<uint32_t>{0xc0204600, 0xc0204601}));
  EXPECT_EQ(dispatch_->counters().ioctls, 2u);
  EXPECT_EQ(devices_[0].closed, 0);
  device.reset();
  HandleEvents();
  EXPECT_EQ(devices_[0].closed, 1);
}

TEST_F(CallDispatchTest, AMappingIsTheKernelsOnceTheDeviceAgrees) {
  const UniqueFd device = OpenDevice();
  const auto descriptor = static_cast<uint64_t>(device.get());
  EXPECT_TRUE(Do(SYS_mmap, {0, 4096, PROT_READ, MAP_SHARED, descriptor, 0}).continues);
  devices_[0].answer = -ENOMEM;
  EXPECT_EQ(Do(SYS_mmap, {0, 8192, PROT_READ, MAP_SHARED, descriptor, 0}).error, ENOMEM);
  EXPECT_EQ(devices_[0].mapped, (std::vector<uint64_t>{4096, 8192}));
}

TEST_F(CallDispatchTest, OtherDescriptorsAreTheKernels) {
  EXPECT_TRUE(Do(SYS_ioctl, {0, 0xc0204600, 0}).continues);
  EXPECT_TRUE(Do(SYS_ioctl, {~uint64_t{0}, 0xc0204600, 0}).continues);
  EXPECT_TRUE(Do(SYS_mmap, {0, 4096, PROT_READ, MAP_SHARED, 0, 0}).continues);
}

TEST_F(CallDispatchTest, WhatNobodyServesIsTheKernels) {
  EXPECT_TRUE(Do(SYS_getpid, {}).continues);
  EXPECT_TRUE(Do(SYS_open, {Word("/usr/lib/x"), O_RDONLY}).continues);
  // In real time, and without shared memory.
  EXPECT_TRUE(Do(SYS_nanosleep, {0, 0}).continues);
  EXPECT_TRUE(Do(SYS_madvise, {0, 4096, MADV_DONTNEED}).continues);
  EXPECT_EQ(dispatch_->counters().traps, 4u);
}

// That is as on machines where it is switched off, and nothing to doubt results for.
TEST_F(CallDispatchTest, IoUringIsRefused) {
  EXPECT_EQ(Do(SYS_io_uring_setup, {1, 0}).error, ENOSYS);
  EXPECT_EQ(unknowns_.Report(), "");
}

TEST_F(CallDispatchTest, ARankIsOnItsHost) {
  utsname names{};
  EXPECT_EQ(Do(SYS_uname, {Word(&names)}).error, 0);
  EXPECT_STREQ(names.nodename, "one");
  // It says itself which rank it is, once.
  EXPECT_EQ(Do(SYS_ioctl, {~uint64_t{0}, kRankStarts, 0}).value, 0);
  EXPECT_EQ(Do(SYS_uname, {Word(&names)}).error, 0);
  EXPECT_STREQ(names.nodename, "two");
  EXPECT_TRUE(OpenDevice().valid());
  HandleEvents();
  EXPECT_EQ(devices_[1].closed, 1);
  EXPECT_EQ(devices_[0].closed, 0);
  EXPECT_TRUE(Do(SYS_ioctl, {~uint64_t{0}, kRankStarts, 0}).continues);
}

TEST_F(CallDispatchTest, OnlyTheStarterSaysWhichRankOneIs) {
  EXPECT_TRUE(Do(SYS_ioctl, {~uint64_t{0}, kRankStarts, 7}).continues);  // there is none
  processes_.parent_of[getpid()] = 5;                                    // another's child
  EXPECT_TRUE(Do(SYS_ioctl, {~uint64_t{0}, kRankStarts, 0}).continues);
  const RankEnd end{0, 256};
  EXPECT_TRUE(Do(SYS_ioctl, {~uint64_t{0}, kRankEnded, end.argument()}).continues);
  EXPECT_TRUE(ended_.empty());
  EXPECT_EQ(Do(SYS_ioctl, {~uint64_t{0}, kRankEnded, end.argument()}, kCommand).value, 0);
  ASSERT_EQ(ended_.size(), 1u);
  EXPECT_EQ(ended_[0].rank, 0u);
  EXPECT_EQ(ended_[0].wait_status, 256);
}

TEST_F(CallDispatchTest, ACallerThatIsGoneGetsNoAnswer) {
  const seccomp_notif call = listener_.Call(4711, SYS_open, {Word("/dev/test0"), O_RDWR});
  dispatch_->Serve(call, listener_);
  EXPECT_FALSE(listener_.AnswerOf(call));
  EXPECT_EQ(devices_[0].closed, 0);
}

TEST_F(CallDispatchTest, WithoutDescriptorsCallsGoOnAndAreCounted) {
  processes_.out_of_descriptors = true;
  EXPECT_TRUE(Do(SYS_open, {Word("/dev/test0"), O_RDWR}).continues);
  EXPECT_NE(unknowns_.Report().find("cannot be told"), std::string::npos);
}

TEST_F(CallDispatchTest, TheEndOfAProcessIsTold) {
  Do(SYS_getpid, {});
  epoll_event event;
  // Its pidfd is an eventfd here.
  ASSERT_NE(processes_.last_pidfd, -1);
  eventfd_write(processes_.last_pidfd, 1);
  ASSERT_EQ(epoll_wait(epoll_.get(), &event, 1, 0), 1);
  dispatch_->Ready(event.data.fd);
  EXPECT_EQ(died_, (std::vector<pid_t>{getpid()}));
  EXPECT_EQ(dispatch_->counters().processes, 1u);
}

}  // namespace
}  // namespace phantora
