#include "tools/replay/step_period.h"

#include <gtest/gtest.h>

namespace phantora {
namespace {

using Role = StepRecord::Role;

TEST(StepPeriodTest, LayersAreNoSteps) {
  // Three layers with an operation each, and one at the end of a step.
  Role layers;
  for (int step = 0; step < 3; ++step) {
    for (const int operation : {0, 0, 0, 1}) {
      StepRecord::Node node;
      node.operation = operation;
      layers.nodes.push_back(node);
    }
  }
  const auto period = FindSteps(layers);
  ASSERT_TRUE(period.ok());
  EXPECT_EQ(period->operations, 4u);
  EXPECT_EQ(period->ends, (std::vector<uint32_t>{3, 7, 11}));
  EXPECT_EQ(FindSteps(layers, 8)->operations, 8u);
  layers.nodes.resize(2);
  layers.nodes[1].operation = 1;
  EXPECT_FALSE(FindSteps(layers).ok());
}

TEST(StepPeriodTest, EqualOperationsWithDifferentKernelsBetweenAreTold) {
  Role buckets;
  for (int step = 0; step < 3; ++step) {
    for (const int kernels : {400, 100, 100}) {
      buckets.nodes.resize(buckets.nodes.size() + static_cast<size_t>(kernels));
      buckets.nodes.emplace_back().operation = 0;
    }
  }
  EXPECT_EQ(FindSteps(buckets)->operations, 3u);
}

TEST(StepPeriodTest, TheFirstStepMayDoMore) {
  Role record;
  for (const int kernels : {100, 400, 100}) {  // after the step before
    record.nodes.resize(record.nodes.size() + static_cast<size_t>(kernels));
    record.nodes.emplace_back().operation = 0;
    record.nodes.resize(record.nodes.size() + 10);
    record.nodes.emplace_back().operation = 1;
  }
  const auto period = FindSteps(record);
  ASSERT_TRUE(period.ok());
  EXPECT_EQ(period->operations, 2u);
  EXPECT_EQ(period->ends, (std::vector<uint32_t>{111, 523, 635}));
}

}  // namespace
}  // namespace phantora
