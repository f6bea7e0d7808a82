#include "trap/gpu/gpu_timelines.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "trap/abi/methods.h"
#include "trap/gpu/internal_kernels.h"

namespace phantora {
namespace {

constexpr pid_t kProcess = 1, kOther = 2;
constexpr uint64_t kPerChannel = 0x100000, kPushbuffer = 0x10000, kData = 0x8000000;
constexpr uint32_t kEntries = 16;
constexpr uint32_t kCopySubchannel = 4;
constexpr uint32_t kPitchCopy = 2 | 1 << 7 | 1 << 8;

VirtualTime At(int64_t microseconds) {
  return VirtualTime() + VirtualSpan::Microseconds(microseconds);
}

class Sink : public InterruptSink {
 public:
  void NonStall(int, pid_t, uint32_t) override {}
  void ChannelError(int, pid_t) override { ++errors; }
  int errors = 0;
};

// A copy takes a microsecond per byte.
class TestPricer : public WorkPricer {
 public:
  VirtualSpan Kernel(const Qmd&) override { return VirtualSpan::Microseconds(10); }
  const char* Source() const override { return "test"; }
  VirtualSpan Copy(uint64_t bytes, bool) override {
    return VirtualSpan::Microseconds(static_cast<int64_t>(bytes));
  }
};

// The timeline as text: "ch1 0-10 " for work of channel 1 from 0 to 10 us.
class Timeline : public WorkObserver {
 public:
  void Kernel(const Work& work, const Qmd&, const char*) override { Add(work); }
  void Copy(const Work& work, uint64_t, bool) override { Add(work); }
  std::string text;

 private:
  void Add(const Work& work) {
    const int64_t start = work.start.nanoseconds();
    absl::StrAppend(&text, "ch", work.channel, " ", start / 1000, "-",
                    (start + work.duration.nanoseconds()) / 1000, " ");
  }
};

class GpuTimelinesTest : public testing::Test {
 protected:
  GpuTimelinesTest() {
    services_.observer = &timeline_;
    context_->memory.Map(kData, 0x10000, Memory(0x10000), 0);
  }

  static std::shared_ptr<MemoryObject> Memory(uint64_t bytes) {
    return std::make_shared<OwnedMemory>(MemoryKind::kVidmem, bytes);
  }

  // Submits methods to a channel, one GPFIFO entry at a time.
  class Submitter {
   public:
    Submitter(GpuTimelinesTest& test, uint32_t id, pid_t process)
        : memory_(test.context_->memory), base_(id * kPerChannel) {
      memory_.Map(base_, kPerChannel, Memory(kPerChannel), 0);
      channel_ = std::make_shared<Channel>(Channel::Config{.id = id,
                                                           .process = process,
                                                           .context = test.context_,
                                                           .gpfifo = base_,
                                                           .gpfifo_entries = kEntries,
                                                           .userd = userd_,
                                                           .error_notifier = nullptr,
                                                           .group = id,
                                                           .time = test.timelines_.ClockOf(process),
                                                           .gated = true});
      channel_->Enable();
      test.timelines_.Add(channel_);
      Method(kCopySubchannel, abi::host::kSetObject, {0xc8b5});
    }
    Submitter& Copy(uint32_t microseconds, uint64_t to = kData) {
      Method(kCopySubchannel, abi::copy::kOffsetInUpper,
             {0, kData, 0, static_cast<uint32_t>(to), 0, 0, microseconds, 1});
      Method(kCopySubchannel, abi::copy::kLaunchDma, {kPitchCopy});
      return *this;
    }
    Submitter& Semaphore(abi::host::SemOperation operation, uint32_t offset, uint32_t payload) {
      Method(0, abi::host::kSemAddrLo, {static_cast<uint32_t>(kData) + offset, 0, payload, 0});
      Method(0, abi::host::kSemExecute, {static_cast<uint32_t>(operation)});
      return *this;
    }
    void Submit() {
      const uint64_t at = base_ + kPushbuffer + pushed_;
      EXPECT_FALSE(memory_.Write(at, words_.data(), words_.size() * 4));
      const uint64_t entry = at | uint64_t{words_.size()} << abi::kGpEntryLengthShift;
      EXPECT_FALSE(memory_.Write(base_ + put_ * 8, &entry, 8));
      pushed_ += words_.size() * 4;
      words_.clear();
      put_ = (put_ + 1) % kEntries;
      userd_->Write(abi::kUserdGpPut, &put_, 4);
    }

   private:
    void Method(uint32_t subchannel, uint32_t method, const std::vector<uint32_t>& data) {
      words_.push_back(abi::kSecOpIncMethod << 29 | static_cast<uint32_t>(data.size()) << 16 |
                       subchannel << 13 | method >> 2);
      words_.insert(words_.end(), data.begin(), data.end());
    }

    AddressSpace& memory_;
    const uint64_t base_;
    std::shared_ptr<MemoryObject> userd_ = Memory(0x1000);
    std::shared_ptr<Channel> channel_;
    std::vector<uint32_t> words_;
    uint64_t pushed_ = 0;
    uint32_t put_ = 0;
  };

  // Runs all there is, as a waiting process lets it.
  void RunAll(pid_t process = kProcess) {
    timelines_.Advance(process, VirtualTime::Infinity(), false);
  }

  ManualTimeSource time_;
  Sink sink_;
  TestPricer pricer_;
  InternalKernels internal_kernels_;
  CallLog log_;
  Unknowns unknowns_;
  Timeline timeline_;
  GpuServices services_{&time_, &sink_, &pricer_, &internal_kernels_, &log_, &unknowns_, {}};
  std::shared_ptr<GpuContext> context_ = std::make_shared<GpuContext>();
  GpuTimelines timelines_{&services_};
};

TEST_F(GpuTimelinesTest, AChannelIsInOrderAndChannelsOverlap) {
  Submitter one(*this, 1, kProcess), two(*this, 2, kProcess);
  one.Copy(10).Copy(5).Submit();
  two.Copy(7).Submit();
  timelines_.Submit(kProcess, At(0), At(0), VirtualSpan());
  RunAll();
  EXPECT_EQ(timeline_.text, "ch1 0-10 ch2 0-7 ch1 10-15 ");
}

TEST_F(GpuTimelinesTest, NothingIsSeenBeforeItsTime) {
  Submitter one(*this, 1, kProcess);
  one.Copy(10).Semaphore(abi::host::kRelease, 0x100, 1).Submit();
  auto submitted = timelines_.Submit(kProcess, At(0), At(0), VirtualSpan());
  EXPECT_EQ(submitted.count, 1);
  EXPECT_FALSE(submitted.seen);
  EXPECT_EQ(timelines_.NextEvent(kProcess), At(10));
  EXPECT_FALSE(timelines_.Submit(kProcess, At(0), At(9), VirtualSpan()).seen);
  EXPECT_TRUE(timelines_.Submit(kProcess, At(9), At(10), VirtualSpan()).seen);
  EXPECT_EQ(timelines_.NextEvent(kProcess), VirtualTime::Infinity());
}

TEST_F(GpuTimelinesTest, AWaitEndsWithTheFirstRelease) {
  Submitter one(*this, 1, kProcess);
  one.Copy(10).Semaphore(abi::host::kRelease, 0x100, 1).Copy(20);
  one.Semaphore(abi::host::kRelease, 0x100, 2).Submit();
  timelines_.Submit(kProcess, At(0), At(0), VirtualSpan());
  auto progress = timelines_.Advance(kProcess, VirtualTime::Infinity(), true);
  EXPECT_TRUE(progress.released);
  EXPECT_EQ(progress.time, At(10));
  progress = timelines_.Advance(kProcess, VirtualTime::Infinity(), true);
  EXPECT_EQ(progress.time, At(30));
}

TEST_F(GpuTimelinesTest, ASemaphoreOrdersChannels) {
  Submitter one(*this, 1, kProcess), two(*this, 2, kProcess);
  two.Semaphore(abi::host::kAcquire, 0x100, 1).Copy(5).Submit();
  one.Copy(10).Semaphore(abi::host::kRelease, 0x100, 1).Copy(10).Submit();
  timelines_.Submit(kProcess, At(0), At(0), VirtualSpan());
  RunAll();
  EXPECT_EQ(timeline_.text, "ch1 0-10 ch1 10-20 ch2 10-15 ");
}

TEST_F(GpuTimelinesTest, ASemaphoreOrdersProcesses) {
  Submitter one(*this, 1, kProcess), two(*this, 2, kOther);
  two.Semaphore(abi::host::kAcquire, 0x100, 1).Copy(5).Submit();
  one.Copy(10).Semaphore(abi::host::kRelease, 0x100, 1).Submit();
  timelines_.Submit(kOther, At(0), At(0), VirtualSpan());
  timelines_.Submit(kProcess, At(0), At(0), VirtualSpan());
  EXPECT_EQ(timelines_.NextEvent(kOther), VirtualTime::Infinity());
  RunAll(kProcess);
  EXPECT_NE(timelines_.NextEvent(kOther), VirtualTime::Infinity());
  RunAll(kOther);
  EXPECT_EQ(timeline_.text, "ch1 0-10 ch2 10-15 ");
}

TEST_F(GpuTimelinesTest, AStoreOfTheHostIsNoticed) {
  Submitter one(*this, 1, kProcess);
  one.Semaphore(abi::host::kAcquire, 0x100, 1).Copy(5).Submit();
  timelines_.Submit(kProcess, At(0), At(0), VirtualSpan());
  EXPECT_EQ(timelines_.NextEvent(kProcess), VirtualTime::Infinity());
  const uint32_t value = 1;
  EXPECT_FALSE(context_->memory.Write(kData + 0x100, &value, 4));
  timelines_.Submit(kProcess, At(0), At(3), VirtualSpan());
  RunAll();
  EXPECT_EQ(timeline_.text, "ch1 3-8 ");
}

TEST_F(GpuTimelinesTest, SubmissionsAreSpreadOverTheTimeThatTheProcessRan) {
  Submitter one(*this, 1, kProcess);
  for (int i = 0; i < 3; ++i) one.Copy(1).Submit();
  const auto submitted = timelines_.Submit(kProcess, At(0), At(40), VirtualSpan());
  EXPECT_EQ(submitted.count, 3);
  EXPECT_EQ(submitted.now, At(40));
  EXPECT_EQ(timeline_.text, "ch1 10-11 ch1 20-21 ch1 30-31 ");
}

TEST_F(GpuTimelinesTest, SubmissionsCostTheProcessTime) {
  Submitter one(*this, 1, kProcess);
  for (int i = 0; i < 3; ++i) one.Copy(5).Submit();
  const auto submitted = timelines_.Submit(kProcess, At(0), At(0), VirtualSpan::Microseconds(2));
  EXPECT_EQ(submitted.now, At(6));
  RunAll();
  EXPECT_EQ(timeline_.text, "ch1 2-7 ch1 7-12 ch1 12-17 ");
}

TEST_F(GpuTimelinesTest, AFailureIsSeenOnceAndLeavesTheOthersAlone) {
  Submitter one(*this, 1, kProcess), two(*this, 2, kProcess);
  one.Copy(5, 0x7000000).Submit();  // not mapped
  two.Copy(5).Semaphore(abi::host::kRelease, 0x100, 1).Submit();
  timelines_.Submit(kProcess, At(0), At(0), VirtualSpan());
  RunAll();
  timelines_.Submit(kProcess, At(20), At(30), VirtualSpan());
  EXPECT_EQ(sink_.errors, 1);
  EXPECT_EQ(timelines_.NextEvent(kProcess), VirtualTime::Infinity());
  uint32_t value = 0;
  EXPECT_FALSE(context_->memory.Read(kData + 0x100, &value, 4));
  EXPECT_EQ(value, 1u);
}

}  // namespace
}  // namespace phantora
