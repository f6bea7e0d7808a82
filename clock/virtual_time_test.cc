#include "clock/virtual_time.h"

#include <gtest/gtest.h>

#include "clock/time_source.h"

namespace phantora {
namespace {

TEST(VirtualTimeTest, SpansAndInstantsKeepTheirUnits) {
  const VirtualTime start = VirtualTime::FromNanoseconds(5);
  const VirtualTime end = start + VirtualSpan::Microseconds(2) + VirtualSpan::Picoseconds(999);
  EXPECT_EQ((end - start).picoseconds(), 2'000'999);
  EXPECT_EQ((end - start).nanoseconds(), 2'000);
  EXPECT_EQ(end.nanoseconds(), 2'005);
  EXPECT_LT(start, end);
  EXPECT_LT(end, VirtualTime::Infinity());
  EXPECT_EQ(VirtualSpan::Nanoseconds(3) * 4, VirtualSpan::Nanoseconds(12));
}

TEST(TimeSourceTest, ManualTimeMovesOnlyWhenTold) {
  ManualTimeSource clock;
  const VirtualTime before = clock.Now();
  EXPECT_EQ(clock.Now(), before);
  clock.Advance(VirtualSpan::Nanoseconds(7));
  EXPECT_EQ(clock.Now() - before, VirtualSpan::Nanoseconds(7));
}

}  // namespace
}  // namespace phantora
