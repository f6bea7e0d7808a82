#include "tools/observe/compare_reports.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace phantora {
namespace {

nlohmann::json Report(double step_s, double kernel_s, int64_t memory) {
  const nlohmann::json step = {{"s", step_s},
                               {"compute_s", step_s / 2},
                               {"exposed_communication_s", 0.0},
                               {"idle_s", step_s / 4},
                               {"mfu", 0.4}};
  return {{"schema", "phantora report"},
          {"schema_version", 1},
          {"run",
           {{"command", {"python", "train.py"}},
            {"product", "H100"},
            {"gpus", 1},
            {"driver", "550"},
            {"host_time", "fixed"},
            {"kernel_prices", "a model"}}},
          {"nccl", nlohmann::json::array()},
          {"ranks",
           {{{"name", "rank 0"},
             {"simulated_s", 3.0},
             {"gpu_busy_s", 2.0},
             {"peak_memory_bytes", memory},
             {"largest_kernels", {{{"name", "product"}, {"total_s", kernel_s}}}},
             {"steps", {{"median", step}}}}}}};
}

std::string Compared(const nlohmann::json& first, const nlohmann::json& second) {
  return absl::StrJoin(CompareReports(first, second), "\n");
}

TEST(CompareReportsTest, SecondOverFirst) {
  const std::string text = Compared(Report(0.010, 1, 1 << 20), Report(0.011, 0.5, 1 << 20));
  const auto has = [&](const char* words) { return text.find(words) != text.npos; };
  EXPECT_TRUE(has("rank 0: step                                         10.000         11.000 ms"))
      << text;
  EXPECT_TRUE(has("+10.0 %")) << text;
  EXPECT_TRUE(has("  product                                          1000.000        500.000 ms"))
      << text;
  EXPECT_TRUE(has("-50.0 %")) << text;
  EXPECT_TRUE(has("1.000          1.000 MiB      =")) << text;
}

TEST(CompareReportsTest, RequestsOfBoth) {
  nlohmann::json first = Report(1, 1, 1), second = first;
  EXPECT_EQ(Compared(first, second).find("requests"), std::string::npos);
  first["requests"]["summary"] = {{"requests_per_s", 2.0}, {"ttft", {{"mean_s", 0.5}}}};
  EXPECT_EQ(Compared(first, second).find("requests"), std::string::npos);
  second["requests"]["summary"] = {{"requests_per_s", 4.0},
                                   {"ttft", {{"mean_s", 0.25}, {"p99_s", 1.0}}}};
  const std::string text = Compared(first, second);
  EXPECT_NE(text.find("requests: rate"), text.npos) << text;
  EXPECT_NE(text.find("500.000        250.000 ms       -50.0 %"), text.npos) << text;
  EXPECT_EQ(text.find("99 %"), text.npos) << text;
}

TEST(CompareReportsTest, WhatIsMissingIsSaid) {
  nlohmann::json other = Report(1, 1, 1);
  other["ranks"].push_back(other["ranks"][0]);
  other["run"]["driver"] = "535";
  const std::string text = Compared(Report(1, 1, 1), other);
  EXPECT_NE(text.find("A has 1 ranks, B 2"), text.npos) << text;
  EXPECT_NE(text.find("driver: \"550\", \"535\""), text.npos) << text;
  other.erase("nccl");
  EXPECT_NE(Compared(Report(1, 1, 1), other).find("incomplete"), std::string::npos);
}

TEST(CompareReportsTest, FilesThatAreNoReports) {
  const std::string folder = absl::StrCat(testing::TempDir(), "/compare", getpid());
  std::filesystem::create_directories(folder);
  EXPECT_TRUE(absl::IsNotFound(ReadReport(folder).status()));
  const std::string file = absl::StrCat(folder, "/report.json");
  std::ofstream(file) << "{}";
  EXPECT_TRUE(absl::IsInvalidArgument(ReadReport(folder).status()));
  std::ofstream(file) << R"({"schema": 5, "schema_version": []})";
  EXPECT_TRUE(absl::IsInvalidArgument(ReadReport(file).status()));
  std::ofstream(file) << "{";
  EXPECT_TRUE(absl::IsInvalidArgument(ReadReport(file).status()));
  std::ofstream(file) << Report(1, 1, 1);
  EXPECT_TRUE(ReadReport(folder).ok() && ReadReport(file).ok());
}

}  // namespace
}  // namespace phantora
