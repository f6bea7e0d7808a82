// Calls and launches of the drop-in libnccl of two processes.
#include <cstring>
#include <memory>
#include <vector>

#include "clock/virtual_time.h"
#include "fabric/cluster/cluster.h"
#include "fabric/cluster/cluster_fabric.h"
#include "fabric/collectives/nccl_planner.h"
#include "fabric/library/wire.h"
#include "test/fuzz/choices.h"
#include "trap/nccl/nccl_device.h"
#include "trap/nccl/nccl_runtime.h"
#include "trap/rm/fake_machine.h"
#include "uvm_model/memory_object.h"

namespace phantora {
namespace {

constexpr pid_t kProcesses[] = {100, 101, 102};
constexpr uint64_t kBlock = 0x1000, kMemory = 0x7f0000000000, kMemoryBytes = 1 << 20;

class Fuzzer {
 public:
  explicit Fuzzer(Choices& choices) : choices_(choices), fabric_(MakeFabric()) {
    planner_ = std::make_unique<NcclPlanner>(fabric_.get(), 3e12, [](const std::string&) {});
    runtime_ = std::make_unique<NcclRuntime>(
        NcclRuntime::Options{.network = &fabric_->network(),
                             .planner = planner_.get(),
                             .largest_reduction = choices.Below(2) == 0 ? uint64_t{0} : 1 << 20,
                             .unknowns = &unknowns_,
                             .timed = choices.Below(4) != 0,
                             .events = nullptr,
                             .failed = [](const std::string&) {}});
    for (size_t i = 0; i < std::size(kProcesses); ++i) {
      calls_.push_back(std::make_unique<FakeCall>(kProcesses[i]));
      calls_.back()->memory().PutAll(kBlock, std::vector<uint8_t>(8192));
      devices_.push_back(std::make_unique<NcclDevice>(
          runtime_.get(), [i](const uint8_t* uuid) -> std::optional<GpuPlace> {
            if (uuid[0] > 7) return std::nullopt;
            return GpuPlace{static_cast<int>(i % 2), uuid[0]};
          }));
    }
    context_->memory.Map(kMemory, kMemoryBytes,
                         std::make_shared<OwnedMemory>(MemoryKind::kVidmem, kMemoryBytes), 0);
  }

  void One() {
    const size_t who = choices_.Below(std::size(kProcesses));
    switch (choices_.Below(8)) {
      case 0:
      case 1: {
        nccl::Join join{};
        join.id[0] = static_cast<uint8_t>(choices_.Below(3));
        join.ranks = Number(5);
        join.rank = Number(4);
        join.gpu[0] = static_cast<uint8_t>(choices_.Below(9));
        Fill(&join.settings);
        Ioctl(who, nccl::kJoin, join);
        break;
      }
      case 2: {
        nccl::Split split{};
        split.parent = Handle();
        split.color = Number(3);
        split.key = Number(8);
        Fill(&split.settings);
        Ioctl(who, nccl::kSplit, split);
        break;
      }
      case 3: {
        nccl::Shrink shrink{};
        shrink.parent = Handle();
        shrink.excluded_count = Number(4);
        shrink.excluded = choices_.Below(4) == 0 ? choices_.Long() : kBlock + 4096;
        shrink.abort = static_cast<int32_t>(choices_.Below(2));
        const int32_t excluded[] = {Number(4), Number(4)};
        calls_[who]->memory().Put(kBlock + 4096, excluded);
        Ioctl(who, nccl::kShrink, shrink);
        break;
      }
      case 4: {
        nccl::Ask ask{};
        ask.handle = Handle();
        Ioctl(who, nccl::kAsk, ask);
        break;
      }
      case 5: {
        nccl::Leave leave{.handle = Handle(), .how = static_cast<nccl::Leaving>(Number(2))};
        Ioctl(who, nccl::kLeave, leave);
        break;
      }
      case 6:
        if (choices_.Below(4) == 0) {
          runtime_->ProcessDied(kProcesses[who]);
        } else if (choices_.Below(8) == 0) {
          devices_[who]->Ioctl(*calls_[who], choices_.Word(), RemoteAddress{kBlock});
        } else {
          Advance();
        }
        break;
      default:
        Launch(kProcesses[who]);
    }
    runtime_->DescribeWaiting(now_);
  }

  void End() {
    for (const pid_t process : kProcesses) runtime_->ProcessDied(process);
    for (int i = 0; i < 64 && runtime_->NextEvent() < VirtualTime::Infinity(); ++i) Advance();
    for (const uint64_t id : launches_) runtime_->Forget(id);
  }

 private:
  static std::unique_ptr<ClusterFabric> MakeFabric() {
    static const Cluster* const cluster = new Cluster(*FindCluster("dgx-h100:2"));
    auto fabric = ClusterFabric::Create(*cluster);
    Require(fabric.ok());
    return *std::move(fabric);
  }
  // Mostly of [0, bound), sometimes any.
  int32_t Number(int32_t bound) {
    const uint8_t byte = choices_.Byte();
    if (byte >= 250) return static_cast<int32_t>(choices_.Word());
    return byte % bound;
  }
  nccl::Handle Handle() { return static_cast<nccl::Handle>(Number(6)); }
  void Fill(nccl::Settings* settings) {
    if (choices_.Below(4) != 0) return;
    const auto bytes = choices_.Bytes(sizeof *settings);
    if (!bytes.empty()) std::memcpy(static_cast<void*>(settings), bytes.data(), bytes.size());
  }
  template <typename Block>
  void Ioctl(size_t who, unsigned long command, const Block& block) {
    calls_[who]->memory().Put(kBlock, block);
    devices_[who]->Ioctl(*calls_[who], static_cast<uint32_t>(command), RemoteAddress{kBlock});
  }
  void Launch(pid_t process) {
    std::vector<uint8_t> bytes;
    nccl::MarkerHeader header;
    header.handle = Handle();
    header.entries = static_cast<uint16_t>(Number(4));
    header.more = static_cast<uint16_t>(Number(2));
    header.sequence = choices_.Below(4);
    if (choices_.Below(32) == 0) header.magic = choices_.Long();
    bytes.resize(sizeof header);
    std::memcpy(bytes.data(), &header, sizeof header);
    const int entries = std::min<int>(header.entries, nccl::kMostEntries);
    for (int i = 0; i < entries; ++i) {
      nccl::Entry entry{};
      entry.operation = static_cast<nccl::Operation>(Number(nccl::kOperations));
      entry.type = static_cast<uint8_t>(Number(12));
      entry.reduction = static_cast<uint8_t>(Number(6));
      entry.scalar_on_device = static_cast<uint8_t>(Number(2));
      entry.peer = Number(4);
      entry.count = choices_.Below(8) == 0 ? choices_.Long() : choices_.Below(1 << 14);
      entry.send = kMemory + choices_.Below(kMemoryBytes);
      entry.receive = kMemory + choices_.Below(kMemoryBytes);
      entry.scalar = choices_.Below(4) == 0 ? choices_.Long() : kMemory;
      const size_t at = bytes.size();
      bytes.resize(at + sizeof entry);
      std::memcpy(&bytes[at], &entry, sizeof entry);
    }
    if (choices_.Below(4) != 0) bytes.resize(sizeof(nccl::LongMarker));
    const auto prepared = runtime_->Prepare(process, context_, bytes);
    if (prepared.id == 0) return;
    launches_.push_back(prepared.id);
    runtime_->NameOf(prepared.id);
    runtime_->Start(prepared.id, now_);
  }
  void Advance() {
    const VirtualTime next = runtime_->NextEvent();
    if (next < VirtualTime::Infinity()) now_ = std::max(now_, next);
    runtime_->Advance(now_);
    runtime_->TakeChanged();
    for (const uint64_t id : launches_) runtime_->EndOf(id);
  }

  Choices& choices_;
  Unknowns unknowns_;
  const std::unique_ptr<ClusterFabric> fabric_;
  std::unique_ptr<NcclPlanner> planner_;
  std::unique_ptr<NcclRuntime> runtime_;
  std::vector<std::unique_ptr<FakeCall>> calls_;
  std::vector<std::unique_ptr<NcclDevice>> devices_;
  const std::shared_ptr<GpuContext> context_ = std::make_shared<GpuContext>();
  std::vector<uint64_t> launches_;
  VirtualTime now_;
};

}  // namespace
}  // namespace phantora

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  phantora::Choices choices(data, size);
  phantora::Fuzzer fuzzer(choices);
  for (int i = 0; i < 200 && !choices.empty(); ++i) fuzzer.One();
  fuzzer.End();
  return 0;
}
