// From streams to recordings: names, masks, and streams that are damaged.
#include "tools/record/normaliser.h"

#include <gtest/gtest.h>

#include <random>

#include "tools/record/masks.h"
#include "tools/record/stream_for_test.h"
#include "trap/abi/generated/escapes.h"
#include "trap/abi/generated/nv_status.h"
#include "trap/abi/generated/rm_controls.h"
#include "trap/abi/generated/uvm_ioctl.h"

namespace phantora::record {
namespace {

constexpr char kControlDevice[] = "/dev/nvidiactl";
constexpr uint64_t kEscapeRequest = 0xc0000000 | 'F' << 8;
constexpr uint64_t kStack = 0x7ffd12345678, kMapped = 0x7e0012340000;

Recording NormaliseStream(const StreamForTest& stream) {
  auto processes = ReadStream(stream.bytes, 100);
  EXPECT_TRUE(processes.ok()) << processes.status();
  return processes.ok() ? Normalise(*processes) : Recording();
}

// A control with parameters before and after.
template <typename T>
std::vector<StreamForTest::Block> Control(uint32_t command, const T& in, const T& out,
                                          uint32_t status = abi::NV_OK,
                                          uint32_t client = 0xc1d00001,
                                          uint32_t object = 0x5c000002) {
  abi::NVOS54_PARAMETERS around = {};
  around.hClient = client;
  around.hObject = object;
  around.cmd = command;
  around.params = kStack;
  around.paramsSize = sizeof in;
  auto after = around;
  after.status = status;
  return {{BytesOf(around), BytesOf(after)}, {BytesOf(in), BytesOf(out)}};
}

std::string ValueOf(const std::vector<Parameter>& list, const std::string& name) {
  for (const Parameter& parameter : list) {
    if (parameter.name == name) return parameter.value;
  }
  return "none";
}

TEST(NormaliserTest, NamesControlsTheirMembersAndStatus) {
  abi::NV2080_CTRL_GR_GET_TPC_MASK_PARAMS in = {}, out = {};
  in.gpcId = out.gpcId = 3;
  out.tpcMask = 0x1ff;
  StreamForTest stream;
  stream.AddIoctl(kControlDevice, kEscapeRequest, abi::NV_ESC_RM_CONTROL,
                  Control(abi::NV2080_CTRL_CMD_GR_GET_TPC_MASK, in, out));
  const Recording recording = NormaliseStream(stream);
  ASSERT_EQ(recording.calls.size(), 1u);
  const RecordedCall& call = recording.calls[0];
  EXPECT_EQ(call.kind, "control");
  EXPECT_EQ(call.name, "NV2080_CTRL_CMD_GR_GET_TPC_MASK");
  EXPECT_EQ(call.bytes, sizeof in);
  EXPECT_EQ(call.result, "NV_OK");
  EXPECT_EQ(ValueOf(call.in, "rm.hClient"), "handle#1");
  EXPECT_EQ(ValueOf(call.in, "rm.hObject"), "handle#2");
  EXPECT_EQ(ValueOf(call.in, "gpcId"), "3");
  ASSERT_EQ(call.out.size(), 1u);
  EXPECT_EQ(call.out[0], (Parameter{"tpcMask", "0x1ff"}));
}

TEST(NormaliserTest, RawWordsWhereNoLayoutIsKnown) {
  struct Unknown {
    uint32_t number, handle;
    uint64_t pointer, size;
    char text[12];
    uint32_t rest;
  };
  Unknown in = {7, 0x5c000002, kMapped, 80ull << 30, "", 0};
  Unknown out = in;
  std::strcpy(out.text, "GH100-ABCDE");
  out.rest = 0x10;
  StreamForTest stream;
  stream.AddIoctl(kControlDevice, kEscapeRequest, abi::NV_ESC_RM_CONTROL,
                  Control(0x2080ffee, in, out, abi::NV_ERR_NOT_SUPPORTED));
  const Recording recording = NormaliseStream(stream);
  ASSERT_EQ(recording.calls.size(), 1u);
  const RecordedCall& call = recording.calls[0];
  EXPECT_EQ(call.name, "0x2080ffee");
  EXPECT_EQ(call.result, "NV_ERR_NOT_SUPPORTED");
  EXPECT_EQ(ValueOf(call.in, "+0x0"), "7");
  EXPECT_EQ(ValueOf(call.in, "+0x4"), "handle#2");
  EXPECT_EQ(ValueOf(call.in, "+0x8"), "ptr");
  EXPECT_EQ(ValueOf(call.in, "+0x14"), "0x14");  // a size is none
  EXPECT_EQ(call.out, (std::vector<Parameter>{{"+0x18", "\"GH100-ABCDE\""}, {"+0x24", "0x10"}}));
}

TEST(NormaliserTest, TheSameGpuHasOneNameAsBytesAndAsText) {
  StreamForTest stream;
  abi::NV2080_CTRL_GPU_GET_GID_INFO_PARAMS in = {}, bytes = {}, text = {};
  for (int i = 0; i < 16; ++i) bytes.data[i] = static_cast<uint8_t>(0xa0 + i);
  bytes.length = 16;
  std::strcpy(reinterpret_cast<char*>(text.data), "GPU-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadaeaf");
  stream.AddIoctl(kControlDevice, kEscapeRequest, abi::NV_ESC_RM_CONTROL,
                  Control(abi::NV2080_CTRL_CMD_GPU_GET_GID_INFO, in, bytes));
  stream.AddIoctl(kControlDevice, kEscapeRequest, abi::NV_ESC_RM_CONTROL,
                  Control(abi::NV2080_CTRL_CMD_GPU_GET_GID_INFO, in, text));
  abi::UVM_REGISTER_GPU_PARAMS gpu = {};
  std::memcpy(&gpu.gpu_uuid, bytes.data, 16);
  stream.AddIoctl("/dev/nvidia-uvm", abi::UVM_REGISTER_GPU, abi::UVM_REGISTER_GPU,
                  {{BytesOf(gpu), BytesOf(gpu)}});
  const Recording recording = NormaliseStream(stream);
  ASSERT_EQ(recording.calls.size(), 3u);
  EXPECT_EQ(ValueOf(recording.calls[0].out, "data"), "gpu-uuid#1");
  EXPECT_EQ(ValueOf(recording.calls[1].out, "data"), "\"gpu-uuid#1\"");
  EXPECT_EQ(recording.calls[2].name, "UVM_REGISTER_GPU");
  EXPECT_EQ(ValueOf(recording.calls[2].in, "gpu_uuid.uuid"), "gpu-uuid#1");
}

TEST(NormaliserTest, ListsOfQuestionsAndAnswers) {
  abi::NV2080_CTRL_GR_GET_INFO_PARAMS params = {};
  params.grInfoListSize = 2;
  params.grInfoList = kStack;
  auto blocks = Control(abi::NV2080_CTRL_CMD_GR_GET_INFO, params, params);
  struct Entry {
    uint32_t index, data;
  };
  const Entry asked[2] = {{abi::NV0080_CTRL_GR_INFO_INDEX_SM_VERSION, 0}, {0x7777, 5}};
  const Entry answered[2] = {{abi::NV0080_CTRL_GR_INFO_INDEX_SM_VERSION, 0x900}, {0x7777, 0}};
  blocks.push_back({BytesOf(asked), BytesOf(answered)});
  StreamForTest stream;
  stream.AddIoctl(kControlDevice, kEscapeRequest, abi::NV_ESC_RM_CONTROL, blocks);
  const Recording recording = NormaliseStream(stream);
  ASSERT_EQ(recording.calls.size(), 1u);
  EXPECT_EQ(ValueOf(recording.calls[0].in, "*grInfoList"), "[SM_VERSION,0x7777]");
  EXPECT_EQ(recording.calls[0].out, (std::vector<Parameter>{{"grInfoList[SM_VERSION]", "2304"},
                                                            {"grInfoList[0x7777]", "0"}}));
}

TEST(NormaliserTest, ErrnoUnfinishedCallsAndThreads) {
  StreamForTest stream;
  abi::NVOS00_PARAMETERS free = {};
  stream.AddIoctl(kControlDevice, kEscapeRequest, abi::NV_ESC_RM_FREE,
                  {{BytesOf(free), BytesOf(free)}}, -1, EINVAL);
  stream.AddIoctl(kControlDevice, kEscapeRequest, 0xee, {{"12345", "12345"}}, 0, 0, /*thread=*/2);
  stream.Add(RecordKind::kIoctl, 9, {kEscapeRequest, 3, abi::NV_ESC_RM_FREE, 16}, kControlDevice);
  const Recording recording = NormaliseStream(stream);
  ASSERT_EQ(recording.calls.size(), 3u);
  EXPECT_EQ(recording.calls[0].result, "EINVAL");
  EXPECT_EQ(recording.calls[1].name, "0xee");
  EXPECT_EQ(recording.calls[1].result, "ok");
  EXPECT_EQ(recording.calls[1].thread, 2);
  EXPECT_EQ(recording.calls[2].result, "unfinished");
}

TEST(NormaliserTest, UvmBlocksEndWhereTheDriversVersionEndsThem) {
  StreamForTest stream;
  abi::nv_ioctl_rm_api_version_t version = {}, reply = {};
  std::strcpy(reply.versionString, "535.261.03");
  stream.AddIoctl(kControlDevice, kEscapeRequest, abi::NV_ESC_CHECK_VERSION_STR,
                  {{BytesOf(version), BytesOf(reply)}});
  // As much as any version has; the 535 structure is shorter.
  const std::string copied(sizeof(abi::UVM_MAP_EXTERNAL_ALLOCATION_PARAMS_V550), '\1');
  stream.AddIoctl("/dev/nvidia-uvm", abi::UVM_MAP_EXTERNAL_ALLOCATION,
                  abi::UVM_MAP_EXTERNAL_ALLOCATION, {{copied, copied}});
  const Recording recording = NormaliseStream(stream);
  EXPECT_EQ(recording.driver, "535.261.03");
  ASSERT_EQ(recording.calls.size(), 2u);
  EXPECT_EQ(recording.calls[1].bytes, sizeof(abi::UVM_MAP_EXTERNAL_ALLOCATION_PARAMS));
  EXPECT_EQ(recording.calls[1].result, "0x1010101");
}

TEST(NormaliserTest, ProcessesWithTheSameNumber) {
  StreamForTest stream;
  for (const uint64_t start : {10, 20}) {
    stream.Add(RecordKind::kProcess, 0, {1, start}, "/bin/program");
    stream.Add(RecordKind::kOpen, 1, {0, 0}, kControlDevice);
  }
  stream.Add(RecordKind::kProcess, 0, {1, 20}, "/bin/other");  // exec
  stream.Add(RecordKind::kOpen, 1, {0, ENOENT}, kControlDevice);
  const Recording recording = NormaliseStream(stream);
  EXPECT_EQ(recording.programs,
            (std::vector<std::string>{"/bin/program", "/bin/program, then /bin/other"}));
  ASSERT_EQ(recording.calls.size(), 3u);
  EXPECT_EQ(recording.calls[1].process, 2);
  EXPECT_EQ(recording.calls[2].result, "ENOENT");
}

TEST(StreamTest, DamageIsAnErrorOrAShorterRecording) {
  StreamForTest stream;
  stream.Add(RecordKind::kProcess, 0, {1, 10}, "/bin/program");
  abi::NV2080_CTRL_GR_GET_TPC_MASK_PARAMS params = {};
  stream.AddIoctl(kControlDevice, kEscapeRequest, abi::NV_ESC_RM_CONTROL,
                  Control(abi::NV2080_CTRL_CMD_GR_GET_TPC_MASK, params, params));
  for (size_t size = 0; size < stream.bytes.size(); ++size) {
    const auto cut = ReadStream(absl::string_view(stream.bytes).substr(0, size), 1);
    ASSERT_TRUE(cut.ok()) << size;  // a writer that died
    EXPECT_LE(Normalise(*cut).calls.size(), 1u);
  }
  std::mt19937 random(1);
  int errors = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = stream.bytes;
    for (int i = 0; i < 3; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
    const auto read = ReadStream(bytes, 1);
    errors += !read.ok();
    if (read.ok()) FormatRecording(Normalise(*read));
  }
  EXPECT_GT(errors, 100);
}

TEST(MasksTest, AddressesAndMembers) {
  EXPECT_TRUE(LooksLikeAddress(0x555555554000));
  EXPECT_TRUE(LooksLikeAddress(kStack));
  EXPECT_FALSE(LooksLikeAddress(0x7fffffffffff));
  EXPECT_FALSE(LooksLikeAddress(uint64_t{80} << 30));
  EXPECT_FALSE(LooksLikeAddress(0x200000000));
  EXPECT_EQ(MaskOf("hMemory"), MemberMask::kHandle);
  EXPECT_EQ(MaskOf("hClass"), MemberMask::kNone);
  EXPECT_EQ(MaskOf("height"), MemberMask::kNone);
  EXPECT_EQ(MaskOf("gpuIds"), MemberMask::kGpuId);
  EXPECT_EQ(MaskOf("timeStamp"), MemberMask::kTime);
}

}  // namespace
}  // namespace phantora::record
