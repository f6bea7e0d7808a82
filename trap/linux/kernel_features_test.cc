#include "trap/linux/kernel_features.h"

#include <gtest/gtest.h>

namespace phantora {
namespace {

TEST(KernelVersionTest, IsReadFromTheRelease) {
  EXPECT_EQ(KernelVersion::Of("6.1.0-13-amd64"), (KernelVersion{6, 1}));
  EXPECT_EQ(KernelVersion::Of("5.14.0-427.el9.x86_64"), kLeastKernel);
  EXPECT_EQ(KernelVersion::Of("6.12-rc3"), kSignalScopeKernel);
  EXPECT_EQ(KernelVersion::Of("unknown"), KernelVersion());
  EXPECT_GE(KernelVersion::Running(), kLeastKernel);
}

TEST(KernelVersionTest, NumbersAreCompared) {
  EXPECT_LT((KernelVersion{5, 9}), (KernelVersion{5, 14}));
  EXPECT_LT((KernelVersion{5, 19}), (KernelVersion{6, 1}));
  EXPECT_EQ((KernelVersion{6, 12}).text(), "6.12");
}

}  // namespace
}  // namespace phantora
