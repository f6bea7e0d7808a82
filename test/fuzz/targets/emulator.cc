// Two ranks and what they may do with the driver's devices, one call after another: the resource
// manager, UVM, memory, channels and the GPUs' work in simulated time.
#include <linux/ioctl.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "clock/time_source.h"
#include "test/fuzz/choices.h"
#include "trap/abi/generated/escapes.h"
#include "trap/abi/generated/rm_classes.h"
#include "trap/abi/generated/rm_controls.h"
#include "trap/abi/methods.h"
#include "trap/gpu/kernels/internal_kernels.h"
#include "trap/gpu/timeline/gpu_timelines.h"
#include "trap/rm/fake_machine.h"
#include "trap/rm/rm_control.h"
#include "trap/rm/rm_device.h"
#include "trap/rm/rm_resources.h"
#include "trap/uvm/uvm_device.h"

namespace phantora {
namespace {

using namespace abi;  // NOLINT: NVIDIA's names

constexpr pid_t kRanks[] = {100, 101};
// Where a rank has the block of a call, what that points to, and what that points to in turn.
constexpr uint64_t kBlock = 0x10000, kParams = 0x100000, kMore = 0x400000, kBytes = 1 << 16;
constexpr uint64_t kVa = 0x7f0000000000;

const std::vector<uint32_t>& Escapes() {
  static const auto* const known = [] {
    auto* numbers = new std::vector<uint32_t>;
    for (uint32_t number = 0; number < 256; ++number) {
      if (RmDevice::Knows(number)) numbers->push_back(number);
    }
    return numbers;
  }();
  return *known;
}
const std::vector<uint32_t>& UvmCalls() {
  static const auto* const known = [] {
    auto* numbers = new std::vector<uint32_t>;
    for (uint32_t number = 0; number < 256; ++number) {
      if (UvmDevice::Knows(number)) numbers->push_back(number);
    }
    numbers->push_back(0x30000001);  // UVM_INITIALIZE
    numbers->push_back(0x30000002);
    return numbers;
  }();
  return *known;
}
const std::vector<uint32_t>& Classes() {
  static const auto* const known = [] {
    auto* numbers = new std::vector<uint32_t>;
    for (uint32_t number = 0; number < 0x10000; ++number) {
      if (KnowsClass(number)) numbers->push_back(number);
    }
    return numbers;
  }();
  return *known;
}
const std::vector<const ControlRow*>& Controls() {
  static const auto* const known = [] {
    auto* rows = new std::vector<const ControlRow*>;
    for (const auto& family : AllControls()) {
      for (const ControlRow& row : family) rows->push_back(&row);
    }
    return rows;
  }();
  return *known;
}

struct Rank {
  explicit Rank(pid_t process) : call(process) {
    call.memory().PutAll(kBlock, std::vector<uint8_t>(1 << 12));
    call.memory().PutAll(kParams, std::vector<uint8_t>(kBytes));
    call.memory().PutAll(kMore, std::vector<uint8_t>(kBytes));
  }
  FakeCall call;
  uint32_t client = 0;
  std::vector<uint32_t> handles;
};

class Fuzzer {
 public:
  explicit Fuzzer(Choices& choices)
      : choices_(choices),
        abi_(static_cast<DriverAbi>(choices.Below(3))),
        fake_(choices.Below(2) == 0 ? "a100-sxm4-80gb" : "h100-sxm5-80gb", abi_),
        timelines_(&fake_.services) {
    fake_.services.internal_kernels = &internal_kernels_;
    if (choices.Below(4) != 0) fake_.scheduler.Simulate(&timelines_);
    for (const pid_t process : kRanks) {
      ranks_.push_back(std::make_unique<Rank>(process));
      Start(*ranks_.back());
    }
  }

  void One() {
    rank_ = ranks_[choices_.Below(ranks_.size())].get();
    switch (choices_.Below(16)) {
      case 0:
        Open(static_cast<int>(choices_.Below(8)), static_cast<int>(choices_.Below(4)));
        break;
      case 1:
        rank_->call.devices.erase(static_cast<int>(choices_.Below(8)));
        break;
      case 2:
      case 3:
      case 4:
        Alloc(Classes()[choices_.Below(Classes().size())]);
        break;
      case 5:
      case 6:
        Control();
        break;
      case 7:
        Escape();
        break;
      case 8:
      case 9:
        Uvm();
        break;
      case 10:
        Mmap();
        break;
      case 11:
      case 12:
        Poke();
        break;
      case 13:
      case 14:
        Work();
        break;
      default:
        if (choices_.Below(16) == 0) Die();
    }
  }

  void End() {
    for (auto& rank : ranks_) {
      rank_ = rank.get();
      Die();
    }
    Require(fake_.rm.server.size() == 0);
  }

 private:
  // What every client of the driver begins with.
  void Start(Rank& rank) {
    rank_ = &rank;
    Open(3, 0);
    Open(4, 3);
    NVOS64_PARAMETERS params{};
    params.hClass = NV01_ROOT;
    rank.client = AllocAs(params);
    rank.handles.push_back(rank.client);
    for (const auto& [parent, class_id] : {std::pair<size_t, uint32_t>{0, NV01_DEVICE_0},
                                           {1, NV20_SUBDEVICE_0},
                                           {1, FERMI_VASPACE_A}}) {
      rank.call.memory().PutAll(kParams, std::vector<uint8_t>(512));
      params = {};
      params.hRoot = rank.client;
      params.hObjectParent = rank.handles[parent];
      params.hClass = class_id;
      params.pAllocParms = kParams;
      rank.handles.push_back(AllocAs(params));
    }
  }
  uint32_t AllocAs(const NVOS64_PARAMETERS& params) {
    rank_->call.memory().Put(kBlock, params);
    Ioctl(3, Command(NV_ESC_RM_ALLOC, sizeof params));
    const auto after = rank_->call.memory().Get<NVOS64_PARAMETERS>(kBlock);
    return after.status == 0 ? after.hObjectNew : 0;
  }

  void Open(int descriptor, int which) {
    auto& devices = rank_->call.devices;
    if (which == 3) {
      devices[descriptor] = std::make_shared<UvmDevice>(&fake_.rm, rank_->call.process());
    } else {
      devices[descriptor] =
          std::make_shared<RmDevice>(&fake_.rm, which == 0 ? RmDevice::kControlMinor : which - 1);
    }
  }
  static uint32_t Command(uint32_t number, uint32_t size) {
    return _IOC(_IOC_READ | _IOC_WRITE, 'F', number, size);
  }
  void Ioctl(int descriptor, uint32_t command) {
    if (const auto device = rank_->call.DeviceAt(descriptor)) {
      device->Ioctl(rank_->call, command, RemoteAddress{kBlock});
    }
  }

  // --- Blocks: zeros, with some words that mean something ---

  uint32_t Handle() {
    const uint8_t which = choices_.Byte();
    if (which == 255) return choices_.Word();
    const Rank& owner = which >= 240 ? *ranks_[choices_.Below(ranks_.size())] : *rank_;
    return owner.handles.empty() ? 0 : owner.handles[which % owner.handles.size()];
  }
  uint64_t Value() {
    switch (choices_.Below(8)) {
      case 0:
        return Handle();
      case 1:
        return kMore;
      case 2:
        return uint64_t{1} << choices_.Below(48);
      case 3:
        return kVa + choices_.Below(1 << 16) * 4096;
      case 4:
        return choices_.Long();
      case 5:
        return choices_.Word();
      default:
        return choices_.Byte();
    }
  }
  void Fill(uint64_t address, uint32_t bytes) {
    std::vector<uint8_t> block(std::min<uint64_t>(bytes, kBytes));
    const uint64_t words = choices_.Below(12);
    for (uint64_t i = 0; i < words && block.size() >= 4; ++i) {
      const size_t at = choices_.Below(block.size() / 4) * 4;
      const uint64_t value = Value();
      std::memcpy(&block[at], &value,
                  std::min<size_t>(choices_.Below(2) == 0 ? 4 : 8, block.size() - at));
    }
    rank_->call.memory().PutAll(address, block);
  }

  void Alloc(uint32_t class_id) {
    Fill(kParams, 512);
    NVOS64_PARAMETERS params{};
    params.hRoot = choices_.Below(16) == 0 ? Handle() : rank_->client;
    params.hObjectParent = Handle();
    params.hObjectNew = choices_.Below(8) == 0 ? choices_.Word() : 0;
    params.hClass = class_id;
    params.pAllocParms = choices_.Below(8) == 0 ? Value() : kParams;
    params.paramsSize = choices_.Below(8) == 0 ? choices_.Word() : 0;
    const uint32_t handle = AllocAs(params);
    if (handle != 0 && rank_->handles.size() < 200) rank_->handles.push_back(handle);
  }
  void Control() {
    const ControlRow& row = *Controls()[choices_.Below(Controls().size())];
    const uint32_t size = row.versions.For(abi_).size;
    Fill(kParams, size == kAbsentControl ? 64 : size);
    if (choices_.Below(2) == 0) Fill(kMore, 256);
    NVOS54_PARAMETERS block{};
    block.hClient = choices_.Below(16) == 0 ? Handle() : rank_->client;
    block.hObject = Handle();
    block.cmd = choices_.Below(64) == 0 ? choices_.Word() : row.command;
    block.params = choices_.Below(32) == 0 ? Value() : kParams;
    block.paramsSize = choices_.Below(32) == 0 ? choices_.Word() : size;
    rank_->call.memory().Put(kBlock, block);
    Ioctl(3, Command(NV_ESC_RM_CONTROL, sizeof block));
  }
  void Escape() {
    static constexpr uint32_t kSizes[] = {4,  8,  12, 16, 20, 24,  28,  32,  40,  48,
                                          56, 64, 72, 80, 96, 128, 184, 192, 264, 512};
    const uint32_t number = Escapes()[choices_.Below(Escapes().size())];
    const uint32_t size = choices_.Below(8) == 0 ? static_cast<uint32_t>(choices_.Below(4096))
                                                 : kSizes[choices_.Below(std::size(kSizes))];
    Fill(kBlock, size);
    Fill(kParams, 512);
    // Most begin with a client and an object.
    const uint32_t words[] = {rank_->client, Handle(), Handle()};
    if (choices_.Below(4) != 0) rank_->call.memory().Put(kBlock, words);
    Ioctl(static_cast<int>(3 + choices_.Below(4)), Command(number, size));
  }
  void Uvm() {
    const uint32_t command =
        choices_.Below(32) == 0 ? choices_.Word() : UvmCalls()[choices_.Below(UvmCalls().size())];
    Fill(kBlock, 1 << 12);
    // Many begin with a base and a length, or with a GPU.
    if (choices_.Below(2) == 0) {
      rank_->call.memory().Put(kBlock, kVa + choices_.Below(1 << 12) * 65536);
      rank_->call.memory().Put(kBlock + 8, (1 + choices_.Below(64)) * 65536);
    } else {
      const auto& gpus = fake_.machine.gpus;
      rank_->call.memory().Put(kBlock, gpus[choices_.Below(gpus.size())].uuid);
    }
    for (const uint64_t at : {uint64_t{16}, 16 + choices_.Below(64) * 4}) {
      rank_->call.memory().Put(kBlock + at, std::array<uint32_t, 2>{rank_->client, Handle()});
    }
    Ioctl(4, command);
  }
  void Mmap() {
    const auto device = rank_->call.DeviceAt(static_cast<int>(choices_.Below(8)));
    if (device == nullptr) return;
    device->Mmap(rank_->call, {.address = Value(),
                               .length = Value(),
                               .protection = choices_.Below(8),
                               .flags = choices_.Below(64),
                               .offset = Value()});
  }

  // --- What ranks write to memory, and what GPUs do with it ---

  // The memory behind one of the rank's handles.
  std::shared_ptr<MemoryObject> Memory() {
    RmClient* const client = fake_.rm.server.FindFor(rank_->call.process(), rank_->client);
    RmObject* const object = client == nullptr ? nullptr : client->Find(Handle());
    if (object == nullptr) return nullptr;
    const auto resource = object->As<MemoryResource>();
    return resource == nullptr ? nullptr : resource->memory;
  }
  void Poke() {
    const auto memory = Memory();
    if (memory == nullptr) return;
    std::vector<uint32_t> words;
    const uint64_t count = 1 + choices_.Below(8);
    const bool methods = choices_.Below(2) == 0;
    for (uint64_t i = 0; i < count; ++i) {
      if (methods) {
        words.push_back(kSecOpIncMethod << 29 | 1U << 16 |
                        static_cast<uint32_t>(choices_.Below(8)) << 13 |
                        static_cast<uint32_t>(choices_.Below(0x1000)));
      }
      words.push_back(static_cast<uint32_t>(Value()));
    }
    const uint64_t offset = choices_.Below(4) == 0 ? kUserdGpPut : choices_.Below(4096) * 4;
    memory->Write(offset, words.data(), words.size() * 4);
  }
  void Work() {
    const pid_t process = rank_->call.process();
    if (!fake_.scheduler.simulated()) {
      for (int i = 0; i < 4; ++i) fake_.scheduler.Round();
      return;
    }
    now_ = now_ + VirtualSpan::Microseconds(static_cast<int64_t>(choices_.Below(100)));
    if (timelines_.HasSubmitted(process)) {
      timelines_.Submit(process, now_, now_, VirtualSpan::Microseconds(1));
    }
    timelines_.QueuesOf(process);
    for (int i = 0; i < 4; ++i) timelines_.Advance(process, now_, choices_.Below(2) == 0);
    timelines_.NextEvent(process);
  }
  void Die() {
    const pid_t process = rank_->call.process();
    rank_->call.devices.clear();
    fake_.rm.ProcessDied(process);
    timelines_.ProcessDied(process);
    rank_->handles.clear();
    rank_->client = 0;
  }

  Choices& choices_;
  const DriverAbi abi_;
  InternalKernels internal_kernels_;
  FakeMachine fake_;
  GpuTimelines timelines_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  Rank* rank_ = nullptr;
  VirtualTime now_ = VirtualTime::FromNanoseconds(1'000'000'000);
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
