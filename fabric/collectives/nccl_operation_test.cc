#include "fabric/collectives/nccl_operation.h"

#include <gtest/gtest.h>

namespace phantora {
namespace {

using nccl::Entry;
using nccl::Operation;

// By ncclDataType_t of nccl.h.
TEST(NcclOperationTest, TypesHaveTheirSizes) {
  const int64_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1, 0};
  for (uint8_t type = 0; type < std::size(sizes); ++type) {
    EXPECT_EQ(NcclTypeBytes(type), sizes[type]) << int{type};
  }
  EXPECT_EQ(NcclTypeBytes(255), 0);
}

Entry Make(Operation operation, uint8_t type, uint8_t reduction) {
  Entry entry = {};
  entry.operation = operation;
  entry.type = type;
  entry.reduction = reduction;
  entry.count = 6;
  entry.peer = 3;
  return entry;
}

TEST(NcclOperationTest, DescriptionsNameWhatMatters) {
  EXPECT_EQ(Describe(Make(Operation::kBroadcast, 9, 4)), "Broadcast of 6 bfloat16, root 3");
  EXPECT_EQ(Describe(Make(Operation::kReduce, 6, 1)), "Reduce of 6 float16, prod, root 3");
  EXPECT_EQ(Describe(Make(Operation::kAllGather, 10, 4)), "AllGather of 6 float8e4m3");
  EXPECT_EQ(Describe(Make(Operation::kReduceScatter, 3, 5)),
            "ReduceScatter of 6 uint32, premulsum");
  EXPECT_EQ(Describe(Make(Operation::kAllReduce, 8, 4)), "AllReduce of 6 float64, avg");
  EXPECT_EQ(Describe(Make(Operation::kSend, 4, 0)), "Send of 6 int64 to rank 3");
  EXPECT_EQ(Describe(Make(Operation::kReceive, 11, 0)), "Recv of 6 float8e5m2 from rank 3");
}

TEST(NcclOperationTest, SwitchesCombineSumsOfMostTypes) {
  constexpr uint8_t kInt8 = 0, kUint64 = 5, kFloat32 = 7, kBfloat16 = 9, kFloat8 = 10;
  const auto combines = [](uint8_t type, uint8_t reduction) {
    return NvlsCombines(Make(Operation::kAllReduce, type, reduction));
  };
  for (const uint8_t type : {kUint64, kFloat32, kBfloat16}) {
    EXPECT_TRUE(combines(type, nccl::kSum)) << int{type};
    EXPECT_EQ(combines(type, nccl::kMax), type != kFloat32) << int{type};
    EXPECT_EQ(combines(type, nccl::kMin), type != kFloat32) << int{type};
    EXPECT_FALSE(combines(type, nccl::kAvg)) << int{type};
    EXPECT_FALSE(combines(type, nccl::kPreMulSum)) << int{type};
    EXPECT_FALSE(combines(type, nccl::kProd)) << int{type};
  }
  for (const uint8_t type : {kInt8, kFloat8, uint8_t{255}}) {
    EXPECT_FALSE(combines(type, nccl::kSum)) << int{type};
  }
  EXPECT_TRUE(NvlsCombines(Make(Operation::kAllGather, kInt8, nccl::kProd)));
  const CollectiveWork work = WorkOf(Make(Operation::kReduceScatter, kFloat32, nccl::kAvg), 5);
  EXPECT_EQ(work, (CollectiveWork{Operation::kReduceScatter, 6 * 4 * 5, false}));
}

// What a rank sends in a reduce-scatter, and receives in an all-gather, is larger than `count`.
TEST(NcclOperationTest, BytesAreOfTheLargerSide) {
  EXPECT_EQ(OperationBytes(Make(Operation::kAllGather, 7, 0), 5), 6 * 4 * 5);
  EXPECT_EQ(OperationBytes(Make(Operation::kReduceScatter, 2, 0), 5), 6 * 4 * 5);
  EXPECT_EQ(OperationBytes(Make(Operation::kAllReduce, 5, 0), 5), 6 * 8);
  EXPECT_EQ(OperationBytes(Make(Operation::kBroadcast, 0, 0), 5), 6);
  EXPECT_EQ(OperationBytes(Make(Operation::kSend, 6, 0), 5), 6 * 2);
}

}  // namespace
}  // namespace phantora
