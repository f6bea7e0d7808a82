#include "tools/run/stall_watch.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "trap/linux/fake_real_clock.h"

namespace phantora {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

class StallWatchTest : public testing::Test {
 protected:
  // `seconds` go by, with looks as often as a run makes them.
  void Pass(int seconds, bool at_rest, VirtualSpan simulated = VirtualSpan()) {
    for (int look = 0; look < 10 * seconds; ++look) {
      clock_.Pass(kSecond / 10);
      if (look % 10 == 0) now_ = now_ + simulated;
      watch_.Look([&] { return at_rest; });
    }
  }

  FakeRealClock clock_{100 * kSecond};
  VirtualTime now_;
  std::string waiting_ = "rank 1 for rank 0\n";
  uint64_t progress_ = 1;
  std::vector<std::string> warnings_, ends_;
  StallWatch watch_{{.waiting = [this](VirtualTime) { return waiting_; },
                     .progress = [this] { return progress_; },
                     .now = [this] { return now_; },
                     .warn = [this](const std::string& text) { warnings_.push_back(text); },
                     .end = [this](const std::string& text) { ends_.push_back(text); },
                     .clock = &clock_}};
};

TEST_F(StallWatchTest, ToldOnceAndEndedLater) {
  Pass(3, true);
  EXPECT_TRUE(warnings_.empty());
  Pass(5, true);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_TRUE(absl::StrContains(warnings_[0], "rank 1 for rank 0"));
  EXPECT_TRUE(ends_.empty());
  Pass(5, true);
  EXPECT_EQ(warnings_.size(), 1u);
  ASSERT_FALSE(ends_.empty());
  EXPECT_TRUE(absl::StrContains(ends_[0], "The run is ended."));
}

TEST_F(StallWatchTest, ProgressBeginsAnew) {
  for (int i = 0; i < 10; ++i) {
    Pass(2, true);
    ++progress_;
  }
  EXPECT_TRUE(warnings_.empty());
  Pass(5, true);
  EXPECT_EQ(warnings_.size(), 1u);
  ++progress_;
  Pass(6, true);
  EXPECT_EQ(warnings_.size(), 2u) << "another stall is told, too";
  EXPECT_TRUE(ends_.empty());
}

TEST_F(StallWatchTest, NobodyWaits) {
  waiting_.clear();
  Pass(60, true);
  EXPECT_TRUE(warnings_.empty());
  EXPECT_TRUE(ends_.empty());
}

TEST_F(StallWatchTest, WhoComputesMayStillCome) {
  Pass(60, false);
  EXPECT_TRUE(warnings_.empty());
  EXPECT_TRUE(ends_.empty());
  Pass(5, true);
  EXPECT_EQ(warnings_.size(), 1u);
}

// Helper threads look around, so that simulated time goes on.
TEST_F(StallWatchTest, SimulatedTimeTellsWhereNobodyRests) {
  Pass(5, false, VirtualSpan::Microseconds(10'000'000));
  EXPECT_TRUE(warnings_.empty());
  Pass(5, false, VirtualSpan::Microseconds(10'000'000));
  EXPECT_EQ(warnings_.size(), 1u);
  Pass(5, false, VirtualSpan::Microseconds(1000'000'000));
  EXPECT_FALSE(ends_.empty());
}

}  // namespace
}  // namespace phantora
