#include "fabric/collectives/host_measurements.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "fabric/collectives/nccl_topology.h"
#include "fabric/collectives/operation_plans.h"
#include "fabric/collectives/table_check.h"

namespace phantora {
namespace {

constexpr int64_t kMib = 1 << 20;

double Us(VirtualSpan span) { return static_cast<double>(span.picoseconds()) / 1e6; }

// The first so many GPUs of a host.
class Host {
 public:
  explicit Host(const std::string& cluster, int count, const std::string& algorithms = "")
      : fabric_(*ClusterFabric::Create(*FindCluster(cluster))),
        measurements_(fabric_.get()),
        limits_(*ParseNcclLimits(algorithms, "")) {
    for (int gpu = 0; gpu < count; ++gpu) ranks_.push_back({0, gpu});
    topology_ = TopologyOf(*fabric_, ranks_, limits_);
  }

  Plan Of(NcclCollective collective, int64_t bytes, bool corrected) {
    Plan plan = *PlanCollective(*fabric_, topology_, ranks_, collective, bytes, limits_, 1);
    if (corrected) measurements_.Correct(topology_, collective, bytes, true, plan);
    return plan;
  }
  double Takes(const std::vector<Plan>& plans) {
    VirtualSpan longest;
    for (const VirtualSpan span : RunAlone(fabric_->network(), plans, now_)) {
      longest = std::max(longest, span);
    }
    now_ = now_ + longest;
    return Us(longest);
  }
  double Takes(NcclCollective collective, int64_t bytes, bool corrected = true) {
    return Takes({Of(collective, bytes, corrected)});
  }
  double Exchange(int64_t bytes, bool corrected) {
    auto plans = *PlansOf(*fabric_, topology_, ranks_, BenchmarkedOperation::kAllToAll, bytes, {});
    const int ranks = topology_.ranks;
    for (Plan& plan : plans) {
      if (corrected) measurements_.CorrectExchange(topology_, bytes / ranks, ranks - 1, plan);
    }
    return Takes(plans);
  }

 private:
  std::unique_ptr<ClusterFabric> fabric_;
  HostMeasurements measurements_;
  NcclLimits limits_;
  std::vector<GpuPlace> ranks_;
  NcclTopology topology_;
  VirtualTime now_;
};

// The row of fabric/data/in_a_host.
double Measured(const std::string& gpu, const std::string& name, int64_t bytes) {
  for (const EmbeddedFile& file : HostData()) {
    if (std::string(file.name) != "fabric/data/in_a_host/" + gpu + ".tsv") continue;
    const auto tables = ParseMeasuredTables("", std::string(file.content));
    for (const MeasuredTable& table : *tables) {
      if (table.name != name) continue;
      for (const auto& row : table.rows) {
        if (row.bytes == bytes) return row.us;
      }
    }
  }
  return NAN;
}

TEST(HostMeasurementsTest, WhatWasMeasuredTakesAsLong) {
  Host host("dgx-h100:1", 8);
  for (const int64_t bytes : {int64_t{2048}, kMib, 256 * kMib}) {
    const double us = Measured("h100-sxm5-80gb", "8 GPUs, all-reduce of half", bytes);
    EXPECT_NEAR(host.Takes(NcclCollective::kAllReduce, bytes), us, us * 1e-3) << bytes;
    const double exchange = Measured("h100-sxm5-80gb", "8 GPUs, all-to-all", bytes);
    EXPECT_NEAR(host.Exchange(bytes, true), exchange, exchange * 1e-3) << bytes;
  }
  Host two("dgx-a100:1", 2);
  const double us = Measured("a100-sxm4-80gb", "2 GPUs, all-gather", 32 * kMib);
  EXPECT_NEAR(two.Takes(NcclCollective::kAllGather, 32 * kMib), us, us * 1e-3);
}

TEST(HostMeasurementsTest, BetweenNumbersOfRanksTheRatioIsInBetween) {
  const auto ratio = [](int ranks) {
    Host host("dgx-h100:1", ranks);
    return host.Takes(NcclCollective::kAllGather, 8 * kMib) /
           host.Takes(NcclCollective::kAllGather, 8 * kMib, false);
  };
  const double four = ratio(4), six = ratio(6), eight = ratio(8);
  EXPECT_GE(six, std::min(four, eight));
  EXPECT_LE(six, std::max(four, eight));
}

TEST(HostMeasurementsTest, OnlyWhatNcclChoosesByItselfWasMeasured) {
  Host rings("dgx-h100:1", 8, "Ring");
  EXPECT_EQ(rings.Takes(NcclCollective::kAllReduce, 256 * kMib),
            rings.Takes(NcclCollective::kAllReduce, 256 * kMib, false));
  Host host("dgx-h100:1", 8);
  EXPECT_EQ(host.Takes(NcclCollective::kBroadcast, kMib),
            host.Takes(NcclCollective::kBroadcast, kMib, false));
  Host processors("ethernet-2gpu:1", 2);  // no NVLink
  EXPECT_EQ(processors.Takes(NcclCollective::kAllReduce, kMib),
            processors.Takes(NcclCollective::kAllReduce, kMib, false));
}

TEST(HostMeasurementsTest, GpusOfAGenerationAreAlike) {
  Host measured("dgx-h100:1", 8), other("grand-teton-h100:1", 8);
  EXPECT_EQ(measured.Takes(NcclCollective::kAllReduce, 64 * kMib),
            other.Takes(NcclCollective::kAllReduce, 64 * kMib));
}

// A link that two share is what both wait for, corrected or not.
TEST(HostMeasurementsTest, SharersTakeTwiceAsLong) {
  Host host("dgx-h100:1", 8);
  const Plan plan = host.Of(NcclCollective::kAllReduce, 1024 * kMib, true);
  const double alone = host.Takes({plan});
  EXPECT_NEAR(host.Takes({plan, plan}) / alone, 2, 0.2);
}

TEST(HostMeasurementsTest, MoreBytesTakeLonger) {
  for (const char* name : {"dgx-h100:1", "dgx-h200:1", "dgx-a100:1"}) {
    for (const int ranks : {2, 3, 8}) {
      Host host(name, ranks);
      for (const auto collective : {NcclCollective::kAllReduce, NcclCollective::kAllGather,
                                    NcclCollective::kReduceScatter}) {
        double before = 0;
        for (int64_t bytes = 8; bytes <= 4096 * kMib; bytes *= 2) {
          const double took = host.Takes(collective, bytes);
          EXPECT_GT(took, 0.85 * before)
              << name << " " << ranks << " " << static_cast<int>(collective) << " " << bytes;
          before = took;
        }
      }
    }
  }
}

// Of other runs; of the A100, sizes that were left out.
TEST(HostMeasurementsTest, HeldOutMeasurementsAreNear) {
  for (const char* gpu : {"a100-sxm4-80gb", "h100-sxm5-80gb", "h200-sxm5-141gb"}) {
    std::ifstream file(std::string("fabric/data/held_out/") + gpu + ".tsv");
    std::stringstream text;
    text << file.rdbuf();
    const auto tables = ParseMeasuredTables(gpu, text.str());
    ASSERT_TRUE(tables.ok()) << tables.status();
    std::map<bool, std::vector<double>> errors;  // corrected or not
    for (const MeasuredTable& table : *tables) {
      for (const bool corrected : {false, true}) {
        const auto checked = Check(table, corrected);
        ASSERT_TRUE(checked.ok()) << checked.status();
        for (const CheckedRow& row : checked->rows)
          errors[corrected].push_back(std::abs(row.error));
      }
    }
    for (auto& [corrected, of] : errors) std::sort(of.begin(), of.end());
    ASSERT_GT(errors[true].size(), 100u);
    const auto part = [](const std::vector<double>& of, double share) {
      return of[static_cast<size_t>(share * static_cast<double>(of.size() - 1))];
    };
    EXPECT_LT(part(errors[true], 0.5), 0.035) << gpu;
    EXPECT_LT(part(errors[true], 0.9), 0.10) << gpu;
    EXPECT_LT(part(errors[true], 0.5), part(errors[false], 0.5) / 3) << gpu;
  }
}

TEST(HostMeasurementsTest, NothingThatIsHeldOutIsInTheProgram) {
  EXPECT_EQ(HostData().size(), 3u);
  for (const EmbeddedFile& file : HostData()) {
    EXPECT_EQ(std::string(file.name).rfind("fabric/data/in_a_host/", 0), 0u) << file.name;
    EXPECT_TRUE(ParseMeasuredTables(std::string(file.name), std::string(file.content)).ok());
  }
  for (const EmbeddedFile& file : MeasuredData()) {
    EXPECT_EQ(std::string(file.name).find("held_out"), std::string::npos) << file.name;
  }
}

}  // namespace
}  // namespace phantora
