#include "tools/observe/step_view.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace phantora {
namespace {

VirtualTime At(int64_t microseconds) {
  return VirtualTime() + VirtualSpan::Microseconds(1'000'000 + microseconds);
}
VirtualSpan Microseconds(int64_t count) { return VirtualSpan::Microseconds(count); }

class StepViewTest : public testing::Test {
 protected:
  // For `span` us; the next begins after it.
  void Kernel(const std::string& name, int64_t span, double flops = 0) {
    view_.Add({.start = At(now_), .end = At(now_ + span), .channel = 1, .flops = flops}, name);
    now_ += span;
  }
  void Nccl(int64_t from, int64_t to) {
    view_.Add(
        {.start = At(from), .end = At(to), .channel = 2, .kind = StepView::Kind::kCommunication},
        "NCCL AllReduce");
  }
  // Of `layers`, with 10 us between steps.
  void Step(int layers, double flops = 0) {
    Kernel("embed", 5);
    for (int i = 0; i < layers; ++i) Kernel("norm", 2), Kernel("product", 20, flops);
    Kernel("adam", 8);
    now_ += 10;
  }

  StepView view_;
  int64_t now_ = 0;
};

TEST_F(StepViewTest, NothingRepeats) {
  EXPECT_FALSE(view_.Find());
  for (int i = 0; i < 1000; ++i) Kernel(std::to_string(i), 1);
  EXPECT_FALSE(view_.Find());
}

TEST_F(StepViewTest, StepsAreWhatRepeatsAndNotTheirLayers) {
  Kernel("set up", 100);
  for (int i = 0; i < 6; ++i) Step(4, 1e9);
  const auto steps = view_.Find();
  ASSERT_TRUE(steps);
  EXPECT_EQ(steps->kernels, 10);
  ASSERT_EQ(steps->steps.size(), 5) << "of the last the end is not known";
  for (const StepView::Step& step : steps->steps) {
    EXPECT_EQ(step.time, Microseconds(111));
    EXPECT_EQ(step.compute, Microseconds(101));
    EXPECT_EQ(step.idle, Microseconds(10));
    EXPECT_EQ(step.flops, 4e9);
  }
}

TEST_F(StepViewTest, StepsThatDifferAreLeftOut) {
  for (int i = 0; i < 9; ++i) Step(i == 4 ? 9 : 4);
  const auto steps = view_.Find();
  ASSERT_TRUE(steps);
  EXPECT_EQ(steps->steps.size(), 7);
  EXPECT_EQ(steps->median().time, Microseconds(111));
}

TEST_F(StepViewTest, CommunicationIsHiddenBehindKernelsOrExposed) {
  for (int i = 0; i < 5; ++i) {
    const int64_t begin = now_;
    Step(4);
    // 30 us of it beside kernels, 4 between steps.
    Nccl(begin + 71, begin + 105);
  }
  const auto steps = view_.Find();
  ASSERT_TRUE(steps);
  const StepView::Step& step = steps->steps[1];
  EXPECT_EQ(step.communication, Microseconds(34));
  EXPECT_EQ(step.exposed, Microseconds(4));
  EXPECT_EQ(step.idle, Microseconds(6));
}

TEST_F(StepViewTest, MemoryIsThatOfTheStep) {
  view_.Memory(At(0), 100);
  for (int i = 0; i < 5; ++i) {
    if (i == 2) view_.Memory(At(now_ + 50), 500), view_.Memory(At(now_ + 60), 300);
    Step(4);
  }
  const auto steps = view_.Find();
  ASSERT_TRUE(steps);
  std::vector<int64_t> peaks;
  for (const StepView::Step& step : steps->steps) peaks.push_back(step.peak_memory);
  EXPECT_EQ(peaks, (std::vector<int64_t>{100, 100, 500, 300}));
}

TEST_F(StepViewTest, KernelsWithoutEndAreForgotten) {
  for (int i = 0; i < 200'000; ++i) Kernel(std::to_string(i % 9000), 1);
  for (int i = 0; i < 20'000; ++i) Step(4);
  const auto steps = view_.Find();
  ASSERT_TRUE(steps);
  EXPECT_LE(steps->steps.size(), (1 << 16) / 10);
}

}  // namespace
}  // namespace phantora
