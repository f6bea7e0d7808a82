#include "profiles/kernels/kernel_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "profiles/gpu/gpu_profile.h"

namespace phantora {
namespace {

constexpr int kSms = 108;
constexpr char kHeader[] =
    "# measured\n"
    "family\tprecision\tdirection\tkernel\tshape\tflops\tbytes\ttiles\ttime_us\terror\tsource\n";

class KernelRowsTest : public testing::Test {
 protected:
  KernelRowsTest() : rates_(*FindGpuRates("a100-sxm4-80gb")) {}

  static KernelWork Cube(double size) {
    KernelWork work;
    work.precision = MathPrecision::kBf16;
    work.shape = {size, size, size, 1};
    work.flops = 2 * size * size * size;
    work.bytes = 6 * size * size;
    work.written_bytes = 2 * size * size;
    work.tiles = std::ceil(size / 128) * std::ceil(size / 256);
    return work;
  }
  TimeEstimate Estimate(const KernelWork& work) const {
    return EstimateOf(work, WorkFamily::kGemm, rates_, kSms);
  }
  // A row for a cube that takes `factor` times its estimate.
  std::string Row(double size, double factor) const {
    const KernelWork work = Cube(size);
    return absl::StrFormat(
        "gemm\tbf16\tforward\t*\t%.0fx%.0fx%.0fx1\t%.0f\t%.0f\t%.0f\t%.6f\t0.02\ttest\n", size,
        size, size, work.flops, work.bytes, work.tiles, Estimate(work).seconds * factor * 1e6);
  }
  KernelRows Rows(const std::string& rows) const {
    auto parsed = KernelRows::Parse(kHeader + rows, rates_, kSms);
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    return parsed.ok() ? *std::move(parsed) : KernelRows();
  }
  std::optional<KernelRows::Found> Find(const KernelRows& rows, const KernelWork& work) const {
    return rows.Of(work, WorkFamily::kGemm, "some_gemm", Estimate(work));
  }

  const GpuRates rates_;
};

TEST_F(KernelRowsTest, WhatWasMeasuredIsTaken) {
  const KernelRows rows = Rows(Row(1024, 1.5));
  const auto found = Find(rows, Cube(1024));
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->measured);
  EXPECT_NEAR(found->time.seconds, 1.5 * Estimate(Cube(1024)).seconds, 1e-11);
  EXPECT_EQ(found->time.error, 0.02);
}

TEST_F(KernelRowsTest, SimilarWorkIsCorrectedTheMoreTheNearer) {
  const KernelRows rows = Rows(Row(1024, 1.5));
  const auto near = Find(rows, Cube(1152)), farther = Find(rows, Cube(2048));
  ASSERT_TRUE(near && farther);
  EXPECT_FALSE(near->measured);
  const double by_near = near->time.seconds / Estimate(Cube(1152)).seconds,
               by_farther = farther->time.seconds / Estimate(Cube(2048)).seconds;
  EXPECT_GT(by_near, 1.45);
  EXPECT_LT(by_near, 1.5);
  EXPECT_GT(by_farther, 1.1);
  EXPECT_LT(by_farther, by_near);
  // Nobody to compare it with: the model's own error.
  EXPECT_EQ(near->time.error, Estimate(Cube(1152)).error);
}

TEST_F(KernelRowsTest, WorkOfOtherKindsIsLeftAlone) {
  const KernelRows rows = Rows(Row(1024, 1.5));
  EXPECT_FALSE(Find(rows, Cube(16384)));
  KernelWork other = Cube(1024);
  other.precision = MathPrecision::kFp32;
  EXPECT_FALSE(Find(rows, other));
}

TEST_F(KernelRowsTest, TheErrorGrowsByWhatRowsMissEachOtherBy) {
  const KernelRows same = Rows(Row(1024, 1.2) + Row(1280, 1.2) + Row(1536, 1.2));
  const KernelRows different = Rows(Row(1024, 1.6) + Row(1280, 1.0) + Row(1536, 1.6));
  const auto little = Find(same, Cube(1152)), much = Find(different, Cube(1152));
  ASSERT_TRUE(little && much);
  // Three rows that agree do not narrow the bar of the rate.
  EXPECT_GE(little->time.error, Estimate(Cube(1152)).error);
  EXPECT_LT(little->time.error, Estimate(Cube(1152)).error + 0.03);
  EXPECT_GT(much->time.error, 0.25);
}

TEST_F(KernelRowsTest, RowsAreComparedWithWhatTheOthersMakeOfThem) {
  const KernelRows rows = Rows(Row(1024, 1.2) + Row(1280, 1.2) + Row(16384, 0.9));
  const auto compared = rows.Compare();
  ASSERT_EQ(compared.size(), 3);
  EXPECT_EQ(compared[0].row, "gemm\tbf16\tforward\t*\t1024x1024x1024x1");
  EXPECT_NEAR(compared[0].modelled_s, compared[0].measured_s / 1.2, 1e-9);
  ASSERT_TRUE(compared[0].others_s);
  EXPECT_NEAR(*compared[0].others_s, compared[0].measured_s, 0.02 * compared[0].measured_s);

  EXPECT_EQ(compared[2].row, "gemm\tbf16\tforward\t*\t16384x16384x16384x1");
  EXPECT_FALSE(compared[2].others_s);
}

TEST_F(KernelRowsTest, RowsAndColumnsOfAProductMayBeSwapped) {
  KernelWork work = Cube(1024);
  work.shape = {2048, 1024, 512, 1};
  const KernelRows rows = Rows(absl::StrCat("gemm\tbf16\tforward\t*\t1024x2048x512x1\t", work.flops,
                                            "\t1\t1\t20\t0.02\ttest\n"));
  const auto found = Find(rows, work);
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->measured);
}

TEST_F(KernelRowsTest, ErrorsNameTheLine) {
  for (const char* wrong : {"gemm\tbf16\n", "gem\tbf16\tforward\t*\t1\t1\t1\t1\t1\t0\ta\n",
                            "gemm\tbf61\tforward\t*\t1\t1\t1\t1\t1\t0\ta\n",
                            "gemm\tbf16\tforward\t*\t1x-1\t1\t1\t1\t1\t0\ta\n",
                            "gemm\tbf16\tforward\t*\t1x1x1x1x1x1\t1\t1\t1\t1\t0\ta\n",
                            "gemm\tbf16\tforward\t*\t-\t1\t1\t1\t0\t0\ta\n",
                            "gemm\tbf16\tsideways\t*\t-\t1\t1\t1\t1\t0\ta\n"}) {
    const auto rows = KernelRows::Parse(std::string(kHeader) + wrong, rates_, kSms);
    EXPECT_FALSE(rows.ok()) << wrong;
    EXPECT_NE(rows.status().message().find("line 3"), absl::string_view::npos) << rows.status();
  }
  EXPECT_FALSE(KernelRows::Parse("family\n", rates_, kSms).ok());
}

TEST_F(KernelRowsTest, WhatIsShippedCanBeRead) {
  for (const std::string& gpu : GpuProfileNames()) {
    const auto rates = FindGpuRates(gpu);
    ASSERT_TRUE(rates.ok());
    EXPECT_TRUE(KernelRows::Find(gpu, *rates, kSms).ok()) << gpu;
  }
}

}  // namespace
}  // namespace phantora
