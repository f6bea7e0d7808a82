// Driver 580: every control that its libraries make, as recorded on an H100, and the answers that
// differ from older drivers'.
#include <gtest/gtest.h>
#include <linux/ioctl.h>

#include <array>
#include <memory>
#include <vector>

#include "trap/abi/generated/escapes.h"
#include "trap/abi/generated/nv_status.h"
#include "trap/abi/generated/rm_classes.h"
#include "trap/abi/generated/rm_controls.h"
#include "trap/rm/fake_machine.h"
#include "trap/rm/rm_control.h"
#include "trap/rm/rm_device.h"
#include "trap/rm/rm_resources.h"

namespace phantora {
namespace {

using namespace abi;  // NOLINT: NVIDIA's names

constexpr pid_t kProcess = 100;
constexpr uint64_t kBlock = 0x10000, kParams = 0x100000, kBytes = 1 << 17;

struct Recorded {
  uint32_t command, bytes;
};
// Of libcuda, and of NVML in a process that trains: contexts, launches, graphs, memory of all
// kinds.
constexpr Recorded kCuda[] = {
    {0x101, 40},        {0x13a, 1352},       {0x1f0, 4},        {0x201, 128},
    {0x202, 40},        {0x205, 32},         {0x214, 384},      {0x215, 132},
    {0x21b, 12},        {0x279, 12},         {0x27b, 4},        {0x288, 3076},
    {0x289, 4},         {0xa04, 2244},       {0xd01, 12},       {0xd04, 12},
    {0x800280, 4},      {0x800289, 8},       {0x800292, 804},   {0x801307, 3},
    {0x801402, 3},      {0x80170d, 24},      {0x801909, 1},     {0x900107, 8},
    {0x20800102, 564},  {0x20800110, 132},   {0x20800111, 64},  {0x20800119, 4},
    {0x2080012f, 1464}, {0x20800131, 4},     {0x20800145, 0},   {0x20800146, 0},
    {0x2080014a, 268},  {0x20800170, 340},   {0x20800195, 260}, {0x208001a3, 56},
    {0x20800406, 264},  {0x20801201, 32},    {0x20801210, 32},  {0x20801218, 16},
    {0x2080121b, 9240}, {0x20801227, 48},    {0x2080122a, 24},  {0x2080122b, 24},
    {0x20801230, 32},   {0x20801303, 1028},  {0x20801701, 16},  {0x20801801, 16},
    {0x20801803, 200},  {0x20801823, 420},   {0x2080182a, 112}, {0x2080182b, 28},
    {0x2080200a, 8},    {0x20802209, 4},     {0x2080220c, 0},   {0x20802210, 0},
    {0x20802a0a, 136},  {0x20803002, 13344}, {0x20803601, 72},  {0x20803801, 1928},
    {0x20808159, 332},  {0x20808162, 1},     {0x20809001, 8},   {0x20809009, 8},
    {0x20809038, 4},    {0x20809064, 520},   {0x2080a026, 532}, {0x2080a084, 4},
    {0x20810108, 992},  {0x503c0102, 16},    {0x503c0104, 32},  {0x503c0105, 4},
    {0x83de0309, 4},    {0x83de030c, 4824},  {0x83de0310, 8},   {0x906f0101, 16},
    {0x906f0102, 16},   {0x90e60102, 8},     {0xa06c0101, 3},   {0xa06c0103, 8},
    {0xa06c0105, 8},    {0xc36f0108, 4},     {0xcb330101, 6},
};
// Of nvidia-smi only.
constexpr Recorded kNvidiaSmi[] = {
    {0x216, 128},        {0xb02, 12},         {0x800288, 4},       {0xde0001, 8},
    {0x20800133, 8},     {0x2080013f, 136},   {0x2080014b, 5},     {0x20800156, 16},
    {0x20800157, 0},     {0x2080016d, 12},    {0x2080017b, 12},    {0x2080018d, 3812},
    {0x208001a4, 16},    {0x208001b2, 4},     {0x20800802, 16},    {0x20801322, 2056},
    {0x20801357, 4},     {0x20801802, 16},    {0x20801813, 76},    {0x20801819, 32},
    {0x20801829, 12},    {0x20801830, 4},     {0x20803083, 39},    {0x20803404, 2},
    {0x20803406, 1},     {0x2080852a, 1784},  {0x2080852b, 2836},  {0x2080852e, 528},
    {0x2080852f, 776},   {0x20808536, 1812},  {0x2080853a, 1456},  {0x20808542, 504},
    {0x20808546, 24},    {0x20809019, 10800}, {0x2080a060, 28},    {0x2080a06e, 1},
    {0x2080a06f, 4},     {0x2080a080, 52},    {0x2080a0a4, 67396}, {0x2080a0a6, 34720},
    {0x2080a0a7, 14988}, {0x2080a0a8, 19724}, {0x2080a0f2, 96},    {0x2080a612, 11680},
    {0x2080a618, 8620},  {0x2080a63c, 28},    {0x20810110, 1},     {0x20810111, 4},
    {0x208f1105, 8},     {0x90e70113, 16},
};

class Driver580Test : public testing::Test {
 protected:
  Driver580Test() {
    call_.memory().PutAll(kBlock, std::vector<uint8_t>(1 << 12));
    call_.memory().PutAll(kParams, std::vector<uint8_t>(kBytes));
    client_ = Alloc(0, NV01_ROOT);
    gpu_ = Alloc(client_, NV01_DEVICE_0);
    subdevice_ = Alloc(gpu_, NV20_SUBDEVICE_0);
  }

  template <typename Params>
  Params Do(uint32_t number, const Params& params) {
    call_.memory().Put(kBlock, params);
    const uint32_t command = _IOC(_IOC_READ | _IOC_WRITE, 'F', number, sizeof params);
    EXPECT_EQ(device_->Ioctl(call_, command, RemoteAddress{kBlock}), 0);
    return call_.memory().Get<Params>(kBlock);
  }
  uint32_t Alloc(uint32_t parent, uint32_t class_id) {
    NVOS64_PARAMETERS params{};
    params.hRoot = client_;
    params.hObjectParent = parent;
    params.hClass = class_id;
    params.pAllocParms = class_id == NV01_ROOT ? 0 : kParams;
    params = Do(NV_ESC_RM_ALLOC, params);
    EXPECT_EQ(params.status, NV_OK) << class_id;
    return params.hObjectNew;
  }
  uint32_t Control(uint32_t object, uint32_t command, uint32_t bytes) {
    NVOS54_PARAMETERS block{};
    block.hClient = client_;
    block.hObject = object;
    block.cmd = command;
    block.params = kParams;
    block.paramsSize = bytes;
    return Do(NV_ESC_RM_CONTROL, block).status;
  }
  template <typename Params>
  Params Query(uint32_t object, uint32_t command, const Params& params = {}) {
    call_.memory().Put(kParams, params);
    EXPECT_EQ(Control(object, command, sizeof params), NV_OK);
    return call_.memory().Get<Params>(kParams);
  }

  FakeMachine fake_{"h100-sxm5-80gb", DriverAbi::k580};
  FakeCall call_{kProcess};
  std::shared_ptr<RmDevice> device_ =
      std::make_shared<RmDevice>(&fake_.rm, RmDevice::kControlMinor);
  uint32_t client_ = 0, gpu_ = 0, subdevice_ = 0;
};

TEST_F(Driver580Test, EveryRecordedControlIsKnownInItsSize) {
  const auto check = [](const Recorded& recorded) {
    const ControlRow* row = FindControl(recorded.command);
    ASSERT_NE(row, nullptr) << std::hex << recorded.command;
    EXPECT_EQ(row->versions.For(DriverAbi::k580).size, recorded.bytes)
        << std::hex << recorded.command;
  };
  for (const Recorded& recorded : kCuda) check(recorded);
  for (const Recorded& recorded : kNvidiaSmi) check(recorded);
}

TEST_F(Driver580Test, GpusAreListedAsProbedAndAsActive) {
  const auto probed = Query<NV0000_CTRL_GPU_GET_PROBED_IDS_PARAMS_V580>(
      client_, NV0000_CTRL_CMD_GPU_GET_PROBED_IDS);
  EXPECT_EQ(probed.gpuIds[1], fake_.machine.gpus[1].id());
  EXPECT_EQ(probed.gpuIds[2], NV0000_CTRL_GPU_INVALID_ID);
  EXPECT_EQ(probed.excludedGpuIds[0], NV0000_CTRL_GPU_INVALID_ID);
  EXPECT_EQ(probed.gpuFlags[0], 0u);
  const auto active = Query<NV0000_CTRL_GPU_GET_ACTIVE_DEVICE_IDS_PARAMS>(
      client_, NV0000_CTRL_CMD_GPU_GET_ACTIVE_DEVICE_IDS);
  ASSERT_EQ(active.numDevices, 2u);
  EXPECT_EQ(active.devices[1].gpuId, fake_.machine.gpus[1].id());
  EXPECT_EQ(active.devices[1].gpuInstanceId, NV0000_CTRL_GPU_INVALID_ID);
  EXPECT_EQ(active.devices[1].computeInstanceId, NV0000_CTRL_GPU_INVALID_ID);
}

TEST_F(Driver580Test, MemoryPartitionsAreThoseInUse) {
  NV2080_CTRL_FB_GET_INFO_V2_PARAMS_V580 asked{};
  const std::array<std::pair<uint32_t, uint32_t>, 5> expected = {
      {{NV2080_CTRL_FB_INFO_INDEX_FBP_COUNT, 10},
       {NV2080_CTRL_FB_INFO_INDEX_LTC_COUNT, 20},
       {NV2080_CTRL_FB_INFO_INDEX_LTS_COUNT, 80},
       {NV2080_CTRL_FB_INFO_INDEX_BUS_WIDTH, 5120},
       {NV2080_CTRL_FB_INFO_INDEX_NUMA_NODE_ID, ~0u}}};
  asked.fbInfoListSize = expected.size();
  for (size_t i = 0; i < expected.size(); ++i) asked.fbInfoList[i].index = expected[i].first;
  const auto answer = Query(subdevice_, NV2080_CTRL_CMD_FB_GET_INFO_V2, asked);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(answer.fbInfoList[i].data, expected[i].second) << expected[i].first;
  }
}

TEST_F(Driver580Test, MultiprocessorsSayWhichHalfAndClusterTheyAreIn) {
  const auto order = Query<NV2080_CTRL_GR_GET_GLOBAL_SM_ORDER_PARAMS_V580>(
      subdevice_, NV2080_CTRL_CMD_GR_GET_GLOBAL_SM_ORDER);
  EXPECT_EQ(order.numSm, 132);
  EXPECT_EQ(order.numTpc, 66);
  for (uint16_t sm = 0; sm < order.numSm; ++sm) {
    const auto& id = order.globalSmId[sm];
    EXPECT_EQ(id.localSmId, sm % 2);
    EXPECT_EQ(id.globalTpcId, sm / 2);
    EXPECT_EQ(id.physicalCpcId, id.localTpcId / 3);
    EXPECT_LT(id.migratableTpcId, 9);
    EXPECT_LT(id.ugpuId, 2);
  }
}

TEST_F(Driver580Test, EccCoversTheUnitsOfAnH100) {
  const auto ecc = Query<NV2080_CTRL_GPU_QUERY_ECC_STATUS_PARAMS_V565>(
      subdevice_, NV2080_CTRL_CMD_GPU_QUERY_ECC_STATUS);
  const std::array<size_t, 3> without = {2, 6, 25};
  for (const size_t unit : without) EXPECT_EQ(ecc.units[unit].enabled, 0) << unit;
  const std::array<size_t, 3> with = {0, 16, 24};
  for (const size_t unit : with) EXPECT_EQ(ecc.units[unit].enabled, 1) << unit;
}

TEST_F(Driver580Test, LinksAreInBothMasks) {
  const auto links = Query<NV2080_CTRL_CMD_NVLINK_GET_NVLINK_STATUS_PARAMS_V580>(
      subdevice_, NV2080_CTRL_CMD_NVLINK_GET_NVLINK_STATUS);
  EXPECT_EQ(links.enabledLinkMask, (1u << 18) - 1);
  EXPECT_EQ(links.enabledLinks.masks[0], links.enabledLinkMask);
  EXPECT_EQ(links.linkInfo[17].connected, 1);
  EXPECT_EQ(links.linkInfo[18].connected, 0);
}

TEST_F(Driver580Test, SomeUndocumentedControlsAreAcceptedSince) {
  const uint32_t binary = Alloc(subdevice_, NV2081_BINAPI);
  EXPECT_EQ(Control(binary, 0x20810108, 992), NV_OK);
  EXPECT_EQ(Control(subdevice_, 0x20809038, 4), NV_OK);
  EXPECT_EQ(FindControl(0x20810108)->versions.For(DriverAbi::k550).serve, ControlNotSupported);
}

TEST_F(Driver580Test, SharedDataHasWhatIsNotPolled) {
  const uint32_t handle = Alloc(subdevice_, RM_USER_SHARED_DATA);
  RmClient* client = fake_.rm.server.FindFor(kProcess, client_);
  ASSERT_NE(client, nullptr);
  NV00DE_SHARED_DATA_V580 data{};
  ASSERT_TRUE(client->Find(handle)->As<MemoryResource>()->memory->Read(0, &data, sizeof data));
  EXPECT_EQ(data.bar1MemoryInfo.bar1Size, 128u << 20);  // KiB
  // cl00de.h RUSD_SEQ_DATA_VALID.
  EXPECT_EQ(data.bar1MemoryInfo.lastModifiedTimestamp, 0xff00000000000000);
  EXPECT_EQ(data.shadowErrCont.lastModifiedTimestamp, 0xff00000000000000);
  EXPECT_EQ(data.shadowErrCont.shadowErrContVal, 0u);
  EXPECT_EQ(data.pmaMemoryInfo.lastModifiedTimestamp, 0u);
}

TEST_F(Driver580Test, AddressSpacesHaveFiftySevenBits) {
  NV_VASPACE_ALLOCATION_PARAMETERS_V580 params{};
  params.vaBase = 0x1000;
  call_.memory().Put(kParams, params);
  Alloc(gpu_, FERMI_VASPACE_A);
  EXPECT_EQ(call_.memory().Get<NV_VASPACE_ALLOCATION_PARAMETERS_V580>(kParams).vaSize,
            (uint64_t{1} << 57) - 0x1000);
}

TEST_F(Driver580Test, WhatDoesNotExistIsFreed) {
  NVOS00_PARAMETERS params{};
  params.hRoot = params.hObjectParent = client_;
  params.hObjectOld = 0x5c00ffff;
  EXPECT_EQ(Do(NV_ESC_RM_FREE, params).status, NV_OK);
}

}  // namespace
}  // namespace phantora
