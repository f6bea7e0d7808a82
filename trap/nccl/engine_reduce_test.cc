#include "trap/nccl/engine_reduce.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "uvm_model/memory_object.h"

namespace phantora {
namespace {

constexpr char kSymbol[] =
    "_ZN4vllm26cross_device_reduce_1stageI13__nv_bfloat16Li2EEEvPNS_8RankDataENS_11RankSignalsE"
    "PNS_6SignalEPT_ii";
constexpr uint64_t kInputs = 0x1000, kFlags = 0x20000;

std::vector<uint8_t> Parameters(size_t bytes, int rank, int vectors, uint64_t flags = kFlags) {
  std::vector<uint8_t> parameters(bytes);
  const size_t more = bytes - 96;  // before the flags' pointers
  const auto put = [&](size_t at, const auto& value) {
    std::memcpy(&parameters[at], &value, sizeof value);
  };
  put(0, kInputs);
  put(8 + more, flags);
  put(80 + more, uint64_t{0x7000});
  put(88 + more, int32_t{rank});
  put(92 + more, int32_t{vectors});
  return parameters;
}

bool ReadInputs(uint64_t address, void* to, uint64_t bytes) {
  if (address < kInputs || address >= kInputs + 64) return false;
  const uint64_t pointer = 0x100000 + (address - kInputs) / 8;
  std::memcpy(to, &pointer, bytes);
  return true;
}

TEST(EngineReduce, KernelsAreKnownByTheirNames) {
  EXPECT_TRUE(IsEngineReduce(kSymbol));
  EXPECT_TRUE(IsEngineReduce("_ZN7sglang26cross_device_reduce_2stageI6__halfLi8EEEvP"));
  EXPECT_TRUE(IsEngineReduce("_Z26cross_device_reduce_2stageIfLi4EEvP"));
  for (const char* other :
       {"_Z26cross_device_reduce_1stageIdLi2EEv", "_Z26cross_device_reduce_1stageIfLi16EEv",
        "_Z26cross_device_reduce_1stageIfLi", "_Z4ring", ""}) {
    EXPECT_FALSE(IsEngineReduce(other)) << other;
  }
}

TEST(EngineReduce, ParametersSayWhatIsReduced) {
  for (const size_t bytes : {96, 104}) {
    const auto reduce = DecodeEngineReduce(kSymbol, Parameters(bytes, 1, 40), &ReadInputs);
    ASSERT_TRUE(reduce.ok()) << reduce.status();
    EXPECT_EQ(reduce->rank, 1);
    EXPECT_EQ(reduce->ranks, 2);
    EXPECT_EQ(reduce->signals, kFlags);
    EXPECT_EQ(reduce->entry.operation, nccl::Operation::kAllReduce);
    EXPECT_EQ(reduce->entry.type, 9);
    EXPECT_EQ(reduce->entry.count, 320u);
    EXPECT_EQ(reduce->entry.send, 0x100001u);
    EXPECT_EQ(reduce->entry.receive, 0x7000u);
  }
}

TEST(EngineReduce, WhatMakesNoSenseIsRefused) {
  EXPECT_FALSE(DecodeEngineReduce(kSymbol, {}, &ReadInputs).ok());
  EXPECT_FALSE(DecodeEngineReduce(kSymbol, Parameters(112, 1, 40), &ReadInputs).ok());
  EXPECT_FALSE(DecodeEngineReduce(kSymbol, Parameters(96, 2, 40), &ReadInputs).ok());
  EXPECT_FALSE(DecodeEngineReduce(kSymbol, Parameters(96, -1, 40), &ReadInputs).ok());
  EXPECT_FALSE(DecodeEngineReduce(kSymbol, Parameters(96, 1, 0), &ReadInputs).ok());
  EXPECT_FALSE(DecodeEngineReduce(kSymbol, Parameters(96, 1, -5), &ReadInputs).ok());
  const auto nothing = [](uint64_t, void*, uint64_t) { return false; };
  EXPECT_FALSE(DecodeEngineReduce(kSymbol, Parameters(96, 1, 40), nothing).ok());
}

// Two ranks, for whom rank 0's flags lie at different addresses.
class EngineGroupsTest : public testing::Test {
 protected:
  EngineGroups::Caller Rank(int rank, pid_t process, uint64_t flags) {
    auto context = std::make_shared<GpuContext>();
    context->memory.Map(flags, 4096, flags_, 0);
    return {process, {0, rank}, context};
  }
  uint64_t Come(const EngineGroups::Caller& caller, int rank, uint64_t flags) {
    why_.clear();
    return groups_.Of(caller, {.rank = rank, .ranks = 2, .signals = flags + 8, .entry = {}}, why_);
  }

  std::shared_ptr<MemoryObject> flags_ = std::make_shared<OwnedMemory>(MemoryKind::kVidmem, 4096);
  NcclWorld world_{{.network = nullptr,
                    .planner = nullptr,
                    .payload = nullptr,
                    .failed = [](const std::string&) {}}};
  EngineGroups groups_{&world_};
  std::string why_;
};

TEST_F(EngineGroupsTest, RanksBelongTogetherByTheirFlags) {
  const auto first = Rank(0, 10, 0x10000), second = Rank(1, 11, 0x50000);
  const uint64_t one = Come(first, 0, 0x10000);
  ASSERT_NE(one, 0u);
  EXPECT_TRUE(groups_.Awaits(one));
  EXPECT_EQ(groups_.Find(one), nullptr);
  EXPECT_NE(groups_.DescribeWaiting(), "");
  EXPECT_EQ(Come(first, 0, 0x10000), one);
  const uint64_t other = Come(second, 1, 0x50000);
  ASSERT_NE(other, 0u);
  EXPECT_FALSE(groups_.Awaits(one));
  EXPECT_EQ(groups_.TakeMade(), (std::vector<uint64_t>{one, other}));
  ASSERT_NE(groups_.Find(one), nullptr);
  EXPECT_EQ(groups_.Find(one)->communicator, groups_.Find(other)->communicator);
  EXPECT_EQ(groups_.Find(other)->rank, 1);
  EXPECT_EQ(groups_.CountCall(one), 0u);
  EXPECT_EQ(groups_.CountCall(one), 1u);
  EXPECT_EQ(groups_.DescribeWaiting(), "");
  // Flags elsewhere in that memory are another group's.
  EXPECT_NE(Come(first, 0, 0x10100), one);
}

TEST_F(EngineGroupsTest, OthersWithTheSameMemoryBeginAnew) {
  const auto first = Rank(0, 10, 0x10000), second = Rank(1, 11, 0x50000);
  const uint64_t one = Come(first, 0, 0x10000), other = Come(second, 1, 0x50000);
  const auto next = Rank(0, 12, 0x10000);
  const uint64_t third = Come(next, 0, 0x10000);
  ASSERT_NE(third, 0u);
  EXPECT_TRUE(groups_.Awaits(third));
  EXPECT_EQ(groups_.Find(one), nullptr);
  EXPECT_EQ(groups_.Find(other), nullptr);
  groups_.ProcessDied(12);
  EXPECT_FALSE(groups_.Awaits(third));
  EXPECT_EQ(groups_.CountCall(third), 0u);
}

TEST_F(EngineGroupsTest, FlagsThatAreNotMappedAreRefused) {
  EXPECT_EQ(Come(Rank(0, 10, 0x10000), 0, 0x90000), 0u);
  EXPECT_EQ(why_, "rank 0's flags are not mapped");
}

}  // namespace
}  // namespace phantora
