#include "trap/rm/driver_version.h"

#include <gtest/gtest.h>

#include "absl/strings/match.h"

namespace phantora {
namespace {

TEST(DriverVersionTest, EveryReleaseOfAKnownBranchIsKnown) {
  const struct {
    const char* text;
    DriverAbi abi;
    DriverEvidence evidence;
  } cases[] = {{"535.261.03", DriverAbi::k535, DriverEvidence::kRecorded},
               {"545.29.06", DriverAbi::k545, DriverEvidence::kRun},
               {"550.163.01", DriverAbi::k550, DriverEvidence::kRecorded},
               {"555.58.02", DriverAbi::k555, DriverEvidence::kRun},
               {"570.195.03", DriverAbi::k570, DriverEvidence::kRun},
               {"575.64.03", DriverAbi::k575, DriverEvidence::kHeaders},
               {"580.159.04", DriverAbi::k580, DriverEvidence::kRecorded},
               {"580.999", DriverAbi::k580, DriverEvidence::kRecorded},
               {"590.48.01", DriverAbi::k590, DriverEvidence::kHeaders}};
  for (const auto& [text, abi, evidence] : cases) {
    const auto version = ResolveDriverVersion(text, false);
    ASSERT_TRUE(version.ok()) << text;
    EXPECT_EQ(version->abi, abi) << text;
    EXPECT_EQ(version->evidence, evidence) << text;
    EXPECT_EQ(version->text, text);
  }
}

TEST(DriverVersionTest, ItIsKnownWhichReleasesDiffer) {
  const auto same = ResolveDriverVersion("550.163.01", false);
  EXPECT_TRUE(same->compared);
  EXPECT_EQ(same->differs, "");
  const auto differs = ResolveDriverVersion("550.54.14", false);
  EXPECT_TRUE(absl::StrContains(differs->differs, "NV2080_CTRL_ECC_GET_CLIENT_EXPOSED_COUNTERS"))
      << differs->differs;
  EXPECT_FALSE(ResolveDriverVersion("580.999", false)->compared);
}

TEST(DriverVersionTest, OthersAreRefusedAndNameTheKnownOnes) {
  const auto version = ResolveDriverVersion("525.147.05", false);
  ASSERT_FALSE(version.ok());
  EXPECT_EQ(version.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_TRUE(absl::StrContains(version.status().message(), "535, 545, 550"));
  EXPECT_EQ(ResolveDriverVersion("new", true).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(DriverVersionTest, ForceTakesTheNearestInterface) {
  const struct {
    const char* text;
    DriverAbi abi;
  } cases[] = {{"525.147.05", DriverAbi::k535},
               {"546.1", DriverAbi::k545},
               {"585.1", DriverAbi::k580},
               {"610.1", DriverAbi::k595}};
  for (const auto& [text, abi] : cases) {
    const auto version = ResolveDriverVersion(text, true);
    ASSERT_TRUE(version.ok()) << text;
    EXPECT_EQ(version->abi, abi) << text;
    EXPECT_EQ(version->evidence, DriverEvidence::kHeaders) << text;
  }
}

}  // namespace
}  // namespace phantora
