#include "trap/rm/driver_version.h"

#include <gtest/gtest.h>

#include "absl/strings/match.h"

namespace phantora {
namespace {

TEST(DriverVersionTest, RecordedVersionsNeedNoForce) {
  const struct {
    const char* text;
    DriverAbi abi;
  } cases[] = {{"535.261.03", DriverAbi::k535},
               {"550.163.01", DriverAbi::k550},
               {"580.159.04", DriverAbi::k580}};
  for (const auto& [text, abi] : cases) {
    const auto version = ResolveDriverVersion(text, false);
    ASSERT_TRUE(version.ok()) << text;
    EXPECT_EQ(version->abi, abi) << text;
    EXPECT_EQ(version->text, text);
  }
}

TEST(DriverVersionTest, OthersAreRefusedAndNameTheKnownOnes) {
  const auto version = ResolveDriverVersion("580.95.05", false);
  ASSERT_FALSE(version.ok());
  EXPECT_EQ(version.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_TRUE(absl::StrContains(version.status().message(), "580.159.04"));
  EXPECT_EQ(ResolveDriverVersion("new", true).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(DriverVersionTest, ForceTakesTheNearestInterface) {
  const struct {
    const char* text;
    DriverAbi abi;
  } cases[] = {{"525.147.05", DriverAbi::k535}, {"545.29.06", DriverAbi::k535},
               {"555.58", DriverAbi::k550},     {"565.77", DriverAbi::k550},
               {"570.86.15", DriverAbi::k580},  {"575.64.03", DriverAbi::k580},
               {"580.95.05", DriverAbi::k580},  {"590.48.01", DriverAbi::k580}};
  for (const auto& [text, abi] : cases) {
    const auto version = ResolveDriverVersion(text, true);
    ASSERT_TRUE(version.ok()) << text;
    EXPECT_EQ(version->abi, abi) << text;
  }
}

}  // namespace
}  // namespace phantora
