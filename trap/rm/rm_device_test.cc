#include "trap/rm/rm_device.h"

#include <gtest/gtest.h>
#include <linux/ioctl.h>

#include <cerrno>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "trap/abi/generated/escapes.h"
#include "trap/abi/generated/nv_status.h"
#include "trap/abi/generated/rm_classes.h"
#include "trap/abi/generated/rm_controls.h"
#include "trap/rm/control_exports.h"
#include "trap/rm/fake_machine.h"
#include "trap/rm/fixed_answers.h"
#include "trap/rm/refused_classes.h"
#include "trap/rm/rm_control.h"
#include "trap/rm/share_list.h"

namespace phantora {
namespace {

using namespace abi;  // NOLINT: NVIDIA's names

constexpr pid_t kProcess = 100, kOther = 101;
// Where the process has the block of an escape, the parameters in it, and more that those name.
constexpr uint64_t kBlock = 0x10000, kParams = 0x100000, kMore = 0x400000;
constexpr uint64_t kBytes = 1 << 20;  // of the latter two

uint32_t Command(uint32_t number, uint32_t size) {
  return _IOC(_IOC_READ | _IOC_WRITE, 'F', number, size);
}

class RmDeviceTest : public testing::TestWithParam<std::tuple<const char*, DriverAbi>> {
 protected:
  RmDeviceTest() : fake_(std::get<0>(GetParam()), abi()) {
    call_.memory().PutAll(kBlock, std::vector<uint8_t>(1 << 12));
    call_.memory().PutAll(kParams, std::vector<uint8_t>(kBytes));
    call_.memory().PutAll(kMore, std::vector<uint8_t>(kBytes));
  }
  DriverAbi abi() const { return std::get<1>(GetParam()); }

  int Escape(RmDevice& device, uint32_t number, uint32_t size) {
    return device.Ioctl(call_, Command(number, size), RemoteAddress{kBlock});
  }
  template <typename Params>
  Params Do(uint32_t number, Params params) {
    call_.memory().Put(kBlock, params);
    EXPECT_EQ(Escape(*device_, number, sizeof params), 0);
    return call_.memory().Get<Params>(kBlock);
  }
  // The object's handle, or 0.
  uint32_t Alloc(uint32_t parent, uint32_t class_id, uint32_t params_size = 0,
                 uint32_t* status = nullptr) {
    NVOS64_PARAMETERS params{};
    params.hRoot = client_;
    params.hObjectParent = parent;
    params.hClass = class_id;
    params.pAllocParms = class_id == NV01_ROOT ? 0 : kParams;
    params.paramsSize = params_size;
    params = Do(NV_ESC_RM_ALLOC, params);
    if (status != nullptr) *status = params.status;
    return params.status == NV_OK ? params.hObjectNew : 0;
  }
  uint32_t Control(uint32_t object, uint32_t command, uint32_t size, uint64_t params = kParams) {
    NVOS54_PARAMETERS block{};
    block.hClient = client_;
    block.hObject = object;
    block.cmd = command;
    block.params = params;
    block.paramsSize = size;
    return Do(NV_ESC_RM_CONTROL, block).status;
  }
  void Clear() { call_.memory().Put(kParams, std::array<uint8_t, 4096>{}); }
  uint32_t Memory(uint64_t bytes) {
    NV_MEMORY_ALLOCATION_PARAMS params{};
    params.size = bytes;
    Clear();
    call_.memory().Put(kParams, params);
    return Alloc(gpu_, NV01_MEMORY_LOCAL_USER);
  }
  void Open() {
    client_ = 0;
    client_ = Alloc(0, NV01_ROOT);
    Clear();
    gpu_ = Alloc(client_, NV01_DEVICE_0);
    ASSERT_NE(gpu_, 0u);
  }
  uint32_t SizeOf(const ControlRow& row) const { return row.versions.For(abi()).size; }

  FakeMachine fake_;
  FakeCall call_{kProcess};
  std::shared_ptr<RmDevice> device_ =
      std::make_shared<RmDevice>(&fake_.rm, RmDevice::kControlMinor);
  uint32_t client_ = 0, gpu_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Machines, RmDeviceTest,
                         testing::Combine(testing::Values("a100-sxm4-80gb", "h100-sxm5-80gb"),
                                          testing::ValuesIn(kDriverAbis)));

// --- Escapes ---

TEST_P(RmDeviceTest, UnknownEscapesAreRefusedAndCounted) {
  int known = 0;
  for (uint32_t number = 0; number < 256; ++number) {
    if (RmDevice::Knows(number)) {
      ++known;
      continue;
    }
    EXPECT_EQ(Escape(*device_, number, 16), -EINVAL) << number;
  }
  EXPECT_GT(known, 20);
  EXPECT_TRUE(absl::StrContains(fake_.unknowns.Report(), "escape 0x2c: 1 times"));
  EXPECT_EQ(device_->Ioctl(call_, _IOC(_IOC_READ, 'G', 0x2a, 16), RemoteAddress{kBlock}), -EINVAL);
}

TEST_P(RmDeviceTest, BlocksOfAnotherSizeAreRefusedAndOthersMustBeThere) {
  // What takes any size says itself what it can use.
  const std::set<uint32_t> any = {NV_ESC_CARD_INFO, NV_ESC_ATTACH_GPUS_TO_FD};
  for (uint32_t number = 0; number < 256; ++number) {
    if (!RmDevice::Knows(number)) continue;
    int accepted = 0;
    for (uint32_t size = 0; size < 2048; ++size) {
      const int result =
          device_->Ioctl(call_, Command(number, size), RemoteAddress{0x10});  // nothing is there
      EXPECT_TRUE(result == -EFAULT || result == -EINVAL || (result == 0 && size == 0)) << number;
      accepted += result == -EFAULT ? 1 : 0;
    }
    if (number == NV_ESC_RM_ALLOC || any.contains(number) || number == NV_ESC_IOCTL_XFER_CMD) {
      EXPECT_GE(accepted, 2) << number;
    } else {
      const bool lacking = number == NV_ESC_WAIT_OPEN_COMPLETE && abi() < DriverAbi::k550;
      EXPECT_EQ(accepted, lacking ? 0 : 1) << number;
    }
  }
}

TEST_P(RmDeviceTest, AWrappedEscapeIsTheSameButNotTwice) {
  NVOS00_PARAMETERS inner{};
  inner.hRoot = 0xdead;
  call_.memory().Put(kParams, inner);
  nv_ioctl_xfer_t wrapped{};
  wrapped.cmd = NV_ESC_RM_FREE;
  wrapped.size = sizeof inner;
  wrapped.ptr = kParams;
  Do(NV_ESC_IOCTL_XFER_CMD, wrapped);
  EXPECT_EQ(call_.memory().Get<NVOS00_PARAMETERS>(kParams).status, NV_ERR_INVALID_CLIENT);
  wrapped.cmd = NV_ESC_IOCTL_XFER_CMD;
  call_.memory().Put(kBlock, wrapped);
  EXPECT_EQ(Escape(*device_, NV_ESC_IOCTL_XFER_CMD, sizeof wrapped), -EINVAL);
  wrapped.size = 1 << 30;
  call_.memory().Put(kBlock, wrapped);
  EXPECT_EQ(Escape(*device_, NV_ESC_IOCTL_XFER_CMD, sizeof wrapped), -EINVAL);
}

TEST_P(RmDeviceTest, StatusIsOfAGpuThatThereIs) {
  nv_ioctl_status_code_t params{};
  params.bus = static_cast<uint8_t>(fake_.machine.gpus[1].bus);
  params.status = 77;
  EXPECT_EQ(Do(NV_ESC_STATUS_CODE, params).status, NV_OK);
  params.bus = 0xfe;
  call_.memory().Put(kBlock, params);
  EXPECT_EQ(Escape(*device_, NV_ESC_STATUS_CODE, sizeof params), -EINVAL);
}

TEST_P(RmDeviceTest, NamesOfOthersAreNotTaken) {
  Open();
  const uint32_t memory = Memory(1 << 20);
  ASSERT_NE(memory, 0u);
  NVOS34_PARAMETERS unmap{};
  unmap.hClient = client_;
  unmap.hMemory = memory;
  EXPECT_EQ(Do(NV_ESC_RM_UNMAP_MEMORY, unmap).status, NV_OK);
  unmap.hMemory = memory + 1;
  EXPECT_EQ(Do(NV_ESC_RM_UNMAP_MEMORY, unmap).status, NV_ERR_INVALID_OBJECT_HANDLE);
  NVOS30_PARAMETERS idle{};
  idle.hClient = client_;
  EXPECT_EQ(Do(NV_ESC_RM_IDLE_CHANNELS, idle).status, NV_OK);
  NVOS56_PARAMETERS update{};
  update.hClient = client_;
  EXPECT_EQ(Do(NV_ESC_RM_UPDATE_DEVICE_MAPPING_INFO, update).status, NV_OK);

  const std::string counted = fake_.quiet.Report();
  EXPECT_TRUE(absl::StrContains(counted, "UNMAP_MEMORY (0x4f): 1 times")) << counted;
  FakeCall other(kOther);
  const auto try_all = [&] {
    for (const auto& [number, size] : {std::pair<uint32_t, uint32_t>{NV_ESC_RM_UNMAP_MEMORY, 32},
                                       {NV_ESC_RM_IDLE_CHANNELS, 56},
                                       {NV_ESC_RM_UPDATE_DEVICE_MAPPING_INFO, 40}}) {
      std::vector<uint32_t> words(size / 4);
      words[0] = client_;
      words[2] = memory;
      other.memory().PutAll(kBlock, words);
      EXPECT_EQ(device_->Ioctl(other, Command(number, size), RemoteAddress{kBlock}), 0);
      const uint64_t at = number == NV_ESC_RM_IDLE_CHANNELS  ? 48
                          : number == NV_ESC_RM_UNMAP_MEMORY ? 24
                                                             : 32;
      EXPECT_EQ(other.memory().Get<uint32_t>(kBlock + at), NV_ERR_INVALID_CLIENT) << number;
    }
  };
  try_all();
  EXPECT_EQ(fake_.quiet.Report(), counted) << "what is refused is no success";
}

TEST_P(RmDeviceTest, AClosedFileTakesItsClientsAlong) {
  Open();
  ASSERT_NE(Memory(64 << 20), 0u);
  const auto& heap = *fake_.machine.gpus[0].heap;
  EXPECT_LT(heap.free(), heap.capacity());
  device_.reset();
  EXPECT_EQ(heap.free(), heap.capacity());
  EXPECT_EQ(fake_.rm.server.FindAny(client_), nullptr);
}

// --- Classes ---

TEST_P(RmDeviceTest, ClassesNeedAParentAndTheirParameters) {
  Open();
  for (uint32_t class_id = 0; class_id < 0x10000; ++class_id) {
    if (!KnowsClass(class_id) || class_id == NV01_ROOT || class_id == NV01_ROOT_NON_PRIV ||
        class_id == NV01_ROOT_CLIENT) {
      continue;
    }
    EXPECT_EQ(FindRefusedClass(class_id), nullptr) << class_id;
    Clear();
    uint32_t status = 0;
    Alloc(0xbad, class_id, 0, &status);
    EXPECT_EQ(status, NV_ERR_OBJECT_NOT_FOUND) << class_id;
  }
  // The size that is said of the parameters counts for nothing, but is told of.
  uint32_t status = 0;
  Alloc(gpu_, FERMI_VASPACE_A, 0xfff, &status);
  EXPECT_EQ(status, NV_OK);
  EXPECT_TRUE(absl::StrContains(fake_.unknowns.Report(), "class size 0x90f1"));
}

TEST_P(RmDeviceTest, ClassesThatAreNotForAnyoneAreRefusedQuietly) {
  Open();
  uint32_t status = 0;
  Alloc(gpu_, NV01_MEMORY_LIST_FBMEM, 0, &status);
  EXPECT_EQ(status, NV_ERR_INSUFFICIENT_PERMISSIONS);
  Alloc(gpu_, AMPERE_SMC_PARTITION_REF, 0, &status);
  EXPECT_EQ(status, NV_ERR_NOT_SUPPORTED);
  Alloc(gpu_, ADA_COMPUTE_A, 0, &status);
  EXPECT_EQ(status, NV_ERR_INVALID_CLASS);
  EXPECT_EQ(fake_.unknowns.Report(), "");
  Alloc(gpu_, 0x1234, 0, &status);
  EXPECT_EQ(status, NV_ERR_INVALID_CLASS);
  EXPECT_TRUE(absl::StrContains(fake_.unknowns.Report(), "class 0x1234"));
}

// --- Virtual memory ---

TEST_P(RmDeviceTest, RangesOfAddressesDoNotOverlap) {
  Open();
  const auto reserve = [this](uint64_t size, uint32_t flags, uint64_t at, uint32_t* status) {
    NV_MEMORY_ALLOCATION_PARAMS params{};
    params.size = size;
    params.flags = flags;
    params.offset = at;
    Clear();
    call_.memory().Put(kParams, params);
    const uint32_t handle = Alloc(gpu_, NV50_MEMORY_VIRTUAL, 0, status);
    return std::pair(handle, call_.memory().Get<NV_MEMORY_ALLOCATION_PARAMS>(kParams).offset);
  };
  uint32_t status = 0;
  const auto [one, at] = reserve(1 << 20, 0, 0, &status);
  EXPECT_EQ(status, NV_OK);
  const auto [other, behind] = reserve(1 << 20, 0, 0, &status);
  EXPECT_GE(behind, at + (1 << 20));
  EXPECT_NE(one, other);
  constexpr uint32_t kFixed = NVOS32_ALLOC_FLAGS_FIXED_ADDRESS_ALLOCATE;
  reserve(4096, kFixed, at + 4096, &status);
  EXPECT_EQ(status, NV_ERR_NO_MEMORY);
  reserve(4096, kFixed, uint64_t{1} << 49, &status);
  EXPECT_EQ(status, NV_ERR_INVALID_ARGUMENT);
  reserve(~uint64_t{0}, 0, 0, &status);
  EXPECT_EQ(status, NV_ERR_INVALID_ARGUMENT);
}

TEST_P(RmDeviceTest, MemoryIsMappedWhereItIsSaidOrWhereThereIsRoom) {
  Open();
  Clear();
  NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS range{};
  call_.memory().Put(kParams, range);
  const uint32_t space = Alloc(gpu_, NV01_MEMORY_VIRTUAL);
  const uint32_t memory = Memory(1 << 20);
  NVOS46_PARAMETERS map{};
  map.hClient = client_;
  map.hDma = space;
  map.hMemory = memory;
  map.length = 1 << 20;
  if (abi() >= DriverAbi::k580) return;  // NVOS46 is another block there
  const auto first = Do(NV_ESC_RM_MAP_MEMORY_DMA, map);
  EXPECT_EQ(first.status, NV_OK);
  const auto second = Do(NV_ESC_RM_MAP_MEMORY_DMA, map);
  EXPECT_GE(second.dmaOffset, first.dmaOffset + (1 << 20));
  map.flags = NVOS46_FLAGS_DMA_OFFSET_FIXED_TRUE << NVOS46_FLAGS_DMA_OFFSET_FIXED_SHIFT;
  map.dmaOffset = uint64_t{1} << 40;
  EXPECT_EQ(Do(NV_ESC_RM_MAP_MEMORY_DMA, map).dmaOffset, map.dmaOffset);
  map.length = 1 << 21;
  EXPECT_EQ(Do(NV_ESC_RM_MAP_MEMORY_DMA, map).status, NV_ERR_INVALID_ARGUMENT);
}

// --- Controls ---

TEST_P(RmDeviceTest, EveryControlIsInOneRow) {
  std::set<uint32_t> seen;
  for (const auto& family : AllControls()) {
    for (const ControlRow& row : family) {
      EXPECT_TRUE(seen.insert(row.command).second) << row.command;
      EXPECT_EQ(FindControl(row.command), &row);
    }
  }
  EXPECT_GT(seen.size(), 150u);
}

TEST_P(RmDeviceTest, WhatSucceedsWithoutAnythingDoneSaysWhy) {
  for (const auto& family : AllControls()) {
    for (const ControlRow& row : family) {
      bool quiet = false;
      for (const DriverAbi abi : kDriverAbis) {
        const auto& version = row.versions.For(abi);
        quiet |= version.serve == ControlSucceeds || version.serve == ControlAnswersZero;
      }
      EXPECT_EQ(quiet, row.quiet != nullptr) << row.command;
    }
  }
}

TEST_P(RmDeviceTest, ControlsTakeParametersOfTheirSize) {
  Open();
  const uint32_t subdevice = Alloc(gpu_, NV20_SUBDEVICE_0);
  const std::vector<uint8_t> pattern(4096, 0x5a);
  for (const auto& family : AllControls()) {
    for (const ControlRow& row : family) {
      const uint32_t size = SizeOf(row);
      call_.memory().PutAll(kParams, pattern);
      if (size == kAbsentControl || IsExported(abi(), row.command)) continue;
      for (const uint32_t wrong : {size + 1, size - 1, size + 4096, 0u, ~0u}) {
        if (wrong == size) continue;
        EXPECT_EQ(Control(subdevice, row.command, wrong), NV_ERR_INVALID_ARGUMENT) << row.command;
      }
      EXPECT_EQ(call_.memory().Get<uint64_t>(kParams), 0x5a5a5a5a5a5a5a5a);
    }
  }
}

TEST_P(RmDeviceTest, RowsHaveTheSizesOfThePublishedDriver) {
  std::map<std::pair<uint32_t, RmInternalClass>, ControlExport> exports;
  for (const ControlExport& row : AllExports()) {
    if (row.since <= static_cast<int>(abi())) exports[{row.command, row.exporter}] = row;
  }
  int compared = 0;
  for (const auto& [key, row] : exports) {
    const ControlRow* served = FindControl(row.command);
    if (served == nullptr) continue;
    SCOPED_TRACE(absl::StrFormat("0x%x", row.command));
    EXPECT_EQ(FindFixedAnswer(row.command), nullptr);
    if (row.access != ControlAccess::kAnyone || SizeOf(*served) == kAbsentControl) continue;
    EXPECT_EQ(SizeOf(*served), row.size);
    ++compared;
  }
  EXPECT_GT(compared, 150);
}

// In this order: its size, if the class in its number exports it; its parameters; the object, the
// object's class, its size, and who may.
TEST_P(RmDeviceTest, ControlsAreCheckedAsTheDriverDoes) {
  Open();
  const uint32_t subdevice = Alloc(gpu_, NV20_SUBDEVICE_0);
  const std::map<RmInternalClass, uint32_t> objects = {
      {RmInternalClass::kRmClientResource, client_},
      {RmInternalClass::kDevice, gpu_},
      {RmInternalClass::kSubdevice, subdevice}};
  // The newest row of each that this interface has.
  std::map<std::pair<uint32_t, RmInternalClass>, ControlExport> exports;
  for (const ControlExport& row : AllExports()) {
    if (row.since > static_cast<int>(abi()) || !objects.contains(row.exporter)) continue;
    exports[{row.command, row.exporter}] = row;
  }
  EXPECT_GT(exports.size(), 500u);
  for (const auto& [key, row] : exports) {
    SCOPED_TRACE(absl::StrFormat("0x%x", row.command));
    const uint32_t object = objects.at(row.exporter);
    const uint32_t other = object == client_ ? subdevice : client_;
    const uint64_t params = row.size == 0 ? 0 : kParams;
    Clear();
    if (row.access == ControlAccess::kNobody) {
      EXPECT_TRUE(FindControl(row.command) != nullptr ||
                  Control(object, row.command, 16) == NV_ERR_NOT_SUPPORTED);
      continue;
    }
    if (row.size != 0) {
      EXPECT_EQ(Control(object, row.command, row.size + 4),
                row.size_first ? NV_ERR_INVALID_ARGUMENT : NV_ERR_INVALID_PARAM_STRUCT);
      EXPECT_EQ(Control(object, row.command, row.size, 0), NV_ERR_INVALID_ARGUMENT);
      EXPECT_EQ(Control(object, row.command, row.size, kMore + kBytes - row.size + 1),
                NV_ERR_INVALID_ADDRESS);
    } else if (row.size_first) {
      EXPECT_EQ(Control(object, row.command, 4), NV_ERR_INVALID_ARGUMENT);
    }
    EXPECT_EQ(Control(0xbad, row.command, row.size, params), NV_ERR_OBJECT_NOT_FOUND);
    EXPECT_EQ(Control(other, row.command, row.size, params), NV_ERR_NOT_SUPPORTED);
    const uint32_t status = Control(object, row.command, row.size, params);
    if (row.access == ControlAccess::kInternal) {
      EXPECT_EQ(status, NV_ERR_NOT_SUPPORTED);
    } else if (row.access != ControlAccess::kAnyone || (row.rights & kNiceRight) != 0) {
      EXPECT_EQ(status, NV_ERR_INSUFFICIENT_PERMISSIONS);
    } else {
      const FixedAnswer* fixed = FindFixedAnswer(row.command);
      EXPECT_TRUE(fixed != nullptr ? status == fixed->status
                                   : status != NV_ERR_INSUFFICIENT_PERMISSIONS);
      EXPECT_NE(status, NV_ERR_INVALID_PARAM_STRUCT);
    }
  }
}

TEST_P(RmDeviceTest, AControlThatIsNoneSucceeds) {
  Open();
  for (const uint32_t command : {0u, 0x00800000u, 0x20800000u}) {
    EXPECT_EQ(Control(gpu_, command, 0, 0), NV_OK);
  }
}

TEST_P(RmDeviceTest, QuietSuccessesAreCounted) {
  Open();
  const uint32_t size = sizeof(NV2080_CTRL_GPU_GET_RESET_STATUS_PARAMS);
  const uint32_t subdevice = Alloc(gpu_, NV20_SUBDEVICE_0);
  call_.memory().PutAll(kParams, std::vector<uint8_t>(size, 0xff));
  EXPECT_EQ(Control(subdevice, NV2080_CTRL_CMD_GPU_GET_RESET_STATUS, size), NV_OK);
  EXPECT_EQ(call_.memory().Get<uint8_t>(kParams), 0);
  EXPECT_TRUE(absl::StrContains(fake_.quiet.Report(), "GPU_GET_RESET_STATUS (0x"));
  EXPECT_TRUE(absl::StrContains(fake_.quiet.Report(), "1 times; no reset is due"));
}

// A process may send any bytes to any object: there is an answer, and the machine goes on.
TEST_P(RmDeviceTest, RandomCallsAreAnswered) {
  std::mt19937_64 random(11);
  std::vector<const ControlRow*> rows;
  for (const auto& family : AllControls()) {
    for (const ControlRow& row : family) rows.push_back(&row);
  }
  std::vector<uint32_t> escapes;
  for (uint32_t number = 0; number < 256; ++number) {
    if (RmDevice::Knows(number) && number != NV_ESC_IOCTL_XFER_CMD) escapes.push_back(number);
  }
  Open();
  std::vector<uint32_t> objects = {client_, gpu_, Alloc(gpu_, NV20_SUBDEVICE_0), Memory(1 << 20)};
  Clear();
  objects.push_back(Alloc(gpu_, FERMI_VASPACE_A));
  const auto word = [&]() -> uint64_t {
    const uint64_t edges[] = {0, 1, 2, 0xffffffff, ~uint64_t{0}, kParams, kMore, 1 << 12, 1 << 30};
    switch (random() % 4) {
      case 0:
        return random();
      case 1:
        return objects[random() % objects.size()];
      default:
        return edges[random() % std::size(edges)];
    }
  };
  for (int step = 0; step < 20'000; ++step) {
    for (uint64_t at = 0; at < 512; at += 8) call_.memory().Put(kParams + at, word());
    if (random() % 2 == 0) {
      const ControlRow& row = *rows[random() % rows.size()];
      const uint32_t size = SizeOf(row);
      if (size != kAbsentControl) Control(objects[random() % objects.size()], row.command, size);
      continue;
    }
    for (uint64_t at = 0; at < 256; at += 4) {
      call_.memory().Put(kBlock + at, static_cast<uint32_t>(word()));
    }
    const uint32_t number = escapes[random() % escapes.size()];
    for (uint32_t size = 0; size < 256; size += 4) {
      if (Escape(*device_, number, size) == 0 && size > 0) break;
    }
    if (random() % 64 == 0) {  // they free it all
      Open();
      objects = {client_, gpu_, Alloc(gpu_, NV20_SUBDEVICE_0), Memory(1 << 20)};
    }
  }
  device_.reset();
  for (const Gpu& gpu : fake_.machine.gpus) EXPECT_EQ(gpu.heap->free(), gpu.heap->capacity());
}

}  // namespace
}  // namespace phantora
