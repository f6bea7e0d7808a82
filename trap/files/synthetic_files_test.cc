#include "trap/files/synthetic_files.h"

#include <gtest/gtest.h>

namespace phantora {
namespace {

using Verdict = SyntheticFiles::Verdict;

TEST(SyntheticFilesTest, NormalisesTextually) {
  EXPECT_EQ(SyntheticFiles::Normalise("/dev//nvidia0"), "/dev/nvidia0");
  EXPECT_EQ(SyntheticFiles::Normalise("/tmp/.././dev/nvidia0/"), "/dev/nvidia0");
  EXPECT_EQ(SyntheticFiles::Normalise("/../.."), "/");
}

TEST(SyntheticFilesTest, LooksOnlyAtPathsThatCouldBeTheDrivers) {
  EXPECT_TRUE(SyntheticFiles::Interesting("/proc/devices"));
  EXPECT_TRUE(SyntheticFiles::Interesting("/tmp/../dev/nvidiactl"));
  EXPECT_TRUE(SyntheticFiles::Interesting("nvidia0"));
  EXPECT_FALSE(SyntheticFiles::Interesting("/usr/lib/python3/os.py"));
  EXPECT_FALSE(SyntheticFiles::Interesting(""));
}

TEST(SyntheticFilesTest, WhatIsHiddenIsAbsentUnlessAdded) {
  SyntheticFiles files;
  files.Hide("/dev/nvidia");
  files.AddText("/dev/nvidia-text", "x");
  EXPECT_EQ(files.Find("/dev/nvidia-text").verdict, Verdict::kSynthetic);
  EXPECT_EQ(files.Find("/dev/nvidia7").verdict, Verdict::kAbsent);
  EXPECT_EQ(files.Find("/dev/null").verdict, Verdict::kHost);
}

TEST(SyntheticFilesTest, PciAddressesAreMatchedWithoutRegardToCase) {
  SyntheticFiles files;
  files.AddText("/sys/bus/pci/devices/0000:9d:00.0/vendor", "0x10de");
  EXPECT_EQ(files.Find("/sys/bus/pci/devices/0000:9D:00.0/vendor").verdict, Verdict::kSynthetic);
}

}  // namespace
}  // namespace phantora
