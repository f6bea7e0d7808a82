// Recordings as text, what differs between them, and what they say of a GPU.
#include "tools/record/recording.h"

#include <gtest/gtest.h>

#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tools/record/known_calls.h"
#include "tools/record/recorded_personality.h"
#include "tools/record/recording_diff.h"

namespace phantora::record {
namespace {

constexpr char kSmall[] = R"(phantora-recording 1
# a comment
driver 550.163.01
process 1 /bin/program
file 1 /proc/driver/nvidia/version
| NVRM version
|  second line
call 1 /dev/nvidiactl open - 0 ok
call 1 /dev/nvidiactl control NV2080_CTRL_CMD_GPU_GET_NAME_STRING 132 NV_OK
  in rm.hClient=handle#1
  in rm.hObject=handle#2
  out gpuNameString="NVIDIA \"X\" 80GB = 1"
call 1.2 /dev/nvidia-uvm uvm UVM_FREE 24 NV_OK
  in base=ptr
end
)";

Recording Parsed(const std::string& text) {
  auto recording = ParseRecording(text);
  EXPECT_TRUE(recording.ok()) << recording.status();
  return recording.ok() ? *recording : Recording();
}

std::vector<CallDifference> Diff(const std::string& a, const std::string& b,
                                 const DiffOptions& options = {}) {
  return DiffRecordings(Parsed(a), Parsed(b), options);
}

std::string Replaced(const std::string& text, const std::string& from, const std::string& to) {
  EXPECT_NE(text.find(from), std::string::npos) << from;
  return absl::StrReplaceAll(text, {{from, to}});
}

TEST(RecordingTest, TextAndBack) {
  const Recording recording = Parsed(kSmall);
  EXPECT_EQ(FormatRecording(recording), kSmall);
  ASSERT_EQ(recording.calls.size(), 3u);
  std::string text;
  ASSERT_TRUE(TextOf(*recording.calls[1].After("gpuNameString"), &text));
  EXPECT_EQ(text, "NVIDIA \"X\" 80GB = 1");
  EXPECT_EQ(recording.calls[2].thread, 2);
}

TEST(RecordingTest, ElementsAndNumbers) {
  EXPECT_EQ(ElementsOf("[1,2*3,0x7]"), (std::vector<std::string>{"1", "2", "2", "2", "0x7"}));
  EXPECT_TRUE(ElementsOf("[1*99999999999]").empty());
  EXPECT_TRUE(ElementsOf("[1*60000,2*60000]").empty());
  EXPECT_TRUE(ElementsOf("ptr").empty());
  uint64_t number = 0;
  EXPECT_TRUE(NumberOf("0x7f", &number));
  EXPECT_EQ(number, 0x7fu);
  EXPECT_FALSE(NumberOf("ptr", &number));
}

TEST(RecordingTest, DamageIsNamedByItsLine) {
  const std::string whole = kSmall;
  for (size_t size = 0; size + 1 < whole.size(); ++size) {
    const auto cut = ParseRecording(whole.substr(0, size));
    ASSERT_FALSE(cut.ok()) << size;
    EXPECT_NE(cut.status().message().find("line "), absl::string_view::npos);
  }
  for (const char* line : {"call 0 /dev/nvidiactl open - 0 ok", "call 1 /dev/nvidiactl open - 0",
                           "call 1 a b c 99999999999 ok", "  in novalue", "process 7 /bin/x",
                           "call 1.0 /dev/nvidiactl open - 0 ok", "nonsense"}) {
    EXPECT_FALSE(ParseRecording(Replaced(whole, "end\n", absl::StrCat(line, "\nend\n"))).ok())
        << line;
  }
  EXPECT_FALSE(ParseRecording(whole + "call 1 /dev/nvidiactl open - 0 ok\n").ok());
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    std::string text = whole;
    for (int i = 0; i < 3; ++i) text[random() % text.size()] = static_cast<char>(random());
    const auto read = ParseRecording(text);
    if (read.ok()) DiffRecordings(*read, Parsed(whole), {});
  }
}

TEST(DiffTest, NothingDiffersFromItself) {
  EXPECT_TRUE(Diff(kSmall, kSmall).empty());
  // Which object it is counts on demand only.
  const std::string other = Replaced(kSmall, "hObject=handle#2", "hObject=handle#3");
  EXPECT_TRUE(Diff(kSmall, other).empty());
  const auto with_handles = Diff(kSmall, other, {.handles = true});
  ASSERT_EQ(with_handles.size(), 1u);
  EXPECT_EQ(with_handles[0].what, "in rm.hObject");
}

TEST(DiffTest, NamesWhatDiffers) {
  auto found = Diff(kSmall, Replaced(kSmall, "NVIDIA \\\"X\\\"", "NVIDIA Y"));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].call, "/dev/nvidiactl control NV2080_CTRL_CMD_GPU_GET_NAME_STRING");
  EXPECT_EQ(found[0].what, "out gpuNameString");
  EXPECT_EQ(found[0].second, "\"NVIDIA Y 80GB = 1\"");

  found = Diff(kSmall, Replaced(kSmall, "UVM_FREE 24 NV_OK", "UVM_FREE 24 EINVAL"));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].what, "result");
  EXPECT_EQ(FormatDifferences(found),
            "process 1 /dev/nvidia-uvm uvm UVM_FREE\n  result: NV_OK | EINVAL\n");

  found = Diff(kSmall, Replaced(kSmall, "UVM_FREE", "UVM_MIGRATE"));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].what, "only in the first");
  EXPECT_EQ(found[1].what, "only in the second");

  found = Diff(kSmall, Replaced(kSmall, "second line", "another line"));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].call, "file /proc/driver/nvidia/version");
}

TEST(DiffTest, CallsBelongTogetherByWhatTheyAsk) {
  const char* kQuestions = R"(phantora-recording 1
call 1 /dev/nvidiactl control NV2080_CTRL_CMD_GR_GET_TPC_MASK 24 NV_OK
  in gpcId=1
  out tpcMask=7
call 1 /dev/nvidiactl control NV2080_CTRL_CMD_GR_GET_TPC_MASK 24 NV_OK
  in gpcId=2
  out tpcMask=3
end
)";
  // In the other order: threads, perhaps.
  const std::string swapped = absl::StrReplaceAll(
      kQuestions,
      {{"gpcId=1", "gpcId=2"}, {"gpcId=2", "gpcId=1"}, {"Mask=7", "Mask=3"}, {"Mask=3", "Mask=7"}});
  EXPECT_TRUE(Diff(kQuestions, swapped).empty());
  const auto found = Diff(kQuestions, Replaced(kQuestions, "tpcMask=3", "tpcMask=1"));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].first, "3");
}

TEST(DiffTest, WordsThatALibraryDoesNotFill) {
  const char* kUnknown = R"(phantora-recording 1
call 1 /dev/nvidiactl control 0x20810108 992 NV_OK
  in +0x3d0=0x8852f433
  out +0x0=1
end
)";
  const std::string other = Replaced(kUnknown, "0x8852f433", "5");
  EXPECT_TRUE(Diff(kUnknown, other).empty());
  EXPECT_EQ(Diff(kUnknown, other, {.unknown_inputs = true}).size(), 1u);
  EXPECT_EQ(Diff(kUnknown, Replaced(kUnknown, "+0x0=1", "+0x0=2")).size(), 1u);
}

TEST(KnownCallsTest, WhatTheEmulatorAnswers) {
  RecordedCall call;
  call.kind = "control";
  call.name = "NV2080_CTRL_CMD_GPU_GET_NAME_STRING";
  call.bytes = 132;
  EXPECT_EQ(EmulatorKnows(call, "550.163.01"), "yes");
  call.bytes = 133;
  EXPECT_EQ(EmulatorKnows(call, "550.163.01"), "with 132 bytes");
  call.name = "0x2080ffee";
  EXPECT_EQ(EmulatorKnows(call, "550.163.01"), "no");
  call.name = "0x20808536";  // larger in 550
  call.bytes = 108;
  EXPECT_EQ(EmulatorKnows(call, "550.1"), "yes");
  EXPECT_EQ(EmulatorKnows(call, "535.261.03"), "with 104 bytes");
  call.kind = "alloc";
  call.name = "HOPPER_COMPUTE_A";
  EXPECT_EQ(EmulatorKnows(call, ""), "yes");
  call.name = "NV01_NULL";
  EXPECT_EQ(EmulatorKnows(call, ""), "no");
  call.kind = "uvm";
  call.name = "UVM_INITIALIZE";
  EXPECT_EQ(EmulatorKnows(call, ""), "yes");
  call.name = "UVM_TOOLS_FLUSH_EVENTS";
  EXPECT_EQ(EmulatorKnows(call, ""), "no");
  call.kind = "escape";
  call.name = "NV_ESC_RM_FREE";
  EXPECT_EQ(EmulatorKnows(call, ""), "yes");
}

// The values that differ from all known GPUs, so that none can come from elsewhere.
constexpr char kGpu[] = R"(phantora-recording 1
driver 580.159.03
call 1 /dev/nvidiactl control NV2080_CTRL_CMD_GPU_GET_NAME_STRING 132 NV_OK
  out gpuNameString="NVIDIA Z1"
call 1 /dev/nvidiactl control NV2080_CTRL_CMD_MC_GET_ARCH_INFO 16 NV_OK
  out architecture=0x180
call 1 /dev/nvidiactl control NV2080_CTRL_CMD_GR_GET_TPC_MASK 24 NV_OK
  out tpcMask=7
call 1 /dev/nvidiactl control NV2080_CTRL_CMD_GR_GET_TPC_MASK 24 NV_OK
  in gpcId=2
  out tpcMask=0x15
call 1 /dev/nvidiactl control NV2080_CTRL_CMD_GR_GET_TPC_MASK 24 NV_OK
  in gpcId=1
call 1 /dev/nvidiactl control NV2080_CTRL_CMD_GR_GET_TPC_MASK 24 NV_ERR_INVALID_ARGUMENT
  in gpcId=3
  out tpcMask=0xff
call 1 /dev/nvidiactl control NV2080_CTRL_CMD_FB_GET_INFO_V2 444 NV_OK
  out fbInfoList[TOTAL_RAM_SIZE]=33554432
  out fbInfoList[HEAP_SIZE]=31457280
call 1 /dev/nvidiactl control NV2080_CTRL_CMD_GR_GET_INFO 448 NV_OK
  out grInfoList[SHADER_PIPE_SUB_COUNT]=6
  out grInfoList[MAX_SP_PER_SM]=0
  out grInfoList[GPU_CORE_COUNT]=1536
  out grInfoList[LITTER_NUM_SM_PER_TPC]=2
call 1 /dev/nvidiactl control 0x20809064 520 NV_OK
  in +0x4=2
  in +0x8=1
  in +0x18=4
  out +0xc=2
  out +0x1c=0x100
call 1 /dev/nvidiactl control 0x2080a026 532 NV_OK
  in +0x10=2
  in +0x14=0x100
  in +0x24=2
  out +0x1c=0x27ac40
  out +0x2c=0x1b7740
end
)";

TEST(PersonalityTest, WhatWasRecordedAndWhatWasNot) {
  const Recording recording = Parsed(kGpu);
  const auto refused = MakePersonality(recording, "z1", "");
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("power_limit_watts"), absl::string_view::npos);
  EXPECT_EQ(refused.status().message().find("architecture"), absl::string_view::npos);

  const auto made = MakePersonality(recording, "z1", "a100-sxm4-80gb");
  ASSERT_TRUE(made.ok()) << made.status();
  for (const char* line :
       {"\"name\": \"z1\"", "\"product\": \"NVIDIA Z1\"", "\"architecture\": \"hopper\"",
        "\"tpcs_per_gpc\": [3, 3]", "\"cores_per_sm\": 128", "\"total_mib\": 32768",
        "\"usable_mib\": 30720", "\"sm_clock_mhz\": 1800", "\"clock_mhz\": 2600",
        "\"power_limit_watts\": 400", "// recorded: fbInfoList[HEAP_SIZE]",
        "// assumed, as a100-sxm4-80gb"}) {
    EXPECT_NE(made->json.find(line), std::string::npos) << line << " in " << made->json;
  }
}

TEST(PersonalityTest, GpusThatCannotBeEmulated) {
  const std::string other = Replaced(kGpu, "architecture=0x180", "architecture=0x1a0");
  const auto made = MakePersonality(Parsed(other), "z1", "a100-sxm4-80gb");
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.status().message().find("architecture"), absl::string_view::npos);
  EXPECT_FALSE(MakePersonality(Parsed(kGpu), "z1", "no-such-gpu").ok());
  // Larger than any: refused when the result is read, not taken.
  EXPECT_FALSE(MakePersonality(Parsed(Replaced(kGpu, "tpcMask=7", "tpcMask=0xffffffff")), "z1",
                               "a100-sxm4-80gb")
                   .ok());
}

}  // namespace
}  // namespace phantora::record
