// Pushbuffers and launch descriptors for the GPU front end. What a rank writes must neither crash
// it, nor make one step long, nor make it keep memory without bound.
#include <array>
#include <memory>
#include <vector>

#include "clock/time_source.h"
#include "test/fuzz/choices.h"
#include "trap/abi/methods.h"
#include "trap/gpu/front/channel.h"
#include "trap/gpu/front/gpu_context.h"
#include "trap/gpu/front/qmd.h"
#include "trap/gpu/kernels/internal_kernels.h"
#include "trap/gpu/timeline/engine_share.h"

namespace phantora {
namespace {

constexpr uint64_t kMemoryVa = 0x1000000000;
constexpr uint64_t kMemoryBytes = 4 << 20;
// Offsets in the memory.
constexpr uint64_t kGpfifo = 0, kUserd = 0x10000, kNotifier = 0x11000, kQmds = 0x20000,
                   kSemaphores = 0x30000, kPush = 0x100000;
constexpr uint32_t kEntries = 256;
constexpr uint64_t kQmdDistance = 0x200, kQmdCount = 16;
// What one operation may cost beyond the budget: a launch that starts a graph fork
// of the largest size.
constexpr int64_t kLargestOperation = 4 << 16;

class NoInterrupts : public InterruptSink {
 public:
  void NonStall(int, pid_t, uint32_t) override { ++count; }
  void ChannelError(int, pid_t) override { ++count; }
  uint64_t count = 0;
};

class Fuzzer {
 public:
  explicit Fuzzer(Choices& choices)
      : choices_(choices),
        hopper_(choices.Below(2) == 1),
        memory_(std::make_shared<OwnedMemory>(MemoryKind::kVidmem, kMemoryBytes)),
        context_(std::make_shared<GpuContext>()) {
    Require(context_->memory.Map(kMemoryVa, kMemoryBytes, memory_, 0));
    NewChannel();
  }

  // Submits one random segment and executes it as far as a few steps go.
  void One() {
    if (Below(8) == 0) WriteQmds();
    words_.clear();
    Method(1, abi::host::kSetObject, hopper_ ? 0xcbc0 : 0xc6c0);
    Method(4, abi::host::kSetObject, hopper_ ? 0xc8b5 : 0xc6b5);
    const uint32_t pieces = 1 + Below(8);
    for (uint32_t i = 0; i < pieces; ++i) Piece();
    Submit();
    for (int i = 0; i < 4 && state_ != Channel::State::kDead; ++i) Step();
    if (state_ == Channel::State::kDead) NewChannel();
    // Work without end stays under way; give it up now and then.
    if (++submissions_ % 16 == 0) NewChannel();
    if (Below(64) == 0) context_ = FreshContext();
  }

 private:
  uint32_t Below(uint64_t bound) { return static_cast<uint32_t>(choices_.Below(bound)); }
  uint32_t Word() { return choices_.Word(); }

  std::shared_ptr<GpuContext> FreshContext() {
    auto context = std::make_shared<GpuContext>();
    context->memory.Map(kMemoryVa, kMemoryBytes, memory_, 0);
    channel_.reset();
    std::swap(context, context_);
    NewChannel();
    return context_;
  }

  void NewChannel() {
    Channel::Config config;
    config.id = ++channels_;
    config.process = 0;  // of nobody: failures are not logged
    config.context = context_;
    config.gpfifo = kMemoryVa + kGpfifo;
    config.gpfifo_entries = kEntries;
    config.userd = memory_;
    config.userd_offset = kUserd;
    config.error_notifier = memory_;
    config.engine = 1;
    // Half of them share engines, as in simulated time.
    if (Below(2) == 0) {
      config.sms = sms_;
      config.copy_engine = copy_engine_;
      config.time = time_.get();
    }
    channel_ = std::make_unique<Channel>(std::move(config));
    channel_->Enable();
    put_ = 0;
    state_ = Channel::State::kIdle;
  }

  void Step() {
    bool worked = false;
    int64_t budget = kStepBudget;
    state_ = channel_->Step(services_, worked, budget);
    Require(budget > -kLargestOperation);
    if (Below(4) == 0) time_->Advance(VirtualSpan::Microseconds(Below(10)));
    Require(context_->qmds.size() <= size_t{1} << 20);
  }

  void Submit() {
    const uint64_t at = kPush + Below(64) * 0x4000;
    Require(memory_->Write(at, words_.data(), words_.size() * 4));
    uint64_t length = words_.size();
    if (Below(64) == 0) length = abi::kGpEntryLengthMask;
    uint64_t entry = (kMemoryVa + at) | length << abi::kGpEntryLengthShift;
    if (Below(128) == 0) entry = choices_.Long();
    memory_->Write(kGpfifo + put_ * 8, &entry, 8);
    put_ = (put_ + 1) % kEntries;
    uint32_t put = Below(256) == 0 ? Word() : put_;
    memory_->Write(kUserd + abi::kUserdGpPut, &put, 4);
  }

  void Method(uint32_t subchannel, uint32_t method, uint64_t data) {
    words_.push_back(abi::kSecOpIncMethod << 29 | 1u << 16 | subchannel << 13 | method >> 2);
    words_.push_back(static_cast<uint32_t>(data));
  }
  void Address(uint32_t subchannel, uint32_t upper, uint64_t address) {
    Method(subchannel, upper, address >> 32);
    Method(subchannel, upper + 4, address);
  }
  uint64_t SomeAddress() {
    switch (Below(8)) {
      case 0:
        return Below(8) == 0 ? choices_.Long() : kMemoryVa + kPush + Below(1 << 20);
      case 1:
        return kMemoryVa + kMemoryBytes - Below(4096);
      case 2:
        return kMemoryVa + Below(kMemoryBytes);  // GPFIFO, USERD and pushbuffers, too
      case 3:
        return kMemoryVa + kQmds + Below(kQmdCount) * kQmdDistance;
      default:
        return kMemoryVa + kSemaphores + Below(1024) * 16;
    }
  }
  uint64_t SomeSize() {
    static constexpr uint32_t kEdges[] = {0, 1, 3, 4, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff};
    switch (Below(16)) {
      case 0:
        return kEdges[Below(8)];
      case 1:
        return Word();
      default:
        return Below(4096);
    }
  }

  void Piece() {
    namespace compute = abi::compute;
    namespace copy = abi::copy;
    namespace host = abi::host;
    const uint64_t qmd = kMemoryVa + kQmds + Below(kQmdCount) * kQmdDistance;
    switch (Below(12)) {
      case 0:
      case 1: {
        Address(4, copy::kOffsetInUpper, SomeAddress());
        Address(4, copy::kOffsetOutUpper, SomeAddress());
        Method(4, copy::kPitchIn, SomeSize());
        Method(4, copy::kPitchOut, SomeSize());
        Method(4, copy::kLineLengthIn, SomeSize());
        Method(4, copy::kLineCount, SomeSize());
        Method(4, copy::kRemapComponents, Word());
        Address(4, copy::kSemaphoreA, SomeAddress());
        Method(4, copy::kLaunchDma, Below(4) == 0 ? Word() : (Word() & ~0x3000u) | 0x180);
        break;
      }
      case 2:
      case 3: {
        Method(1, compute::kLineLengthIn, SomeSize());
        Method(1, compute::kLineCount, SomeSize());
        Address(1, compute::kOffsetOutUpper, SomeAddress());
        Method(1, compute::kPitchOut, SomeSize());
        Method(1, compute::kLaunchDma, Word());
        if (Below(3) == 0) Method(1, compute::kLineLengthIn, Below(3));
        const uint32_t count = Below(100);
        const uint32_t op = Below(2) == 0 ? abi::kSecOpNonIncMethod : abi::kSecOpOneInc;
        words_.push_back(op << 29 | count << 16 | 1u << 13 | compute::kLoadInlineData >> 2);
        for (uint32_t i = 0; i < count; ++i) words_.push_back(Word());
        break;
      }
      case 4:
      case 5:
        Method(1, compute::kSendPcasA, (Below(16) == 0 ? SomeAddress() : qmd) >> 8);
        if (Below(2) == 0) {
          Method(1, compute::kSendSignalingPcasB, Below(4));
        } else {
          Method(1, compute::kSendSignalingPcas2B, Below(16));
        }
        break;
      case 6:
        words_.push_back(abi::kSecOpIncMethod << 29 | 98u << 16 | 1u << 13 |
                         compute::kInlineQmdAddressA >> 2);
        words_.push_back(static_cast<uint32_t>(qmd >> 40));
        words_.push_back(static_cast<uint32_t>(qmd >> 8));
        for (uint32_t word : RandomQmd()) words_.push_back(word);
        break;
      case 7: {
        const uint64_t address = SomeAddress();
        Method(0, host::kSemAddrLo, address);
        Method(0, host::kSemAddrHi, address >> 32);
        Method(0, host::kSemPayloadLo, Below(4));
        Method(0, host::kSemExecute, Below(8) == 0 ? Word() : (Word() & ~7u) | host::kRelease);
        break;
      }
      case 8:
        Address(1, compute::kSetReportSemaphoreA, SomeAddress());
        Method(1, compute::kSetReportSemaphoreD, Word());
        Method(1, compute::kReportSemaphoreExecute, Word());
        break;
      case 9:
        Method(0, host::kSemaphoreA, SomeAddress() >> 32);
        Method(0, host::kSemaphoreB, SomeAddress());
        Method(0, host::kSemaphoreD, Word());
        break;
      case 10:
        // A valid header, any method.
        words_.push_back((1 + Below(7)) << 29 | Below(64) << 16 | Below(8) << 13 | Below(0x1000));
        break;
      default:
        if (Below(4) == 0) words_.push_back(Word());
        Method(Below(8), Below(0x1000) * 4, Word());
        break;
    }
  }

  // A descriptor that schedules others, or itself.
  std::array<uint32_t, kQmdBytes / 4> RandomQmd() {
    std::array<uint32_t, kQmdBytes / 4> qmd{};
    for (uint32_t& word : qmd) {
      if (Below(8) == 0) word = Word();
    }
    const bool odd = Below(16) == 0;  // of another version
    const auto next =
        static_cast<uint32_t>((kMemoryVa + kQmds + Below(kQmdCount) * kQmdDistance) >> 8);
    const uint32_t action = Below(2) == 0 ? Below(8) : uint32_t{Qmd::kSchedule};
    const uint32_t dependent = Below(2) == 0 ? 1 | action << 1 : 0;
    if (hopper_) {
      qmd[18] = odd ? Word() : 4u << 4;
      // Type, "requires PCAS", and a dependence counter.
      qmd[0] = Below(6) << 23 | (qmd[0] & 0x40000000) | (Below(4) == 0 ? Below(4) : 0);
      qmd[11] = dependent << 16;
      qmd[14] = next;
      SetGrid(qmd, 32);
      for (int i = 0; i < 3; ++i) SetRelease(qmd, 20 + i * 4, 25);
    } else {
      qmd[18] = (odd ? Word() : (2 + Below(2)) << 4);
      qmd[4] &= Below(2) == 0 ? 0x1000 : 0;
      SetGrid(qmd, 12);
      qmd[15] = next;
      qmd[16] = dependent;
      for (int at : {23, 24, 26, 28, 52}) SetRelease(qmd, at, 8);
    }
    return qmd;
  }
  // Width, height and depth, mostly small, sometimes none.
  void SetGrid(std::array<uint32_t, kQmdBytes / 4>& qmd, int at) {
    for (const int dimension : {0, 1, 2}) {
      if (Below(16) != 0) qmd[at + dimension] = 1 + Below(3);
    }
  }
  // Points a release at mapped memory, mostly.
  void SetRelease(std::array<uint32_t, kQmdBytes / 4>& qmd, int at, int upper_bits) {
    if (Below(16) == 0) return;
    const uint64_t address = kMemoryVa + kSemaphores + Below(1024) * 16;
    qmd[at] = static_cast<uint32_t>(address);
    qmd[at + 1] = (qmd[at + 1] & ~((1u << upper_bits) - 1)) | static_cast<uint32_t>(address >> 32);
  }
  void WriteQmds() {
    for (uint64_t i = 0; i < kQmdCount; ++i) {
      const auto qmd = RandomQmd();
      memory_->Write(kQmds + i * kQmdDistance, qmd.data(), kQmdBytes);
    }
  }

  Choices& choices_;
  const bool hopper_;
  const std::shared_ptr<ManualTimeSource> time_ = std::make_shared<ManualTimeSource>();
  const std::shared_ptr<EngineShare> sms_ = std::make_shared<EngineShare>(time_);
  const std::shared_ptr<EngineShare> copy_engine_ = std::make_shared<EngineShare>(time_);
  const std::shared_ptr<OwnedMemory> memory_;
  std::shared_ptr<GpuContext> context_;
  std::unique_ptr<Channel> channel_;
  Channel::State state_ = Channel::State::kIdle;
  std::vector<uint32_t> words_;
  uint32_t put_ = 0, channels_ = 0;
  uint64_t submissions_ = 0;

  NoInterrupts interrupts_;
  FixedPricer pricer_{VirtualSpan::Microseconds(1)};
  InternalKernels internal_kernels_;
  CallLog log_;
  Unknowns unknowns_;
  GpuServices services_{time_.get(), &interrupts_, &pricer_, &internal_kernels_,
                        &log_,       &unknowns_,   {}};
};

}  // namespace
}  // namespace phantora

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  phantora::Choices choices(data, size);
  phantora::Fuzzer fuzzer(choices);
  for (int i = 0; i < 64 && !choices.empty(); ++i) fuzzer.One();
  return 0;
}
