// What the tests of the GPUs' timelines share: channels to submit to, prices that are easy
// to read, and the timeline as text.
#ifndef PHANTORA_TRAP_GPU_TIMELINE_GPU_TIMELINES_HARNESS_H_
#define PHANTORA_TRAP_GPU_TIMELINE_GPU_TIMELINES_HARNESS_H_

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "trap/abi/methods.h"
#include "trap/gpu/front/qmd.h"
#include "trap/gpu/kernels/internal_kernels.h"
#include "trap/gpu/timeline/gpu_timelines.h"

namespace phantora {
inline constexpr pid_t kProcess = 1, kOther = 2;
inline constexpr uint64_t kPerChannel = 0x100000, kPushbuffer = 0x10000, kQmds = 0x80000,
                          kData = 0x8000000;
inline constexpr uint32_t kEntries = 16;
inline constexpr uint32_t kCopySubchannel = 4, kComputeSubchannel = 1;
inline constexpr uint32_t kPitchCopy = 2 | 1 << 7 | 1 << 8;

inline VirtualTime At(int64_t microseconds) {
  return VirtualTime() + VirtualSpan::Microseconds(microseconds);
}

class Sink : public InterruptSink {
 public:
  void NonStall(int, pid_t, uint32_t) override {}
  void ChannelError(int, pid_t) override { ++errors; }
  int errors = 0;
};

// A copy takes a microsecond per byte, a kernel as many as its program's address says.
class TestPricer : public WorkPricer {
 public:
  Price Kernel(const KernelLaunch& launch) override {
    return {VirtualSpan::Microseconds(static_cast<int64_t>(launch.qmd->program))};
  }
  const char* Source() const override { return "test"; }
  Price Copy(uint64_t bytes, CopyKind) override {
    return {VirtualSpan::Microseconds(static_cast<int64_t>(bytes))};
  }
};

// The timeline as text, by end: "ch1 0-10 " for a copy of channel 1 from 0 to 10 us,
// "ch1k 0-10 " for a kernel.
class Timeline : public WorkObserver {
 public:
  void Kernel(const Work& work, const Qmd&, const Code&) override { Add(work, "k "); }
  void Copy(const Work& work, uint64_t, CopyKind) override { Add(work, " "); }
  std::string text;

 private:
  void Add(const Work& work, const char* kind) {
    const int64_t start = work.start.nanoseconds();
    absl::StrAppend(&text, "ch", work.channel, kind, start / 1000, "-",
                    (start + work.duration.nanoseconds()) / 1000, " ");
  }
};

// A GPU that holds eight blocks of kBlockThreads at once.
inline constexpr SmLimits kSmallGpu{.sms = 4, .shared_bytes = 164 << 10};
inline constexpr uint32_t kBlockThreads = 1024, kFull = 8, kHalf = 4;

// A launch descriptor of version 3.0 (clc6c0qmd.h).
class QmdBuilder {
 public:
  QmdBuilder(uint32_t microseconds, uint32_t blocks) {
    Set(583, 580, 3).Set(133, 128, 63);
    Set(415, 384, blocks).Set(431, 416, 1).Set(463, 448, 1);
    Set(607, 592, kBlockThreads).Set(623, 608, 1).Set(639, 624, 1);
    Set(656, 648, 16).Set(561, 544, 1024).Set(1567, 1536, microseconds);
  }
  QmdBuilder& Group(uint32_t group) { return Set(133, 128, 0).Set(133, 128, group); }
  QmdBuilder& Constants(uint64_t address, uint32_t bytes) {
    return Set(640, 640, 1)
        .Set(1055, 1024, address)
        .Set(1072, 1056, address >> 32)
        .Set(1087, 1075, bytes >> 4);
  }
  QmdBuilder& RequiresPcas() { return Set(140, 140, 1); }
  QmdBuilder& Counter(uint32_t predecessors) { return Set(157, 142, predecessors); }
  QmdBuilder& Dependent(int which, uint64_t address, Qmd::DependentAction action) {
    return which == 0 ? Set(512, 512, 1).Set(515, 513, action).Set(511, 480, address >> 8)
                      : Set(517, 517, 1).Set(520, 518, action).Set(319, 288, address >> 8);
  }
  const std::array<uint8_t, kQmdBytesBeforeHopper>& bytes() const { return bytes_; }

 private:
  QmdBuilder& Set(int high, int low, uint64_t value) {
    for (int bit = low; bit <= high; ++bit) {
      const auto mask = static_cast<uint8_t>(1 << bit % 8);
      bytes_[bit / 8] &= static_cast<uint8_t>(~mask);
      if (value >> (bit - low) & 1) bytes_[bit / 8] |= mask;
    }
    return *this;
  }
  std::array<uint8_t, kQmdBytesBeforeHopper> bytes_{};
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
    Submitter(GpuTimelinesTest& test, uint32_t id, pid_t process, uint32_t engine = 0, int gpu = 0)
        : memory_(test.context_->memory), base_(id * kPerChannel) {
      memory_.Map(base_, kPerChannel, Memory(kPerChannel), 0);
      Channel::Config config;
      config.gpu = gpu;
      config.id = id;
      config.process = process;
      config.context = test.context_;
      config.gpfifo = base_;
      config.gpfifo_entries = kEntries;
      config.userd = userd_;
      // By default, every channel has a copy engine of its own.
      config.engine = engine != 0 ? engine : id;
      config.group = id;
      config.sm_limits = kSmallGpu;
      test.timelines_.Prepare(config);
      channel_ = std::make_shared<Channel>(std::move(config));
      channel_->Enable();
      test.timelines_.Add(channel_);
      Method(kCopySubchannel, abi::host::kSetObject, {0xc8b5});
      Method(kComputeSubchannel, abi::host::kSetObject, {0xc6c0});
    }
    Submitter& Copy(uint32_t microseconds, uint64_t to = kData) {
      Method(kCopySubchannel, abi::copy::kOffsetInUpper,
             {0, kData, 0, static_cast<uint32_t>(to), 0, 0, microseconds, 1});
      Method(kCopySubchannel, abi::copy::kLaunchDma, {kPitchCopy});
      return *this;
    }
    // A kernel whose descriptor is written anew.
    Submitter& Kernel(uint32_t microseconds, uint32_t blocks, uint32_t group = 63) {
      const uint64_t qmd = base_ + kQmds + kernels_++ * kQmdBytesBeforeHopper;
      Write(qmd, QmdBuilder(microseconds, blocks).Group(group));
      return Load(qmd);
    }
    Submitter& Write(uint64_t address, const QmdBuilder& qmd) {
      EXPECT_FALSE(memory_.Write(address, qmd.bytes().data(), qmd.bytes().size()));
      return *this;
    }
    // Hands a descriptor over, which runs it unless it waits for something.
    Submitter& Load(uint64_t qmd) {
      return Pcas(qmd, abi::compute::kInvalidatePrefetchCopySchedule);
    }
    // Schedules one that was handed over.
    Submitter& Schedule(uint64_t qmd) { return Pcas(qmd, abi::compute::kSchedule); }
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

    const std::shared_ptr<Channel>& channel() const { return channel_; }
    void Destroy() { channel_.reset(); }

   private:
    Submitter& Pcas(uint64_t qmd, uint32_t action) {
      Method(kComputeSubchannel, abi::compute::kSendPcasA, {static_cast<uint32_t>(qmd >> 8)});
      Method(kComputeSubchannel, abi::compute::kSendSignalingPcas2B, {action});
      return *this;
    }
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
    uint32_t put_ = 0, kernels_ = 0;
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

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_TIMELINE_GPU_TIMELINES_HARNESS_H_
