#include "trap/quiet_successes.h"

#include <gtest/gtest.h>

namespace phantora {
namespace {

TEST(QuietSuccessesTest, NothingIsReportedOfNothing) { EXPECT_EQ(QuietSuccesses().Report(), ""); }

TEST(QuietSuccessesTest, CallsAreCountedMostFrequentFirst) {
  QuietSuccesses quiet;
  quiet.Count("control", 1, "FIRST", "there is one copy");
  quiet.Count("control", 2, nullptr, "nothing to start");
  quiet.Count("escape", 2, "SECOND", "it is done already");
  quiet.Count("escape", 2, "SECOND", "it is done already");
  EXPECT_EQ(quiet.Report(),
            "  escape SECOND (0x2): 2 times; it is done already\n"
            "  control FIRST (0x1): 1 times; there is one copy\n"
            "  control without public name (0x2): 1 times; nothing to start\n");
}

}  // namespace
}  // namespace phantora
