#include "profiles/gpu/rate_transfer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "profiles/gpu/transfer_check.h"
#include "profiles/kernels/kernel_rows.h"

namespace phantora {
namespace {

using testing::HasSubstr;

constexpr auto kBf16 = static_cast<size_t>(MathPrecision::kBf16);
constexpr auto kFp8 = static_cast<size_t>(MathPrecision::kFp8);
constexpr auto kGemm = static_cast<size_t>(WorkFamily::kGemm);

class RateTransferTest : public testing::Test {
 protected:
  GpuRates To(const GpuProfile& wanted) const {
    const auto made = TransferRates(wanted, h100_, rates_);
    EXPECT_TRUE(made.ok()) << made.status();
    return made.ok() ? made->rates : GpuRates();
  }

  const GpuProfile h100_ = *FindGpuProfile("h100-sxm5-80gb");
  const GpuRates rates_ = *FindGpuRates("h100-sxm5-80gb");
};

TEST_F(RateTransferTest, ToItselfNothingChangesButTheError) {
  const GpuRates same = To(h100_);
  EXPECT_EQ(same.peak_flops_per_s, rates_.peak_flops_per_s);
  EXPECT_DOUBLE_EQ(same.memory_bytes_per_s, rates_.memory_bytes_per_s);
  EXPECT_DOUBLE_EQ(same.clock_under_load, rates_.clock_under_load);
  EXPECT_DOUBLE_EQ(same.cache_bytes, rates_.cache_bytes);
  EXPECT_EQ(same.wave_s, rates_.wave_s);
  EXPECT_NEAR(same.error[kGemm], std::hypot(rates_.error[kGemm], 0.09), 1e-9);
}

TEST_F(RateTransferTest, RatesFollowWhatTheyDependOn) {
  GpuProfile half = h100_;
  half.tpcs_per_gpc = {9, 8, 8, 8};
  half.memory.clock_mhz /= 2;
  half.memory.l2_bytes /= 2;
  half.power_limit_watts /= 2;
  const GpuRates rates = To(half);
  EXPECT_NEAR(rates.peak_flops_per_s[kBf16], rates_.peak_flops_per_s[kBf16] / 2, 1e9);
  EXPECT_NEAR(rates.memory_bytes_per_s, rates_.memory_bytes_per_s / 2, 1e9);
  EXPECT_NEAR(rates.cache_bytes, rates_.cache_bytes / 2, 1);
  // Half the power for half the SMs.
  EXPECT_NEAR(rates.clock_under_load, rates_.clock_under_load, 1e-9);
  half.tpcs_per_gpc = h100_.tpcs_per_gpc;
  EXPECT_NEAR(To(half).clock_under_load, rates_.clock_under_load * std::cbrt(0.5), 1e-3);
  half.sm_clock_mhz /= 2;
  EXPECT_NEAR(To(half).wave_s, 2 * rates_.wave_s, 1e-9);
  EXPECT_NEAR(To(half).cache_bytes_per_s, rates_.cache_bytes_per_s / 2, 1e6);
}

TEST_F(RateTransferTest, PeaksFollowTheComputeCapability) {
  const auto a100 = *FindGpuProfile("a100-sxm4-80gb");
  const GpuRates rates = To(a100), own = *FindGpuRates("a100-sxm4-80gb");
  for (const auto i : {kBf16, static_cast<size_t>(MathPrecision::kTf32),
                       static_cast<size_t>(MathPrecision::kInt8)}) {
    EXPECT_NEAR(rates.peak_flops_per_s[i] / own.peak_flops_per_s[i], 1, 0.08);
  }
  // A100 has no fp8: it is as fast as fp16.
  EXPECT_NEAR(rates.peak_flops_per_s[kFp8] / own.peak_flops_per_s[kFp8], 1, 0.08);
}

TEST_F(RateTransferTest, WhatTheFileSaysGoesFirst) {
  GpuProfile gpu = h100_;
  gpu.rated.memory_bytes_per_s = 1e12;
  gpu.rated.peak_flops_per_s[kBf16] = 5e14;
  const GpuRates rates = To(gpu);
  EXPECT_EQ(rates.memory_bytes_per_s, 1e12);
  EXPECT_EQ(rates.peak_flops_per_s[kBf16], 5e14);
  EXPECT_EQ(rates.peak_flops_per_s[kFp8], rates_.peak_flops_per_s[kFp8]);
  gpu.rated.from = "a100-sxm4-80gb";
  EXPECT_EQ(TransferRates(gpu)->from, "a100-sxm4-80gb");
}

TEST_F(RateTransferTest, FromTheNearest) {
  GpuProfile small = h100_;
  small.tpcs_per_gpc = {9, 9, 8, 8, 8, 8, 7};
  EXPECT_EQ(TransferRates(small)->from, "h100-sxm5-80gb");
  GpuProfile slow = *FindGpuProfile("a100-sxm4-80gb");
  slow.memory.clock_mhz = 1215;
  EXPECT_EQ(TransferRates(slow)->from, "a100-sxm4-80gb");
  EXPECT_FALSE(SameHardware(slow, *FindGpuProfile("a100-sxm4-80gb")));
  EXPECT_TRUE(SameHardware(h100_, h100_));
}

TEST_F(RateTransferTest, WhatCannotBeKnownIsSaid) {
  GpuProfile gpu = h100_;
  gpu.compute_minor = 7;
  const auto unknown = TransferRates(gpu);
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(unknown.status().message()), HasSubstr("rates.peak_tflops.fp64"));
  gpu.rated.peak_flops_per_s.fill(1e15);
  EXPECT_TRUE(TransferRates(gpu).ok());
  gpu.rated.from = "h1000";
  EXPECT_THAT(std::string(TransferRates(gpu).status().message()), HasSubstr("a100-sxm4-80gb"));
}

TEST_F(RateTransferTest, RowsOfAnotherGpuCorrectAndAreNotMeasured) {
  auto rows = *KernelRows::Find("h100-sxm5-80gb", rates_, static_cast<int>(h100_.sms()));
  const auto before = rows.Compare();
  std::array<double, kWorkFamilies> error{};
  error[kGemm] = 0.3;
  rows.TransferWith(error);
  int checked = 0;
  for (const auto& row : before) {
    if (row.family != WorkFamily::kGemm) continue;
    // A GPU that takes twice as long for everything.
    const auto found = rows.Of(row.work, row.family, "some_gemm", {2 * row.modelled_s, 0.1});
    ASSERT_TRUE(found);
    EXPECT_FALSE(found->measured);
    EXPECT_NEAR(found->time.seconds / (2 * row.measured_s), 1, 0.05) << row.row;
    EXPECT_GE(found->time.error, 0.3);
    ++checked;
  }
  EXPECT_EQ(checked, 5);
}

// Every published measurement, priced from each other GPU.
class PublishedTest : public testing::Test {
 protected:
  const std::vector<TransferredRow> rows_ = *CheckTransfers();
};

TEST_F(PublishedTest, NineOfTenRowsAreWithinTheirBar) {
  std::map<std::pair<bool, WorkFamily>, std::pair<double, double>> within;
  for (const TransferredRow& row : rows_) {
    auto& [good, all] = within[{row.same_compute_capability, row.family}];
    good += std::abs(row.Error()) <= row.priced.error;
    ++all;
    // A bar that says nothing is none.
    EXPECT_LT(row.priced.error, row.same_compute_capability ? 0.25 : 1.0) << row.row;
  }
  EXPECT_EQ(within.size(), 8u);
  for (const auto& [key, count] : within) {
    EXPECT_GE(count.first / count.second, 0.9) << Name(key.second) << " " << key.first;
  }
}

TEST_F(PublishedTest, TheStatedErrorsAreWhatTheRowsSay) {
  for (const bool same : {true, false}) {
    const auto* gpu = same ? "h200-sxm5-141gb" : "a100-sxm4-80gb";
    const auto made = *TransferRates(*FindGpuProfile(gpu), *FindGpuProfile("h100-sxm5-80gb"),
                                     *FindGpuRates("h100-sxm5-80gb"));
    for (const WorkFamily family : {WorkFamily::kGemm, WorkFamily::kAttention,
                                    WorkFamily::kElementwise, WorkFamily::kReduction}) {
      const double stated = made.error[static_cast<size_t>(family)];
      const auto found = NineOfTen(rows_, same, family);
      ASSERT_TRUE(found);
      EXPECT_GE(stated, *found - 0.005) << Name(family) << same;
      EXPECT_LE(stated, *found + 0.04) << Name(family) << same;
    }
  }
}

TEST_F(PublishedTest, AGpuThatNothingIsMadeFrom) {
  std::vector<double> errors;
  for (const TransferredRow& row : rows_) {
    if (row.gpu != "a100-pcie-80gb" || row.from != "a100-sxm4-80gb") continue;
    EXPECT_EQ(row.own.seconds, 0);
    EXPECT_LE(std::abs(row.Error()), row.priced.error) << row.row;
    errors.push_back(std::abs(row.Error()));
  }
  ASSERT_EQ(errors.size(), 6u);
  std::sort(errors.begin(), errors.end());
  EXPECT_LT(errors[3], 0.05);
  EXPECT_LT(errors.back(), 0.10);
}

}  // namespace
}  // namespace phantora
