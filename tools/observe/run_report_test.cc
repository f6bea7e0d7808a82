#include "tools/observe/run_report.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "tools/observe/run_summary.h"
#include "tools/run/launcher_rank.h"
#include "trap/gpu/front/qmd.h"

namespace phantora {
namespace {

constexpr VirtualTime kStart = VirtualTime::FromNanoseconds(1'000'000);

VirtualSpan Us(int64_t us) { return VirtualSpan::Microseconds(us); }

class RunReportTest : public testing::Test {
 protected:
  RunReportTest()
      : recorder_({.start = kStart,
                   .now = [this](pid_t) { return kStart + now_; },
                   .launcher_rank = [this](pid_t) { return launcher_rank_; }}) {}

  void Kernel(pid_t process, int64_t start_us, int64_t us, uint64_t fingerprint,
              PriceSource source = PriceSource::kPlaceholder) {
    recorder_.Kernel({.process = process,
                      .gpu = 0,
                      .channel = 5,
                      .start = kStart + Us(start_us),
                      .duration = Us(us),
                      .source = source},
                     Qmd{}, {fingerprint, nullptr});
  }
  nlohmann::ordered_json Report() { return BuildReport(run_, recorder_); }

  VirtualSpan now_;
  std::optional<int> launcher_rank_;
  RunDescription run_{.command = {"python", "</script><b>\xff"},
                      .gpu = "h100",
                      .product = "H100",
                      .driver = "550",
                      .host_time = "fixed",
                      .price_source = "a test",
                      .unknowns = "  control 0x1: 2 times\n",
                      .steps = {}};
  RunRecorder recorder_;
};

TEST_F(RunReportTest, AddsUpARank) {
  Kernel(7, 0, 10, 0xaaaaaaaa00000000);
  Kernel(7, 5, 10, 0xbbbbbbbb00000000, PriceSource::kMeasured);
  Kernel(7, 20, 10, 0xbbbbbbbb00000000);
  recorder_.Copy({.process = 7,
                  .gpu = 1,
                  .channel = 6,
                  .start = kStart + Us(40),
                  .duration = Us(10),
                  .source = PriceSource::kModelled},
                 4096, CopyKind::kDeviceToHost);
  recorder_.VideoMemory(7, 0, 1000);
  now_ = Us(60);
  recorder_.VideoMemory(7, 0, -400);
  recorder_.End(7, Us(100), Us(30));
  recorder_.VideoMemory(7, 0, -600);  // after its death
  const auto report = Report();
  ASSERT_EQ(report["ranks"].size(), 1u);
  const auto& rank = report["ranks"][0];
  EXPECT_EQ(rank["name"], "process 0");
  EXPECT_DOUBLE_EQ(rank["simulated_s"], 100e-6);
  EXPECT_DOUBLE_EQ(rank["gpu_busy_s"], 35e-6);
  EXPECT_DOUBLE_EQ(rank["kernel_s"], 30e-6);
  EXPECT_DOUBLE_EQ(rank["waited_s"], 30e-6);
  EXPECT_EQ(rank["peak_memory_bytes"], 1000);
  EXPECT_EQ(rank["copies_by_kind"]["device_to_host"]["bytes"], 4096);
  EXPECT_EQ(rank["gpus"], nlohmann::ordered_json::parse("[0, 1]"));
  EXPECT_DOUBLE_EQ(rank["time_by_source"]["measured"]["share"], 0.25);
  EXPECT_DOUBLE_EQ(rank["time_by_source"]["modelled"]["share"], 0.25);
  EXPECT_DOUBLE_EQ(rank["time_by_source"]["placeholder"]["share"], 0.5);
  const auto& largest = rank["largest_kernels"];
  ASSERT_EQ(largest.size(), 2u);
  EXPECT_EQ(largest[0]["name"], "kernel bbbbbbbb");
  EXPECT_EQ(largest[0]["count"], 2);
  EXPECT_EQ(largest[0]["source"], "mixed");
  EXPECT_EQ(largest[1]["source"], "placeholder");
  EXPECT_EQ(report["unknowns"][0], "control 0x1: 2 times");
}

TEST_F(RunReportTest, NumbersComeFromTheLauncherOrTheOrderOfWork) {
  Kernel(30, 0, 1, 1);
  launcher_rank_ = 4;
  Kernel(10, 0, 1, 1);
  Kernel(11, 0, 1, 1);  // a child of rank 4 that uses a GPU too
  launcher_rank_.reset();
  recorder_.End(30, Us(1), Us(0));
  Kernel(30, 0, 1, 1);  // the process id is used again
  const auto ranks = recorder_.ranks();
  ASSERT_EQ(ranks.size(), 4u);
  EXPECT_EQ(ranks[0]->name, "process 0");
  EXPECT_EQ(ranks[1]->name, "process 1");
  EXPECT_EQ(ranks[2]->name, "rank 4");
  EXPECT_EQ(ranks[3]->name, "rank 4 (another process)");
  EXPECT_EQ(ranks[3]->number, 5);
}

TEST_F(RunReportTest, TheCommandCannotBreakThePage) {
  const std::string page = ReportPage(Report());
  EXPECT_EQ(page.find("@REPORT@"), std::string::npos);
  EXPECT_EQ(page.find("</script><b>"), std::string::npos);
  EXPECT_NE(page.find("\\u003c/script>\\u003cb>"), std::string::npos);
  EXPECT_EQ(page.find("http"), std::string::npos);
}

TEST_F(RunReportTest, AnUnwritableDirectoryIsAnError) {
  EXPECT_FALSE(ReportFiles::Open("/proc/nowhere").ok());
  EXPECT_FALSE(ReportFiles::Open("/dev/null").ok());
  EXPECT_TRUE(ReportFiles::Open(testing::TempDir() + "/new/report").ok());
}

TEST_F(RunReportTest, TheSummaryIsAlignedAndShort) {
  EXPECT_TRUE(Summary(recorder_, 3).empty());
  for (int i = 0; i < 12; ++i) Kernel(100 + i, 0, 10 + i, 1);
  for (int i = 0; i < 12; ++i) recorder_.End(100 + i, Us(1000), Us(0));
  const auto lines = Summary(recorder_, 3);
  ASSERT_EQ(lines.size(), 1 + 2 * 8 + 1u);
  EXPECT_EQ(lines[0].find("simulated") + 9, lines[1].find(" s ") + 2);
  EXPECT_NE(lines.back().find("4 more"), std::string::npos);
}

TEST(LauncherRankTest, ReadsWhatLaunchersSet) {
  using std::string_literals::operator""s;
  EXPECT_EQ(RankInEnvironment("A=1\0RANK=3\0SLURM_PROCID=9\0"s), 3);
  EXPECT_EQ(RankInEnvironment("LOCAL_RANK=3\0SLURM_PROCID=9\0"s), 9);
  EXPECT_EQ(RankInEnvironment("RANK=x\0PMI_RANK=2\0"s), 2);
  EXPECT_EQ(RankInEnvironment("RANK=-1\0"s), std::nullopt);
  EXPECT_EQ(RankInEnvironment(""), std::nullopt);
}

}  // namespace
}  // namespace phantora
