#include "trap/gpu/front/channel.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "clock/time_source.h"
#include "trap/abi/methods.h"
#include "trap/gpu/kernels/internal_kernels.h"

namespace phantora {
namespace {

constexpr uint64_t kGpfifo = 0x10000, kPushbuffer = 0x20000, kQmd = 0x30000, kData = 0x100000;
constexpr uint64_t kDataBytes = 1 << 20;
constexpr uint32_t kEntries = 16;
constexpr uint32_t kComputeSubchannel = 1, kCopySubchannel = 4;

class CountingSink : public InterruptSink {
 public:
  void NonStall(int, pid_t, uint32_t engine) override { engines.push_back(engine); }
  void ChannelError(int, pid_t) override { ++errors; }
  std::vector<uint32_t> engines;
  int errors = 0;
};

// A channel with memory at fixed addresses, and a way to submit methods to it.
class ChannelTest : public testing::Test {
 protected:
  ChannelTest() {
    context_->memory.Map(kGpfifo, 0x10000, Memory(0x10000), 0);
    context_->memory.Map(kPushbuffer, 0x10000, Memory(0x10000), 0);
    context_->memory.Map(kQmd, 0x1000, Memory(0x1000), 0);
    context_->memory.Map(kData, kDataBytes, Memory(kDataBytes), 0);
    channel_ = std::make_unique<Channel>(Channel::Config{.gpu = 0,
                                                         .id = 7,
                                                         .process = 1,
                                                         .context = context_,
                                                         .gpfifo = kGpfifo,
                                                         .gpfifo_entries = kEntries,
                                                         .userd = userd_,
                                                         .userd_offset = 0x800,
                                                         .error_notifier = notifier_,
                                                         .engine = 9,
                                                         .group = 1});
    channel_->Enable();
    Method(kComputeSubchannel, abi::host::kSetObject, {0xcbc0});
    Method(kCopySubchannel, abi::host::kSetObject, {0xc8b5});
  }

  static std::shared_ptr<MemoryObject> Memory(uint64_t bytes) {
    return std::make_shared<OwnedMemory>(MemoryKind::kVidmem, bytes);
  }

  void Method(uint32_t subchannel, uint32_t method, const std::vector<uint32_t>& data,
              uint32_t operation = abi::kSecOpIncMethod) {
    words_.push_back(operation << 29 | static_cast<uint32_t>(data.size()) << 16 | subchannel << 13 |
                     method >> 2);
    words_.insert(words_.end(), data.begin(), data.end());
  }

  // Puts the methods so far into one GPFIFO entry.
  void Submit() {
    EXPECT_FALSE(context_->memory.Write(kPushbuffer + pushed_, words_.data(), words_.size() * 4));
    const uint64_t entry = (kPushbuffer + pushed_) | uint64_t{words_.size()}
                                                         << abi::kGpEntryLengthShift;
    EXPECT_FALSE(context_->memory.Write(kGpfifo + put_ * 8, &entry, 8));
    pushed_ += words_.size() * 4;
    words_.clear();
    put_ = (put_ + 1) % kEntries;
    SetPut(put_);
  }
  void SetPut(uint32_t put) { userd_->Write(0x800 + abi::kUserdGpPut, &put, 4); }

  Channel::State Step() {
    bool worked = false;
    return channel_->Step(services_, worked);
  }
  Channel::State Run() {
    Submit();
    Channel::State state;
    int steps = 0;
    while ((state = Step()) == Channel::State::kActive) EXPECT_LT(++steps, 1000);
    return state;
  }

  template <typename T = uint32_t>
  T Read(uint64_t va) {
    T value{};
    EXPECT_FALSE(context_->memory.Read(va, &value, sizeof value));
    return value;
  }
  template <typename T>
  void Write(uint64_t va, const T& value) {
    EXPECT_FALSE(context_->memory.Write(va, &value, sizeof value));
  }

  void CopyMethods(uint64_t from, uint64_t to, uint32_t pitch_in, uint32_t pitch_out,
                   uint32_t length, uint32_t lines, uint32_t launch) {
    Method(kCopySubchannel, abi::copy::kOffsetInUpper,
           {static_cast<uint32_t>(from >> 32), static_cast<uint32_t>(from),
            static_cast<uint32_t>(to >> 32), static_cast<uint32_t>(to), pitch_in, pitch_out, length,
            lines});
    Method(kCopySubchannel, abi::copy::kLaunchDma, {launch});
  }

  ManualTimeSource time_;
  CountingSink sink_;
  FixedPricer pricer_{VirtualSpan::Microseconds(10)};
  InternalKernels internal_kernels_;
  CallLog log_;
  Unknowns unknowns_;
  GpuServices services_{&time_, &sink_, &pricer_, &internal_kernels_, &log_, &unknowns_, {}};
  std::shared_ptr<GpuContext> context_ = std::make_shared<GpuContext>();
  std::shared_ptr<MemoryObject> userd_ = Memory(0x1000);
  std::shared_ptr<MemoryObject> notifier_ = Memory(0x1000);
  std::unique_ptr<Channel> channel_;
  std::vector<uint32_t> words_;
  uint64_t pushed_ = 0;
  uint32_t put_ = 0;
};

// Non-pipelined copy, both sides pitch.
constexpr uint32_t kPitchCopy = 2 | 1 << 7 | 1 << 8;
constexpr uint32_t kMultiLine = 1 << 9, kRemap = 1 << 10;

TEST_F(ChannelTest, HostSemaphoresReleaseReduceAndBlock) {
  // SEM_EXECUTE: release with timestamp; add 5; then wait for at least 100.
  time_.Advance(VirtualSpan::Nanoseconds(1234));
  Method(0, abi::host::kSemAddrLo, {kData, 0, 40, 0, abi::host::kRelease | 1 << 25});
  Method(0, abi::host::kSemAddrLo, {kData, 0, 5, 0, abi::host::kReduction | 5u << 27});
  Method(0, abi::host::kSemAddrLo, {kData, 0, 100, 0, abi::host::kAcquireCircularGeq});
  Method(0, abi::host::kSemAddrLo, {kData + 16, 0, 1, 0, abi::host::kRelease});
  EXPECT_EQ(Run(), Channel::State::kWaiting);
  EXPECT_EQ(Read(kData), 45u);
  EXPECT_EQ(Read<uint64_t>(kData + 8), 1234u);
  EXPECT_EQ(Read(kData + 16), 0u);
  EXPECT_EQ(Step(), Channel::State::kWaiting);
  Write<uint32_t>(kData, 100);
  EXPECT_EQ(Step(), Channel::State::kIdle);
  EXPECT_EQ(Read(kData + 16), 1u);
}

TEST_F(ChannelTest, CopiesLinesWithPitchAndNothingBetween) {
  for (uint32_t i = 0; i < 256; ++i) Write<uint8_t>(kData + i, static_cast<uint8_t>(i));
  CopyMethods(kData, kData + 0x1000, 32, 100, 7, 5, kPitchCopy | kMultiLine);
  EXPECT_EQ(Run(), Channel::State::kIdle);
  for (uint32_t line = 0; line < 5; ++line) {
    for (uint32_t x = 0; x < 20; ++x) {
      EXPECT_EQ(Read<uint8_t>(kData + 0x1000 + line * 100 + x), x < 7 ? line * 32 + x : 0);
    }
  }
  EXPECT_EQ(services_.counters.copied_bytes, 35u);
}

TEST_F(ChannelTest, FillsWithRemappedConstants) {
  // Two components of two bytes: A then B.
  Method(kCopySubchannel, abi::copy::kRemapConstA,
         {0x1111, 0x2222, 4 | 5 << 4 | 1 << 16 | 1 << 24});
  CopyMethods(0, kData + 2, 0, 0, 3, 1, kPitchCopy | kRemap);
  EXPECT_EQ(Run(), Channel::State::kIdle);
  EXPECT_EQ(Read<uint64_t>(kData), 0x1111222211110000u);
  EXPECT_EQ(Read<uint64_t>(kData + 8), 0x0000'2222'1111'2222u);
}

TEST_F(ChannelTest, SwizzlesComponents) {
  Write<uint32_t>(kData, 0x04030201);
  // One-byte components: destination W,Z from the source, then constant A, then
  // one that is not written.
  Method(kCopySubchannel, abi::copy::kRemapConstA,
         {0xee, 0, 3 | 2 << 4 | 4 << 8 | 6 << 12 | 3 << 20 | 3 << 24});
  Write<uint32_t>(kData + 0x100, 0x77777777);
  CopyMethods(kData, kData + 0x100, 0, 0, 1, 1, kPitchCopy | kRemap);
  EXPECT_EQ(Run(), Channel::State::kIdle);
  EXPECT_EQ(Read(kData + 0x100), 0x77ee0304u);
}

TEST_F(ChannelTest, WritesInlineDataByLines) {
  Method(kComputeSubchannel, abi::compute::kLineLengthIn, {6, 2, 0, kData, 16});
  Method(kComputeSubchannel, abi::compute::kLaunchDma, {1});
  Method(kComputeSubchannel, abi::compute::kLoadInlineData, {0x03020100, 0x07060504, 0x0b0a0908},
         abi::kSecOpNonIncMethod);
  EXPECT_EQ(Run(), Channel::State::kIdle);
  EXPECT_EQ(Read<uint64_t>(kData), 0x050403020100u);
  EXPECT_EQ(Read<uint64_t>(kData + 16), 0x0b0a09080706u);
}

TEST_F(ChannelTest, InlineDataIsOneLineIfNobodySaysHowMany) {
  Method(kComputeSubchannel, abi::compute::kLineLengthIn, {4});
  Method(kComputeSubchannel, abi::compute::kOffsetOutUpper, {0, kData});
  Method(kComputeSubchannel, abi::compute::kLaunchDma, {1});
  Method(kComputeSubchannel, abi::compute::kLoadInlineData, {0x03020100, 0x07060504},
         abi::kSecOpNonIncMethod);
  EXPECT_EQ(Run(), Channel::State::kIdle);
  EXPECT_EQ(Read<uint64_t>(kData), 0x03020100u);
}

TEST_F(ChannelTest, MacrosFillAndCopyByInlineData) {
  // See macro_engine_test.
  const std::vector<uint32_t> fill = {0x140003,   0x1d00001b, 0x71c08300, 0x3,        0x18c00000,
                                      0xb01c5f00, 0x200003,   0x18c00000, 0x300c0300, 0x3,
                                      0x18c00000, 0x318c0301, 0x3,        0x18c00000, 0x318c0300};
  const std::vector<uint32_t> copy = {0x3,        0x1d080000, 0x31c00300, 0x540003,   0xc00455,
                                      0x31c00300, 0x2a200003, 0xc00056,   0x301c0300, 0x7,
                                      0x18c00400, 0x359c1f00, 0x1801b7,   0x18c00000, 0xb00c5f00,
                                      0x600003,   0x18c00000, 0x318c0300, 0x3,        0x18c00000,
                                      0x318c0301, 0x3,        0x18c00000, 0x318c0300};
  Method(kComputeSubchannel, abi::compute::kLoadMmeStartAddressRamPointer, {0});
  Method(kComputeSubchannel, abi::compute::kLoadMmeStartAddressRam, {0, 15},
         abi::kSecOpNonIncMethod);
  Method(kComputeSubchannel, abi::compute::kLoadMmeInstructionRamPointer, {0});
  Method(kComputeSubchannel, abi::compute::kLoadMmeInstructionRam, fill, abi::kSecOpNonIncMethod);
  Method(kComputeSubchannel, abi::compute::kLoadMmeInstructionRam, copy, abi::kSecOpNonIncMethod);
  Method(kComputeSubchannel, abi::compute::kLineLengthIn, {12, 1, 0, kData});
  Method(kComputeSubchannel, abi::compute::kLaunchDma, {0x41});
  Method(kComputeSubchannel, abi::compute::kCallMmeMacro, {3, 0xabababab});
  // And a word of it to elsewhere, of which three bytes are wanted.
  Method(kComputeSubchannel, abi::compute::kLineLengthIn, {3, 1, 0, kData + 0x100});
  Method(kComputeSubchannel, abi::compute::kLaunchDma, {0x41});
  Method(kComputeSubchannel, abi::compute::kCallMmeMacro + 8, {0, kData});
  Method(kComputeSubchannel, abi::compute::kCallMmeMacro + 12, {1});
  EXPECT_EQ(Run(), Channel::State::kIdle);
  EXPECT_EQ(Read<uint64_t>(kData), 0xababababababababu);
  EXPECT_EQ(Read<uint64_t>(kData + 8), 0xababababu);
  EXPECT_EQ(Read<uint64_t>(kData + 0x100), 0xabababu);
}

TEST_F(ChannelTest, AMacroThatReadsNowhereIsAFault) {
  Method(kComputeSubchannel, abi::compute::kMmeMemAddressA, {0x7f, 0});
  Method(kComputeSubchannel, abi::compute::kMmeDmaReadFifoed, {2});
  Method(kComputeSubchannel, abi::compute::kLoadMmeStartAddressRam, {0});
  Method(kComputeSubchannel, abi::compute::kLoadMmeInstructionRam,
         {0x7, 0x18c00400, 0x359c1f00, 0x3, 0x18c00000, 0x318c0301, 0x3, 0x18c00000, 0x318c0300},
         abi::kSecOpNonIncMethod);
  Method(kComputeSubchannel, abi::compute::kCallMmeMacro, {0});
  EXPECT_EQ(Run(), Channel::State::kDead);
}

// A Hopper QMD for an empty program, built bit by bit.
class QmdBuilder {
 public:
  QmdBuilder() { Set(583, 580, 4); }
  QmdBuilder& Set(int high, int low, uint64_t value) {
    for (int bit = low; bit <= high; ++bit) {
      if (value >> (bit - low) & 1) bytes_[bit / 8] |= 1 << bit % 8;
    }
    return *this;
  }
  QmdBuilder& Grid(uint32_t blocks) {
    return Set(25, 23, 2).Set(1055, 1024, blocks).Set(1071, 1056, 1).Set(1103, 1088, 1);
  }
  // RELEASE(0): one word.
  QmdBuilder& Release(uint64_t address, uint32_t payload) {
    return Set(320, 320, 1).Set(322, 321, 1).Set(671, 640, address).Set(735, 704, payload);
  }
  const std::array<uint8_t, kQmdBytes>& bytes() const { return bytes_; }

 private:
  std::array<uint8_t, kQmdBytes> bytes_{};
};

TEST_F(ChannelTest, AKernelTakesItsTimeAndThenReleases) {
  Write(kQmd, QmdBuilder().Grid(64).Release(kData, 9).bytes());
  Method(kComputeSubchannel, abi::compute::kSendPcasA, {kQmd >> 8});
  Method(kComputeSubchannel, abi::compute::kSendSignalingPcas2B,
         {abi::compute::kInvalidatePrefetchCopySchedule});
  EXPECT_EQ(Run(), Channel::State::kWaiting);
  EXPECT_EQ(Read(kData), 0u);
  time_.Advance(VirtualSpan::Microseconds(9));
  EXPECT_EQ(Step(), Channel::State::kWaiting);
  time_.Advance(VirtualSpan::Microseconds(1));
  EXPECT_EQ(Step(), Channel::State::kIdle);
  EXPECT_EQ(Read(kData), 9u);
  EXPECT_EQ(services_.counters.kernels, 1u);
}

TEST_F(ChannelTest, AClusterLaunchStatesItsGridInClusters) {
  auto bytes = QmdBuilder()
                   .Grid(8)
                   .Set(23, 23, 1)
                   .Set(2149, 2144, 2)
                   .Set(2157, 2152, 1)
                   .Set(2165, 2160, 1)
                   .bytes();
  const auto qmd = DecodeQmd(bytes);
  ASSERT_TRUE(qmd);
  EXPECT_EQ(qmd->grid.x, 16u);
  EXPECT_EQ(qmd->cluster.count(), 2u);
}

TEST_F(ChannelTest, ACooperativeLaunchStatesItsGridInWhatRunsTogether) {
  const auto bytes = QmdBuilder()
                         .Set(25, 23, 4)
                         .Set(1055, 1024, 1)
                         .Set(1071, 1056, 1)
                         .Set(1103, 1088, 1)
                         .Set(2223, 2208, 8)
                         .Set(2239, 2224, 2)
                         .Set(2255, 2240, 1)
                         .bytes();
  const auto qmd = DecodeQmd(bytes);
  ASSERT_TRUE(qmd);
  EXPECT_EQ(qmd->grid.x, 8u);
  EXPECT_EQ(qmd->grid.y, 2u);
  EXPECT_EQ(qmd->cluster.count(), 0u);
}

TEST_F(ChannelTest, OfLinesInOnePlaceTheLastIsLeft) {
  Write(kData, std::array<uint32_t, 4>{1, 2, 3, 4});
  CopyMethods(kData, kData + 64, 4, 0, 4, 4, kPitchCopy | kMultiLine);
  EXPECT_EQ(Run(), Channel::State::kIdle);
  EXPECT_EQ(Read(kData + 64), 4u);
  // As many as there may be, and at once.
  CopyMethods(kData, kData + 64, 0, 0, 4, ~uint32_t{0}, kPitchCopy | kMultiLine);
  EXPECT_EQ(Run(), Channel::State::kIdle);
  EXPECT_EQ(Read(kData + 64), 1u);
}

TEST_F(ChannelTest, MoreLinesThanAnybodyHasKillTheChannel) {
  CopyMethods(kData, kData + 64, 0, 1, 4, ~uint32_t{0}, kPitchCopy | kMultiLine);
  EXPECT_EQ(Run(), Channel::State::kDead);
}

TEST_F(ChannelTest, LongLinesUponEachOtherKillTheChannel) {
  CopyMethods(kData, kData + 64, 0, 1, 2048, 1 << 26, kPitchCopy | kMultiLine);
  EXPECT_EQ(Run(), Channel::State::kDead);
  EXPECT_EQ(channel_->failure(), kCopyEngineError);
}

TEST_F(ChannelTest, ARemappedCopyOfMoreThanAnybodyHasKillsTheChannel) {
  Method(kCopySubchannel, abi::copy::kRemapConstA, {0xee, 0, 3 | 2 << 4 | 3 << 20 | 3 << 24});
  CopyMethods(kData, kData + 64, 0, 0, 1024, 1 << 26, kPitchCopy | kRemap | kMultiLine);
  EXPECT_EQ(Run(), Channel::State::kDead);
  EXPECT_EQ(channel_->failure(), kCopyEngineError);
}

TEST_F(ChannelTest, AnInterruptReachesTheSink) {
  Method(kComputeSubchannel, abi::compute::kSetReportSemaphoreD, {3});
  Method(0, abi::host::kNonStallInterrupt, {0});
  EXPECT_EQ(Run(), Channel::State::kIdle);
  EXPECT_EQ(sink_.engines, (std::vector<uint32_t>{1, 9}));
}

TEST_F(ChannelTest, UnmappedMemoryKillsTheChannelAsAnMmuFault) {
  CopyMethods(kData, 0x9000000, 0, 0, 64, 1, kPitchCopy);
  EXPECT_EQ(Run(), Channel::State::kDead);
  EXPECT_EQ(channel_->failure(), kMmuFault);
  uint32_t info = 0;
  uint16_t status = 0;
  notifier_->Read(8, &info, 4);
  notifier_->Read(14, &status, 2);
  EXPECT_EQ(info, kMmuFault);
  EXPECT_EQ(status, 0xffff);
  EXPECT_EQ(Step(), Channel::State::kDead);
}

TEST_F(ChannelTest, ABadPutPointerKillsOnlyTheChannel) {
  SetPut(kEntries);
  EXPECT_EQ(Step(), Channel::State::kDead);
  EXPECT_EQ(channel_->failure(), kPbdmaError);
}

// While it waits within an entry it does not fetch: that there is something new is told once.
TEST_F(ChannelTest, ABadPutPointerOfAWaitingChannelIsOneSubmission) {
  Method(0, abi::host::kSemAddrLo, {kData, 0, 1, 0, abi::host::kAcquireCircularGeq});
  EXPECT_EQ(Run(), Channel::State::kWaiting);
  channel_->Reveal(VirtualTime());
  EXPECT_EQ(channel_->UnrevealedSubmissions(), 0u);
  SetPut(kEntries);
  EXPECT_EQ(channel_->UnrevealedSubmissions(), 1u);
  channel_->Reveal(VirtualTime());
  EXPECT_EQ(channel_->UnrevealedSubmissions(), 0u);
  EXPECT_EQ(Step(), Channel::State::kWaiting);
  Write<uint32_t>(kData, 1);
  EXPECT_EQ(Step(), Channel::State::kDead);
  EXPECT_EQ(channel_->failure(), kPbdmaError);
}

TEST_F(ChannelTest, WorkStaysPutUntilTheChannelIsScheduled) {
  Channel idle(Channel::Config{.context = context_,
                               .gpfifo = kGpfifo,
                               .gpfifo_entries = kEntries,
                               .userd = userd_,
                               .userd_offset = 0,
                               .error_notifier = nullptr});
  const uint32_t put = 1;
  userd_->Write(abi::kUserdGpPut, &put, 4);
  bool worked = false;
  EXPECT_EQ(idle.Step(services_, worked), Channel::State::kIdle);
  EXPECT_FALSE(worked);
}

TEST_F(ChannelTest, UnknownMethodsAreCountedNotObeyed) {
  Method(3, 0x200, {1});  // nothing is bound to subchannel 3
  Method(0, 0x94, {1});   // no host method
  EXPECT_EQ(Run(), Channel::State::kIdle);
  EXPECT_NE(unknowns_.Report().find("host method 0x94"), std::string::npos);
  EXPECT_NE(unknowns_.Report().find("method of class 0x200"), std::string::npos);
}

}  // namespace
}  // namespace phantora
