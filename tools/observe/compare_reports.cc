#include "tools/observe/compare_reports.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace phantora {
namespace {

using Json = nlohmann::json;

constexpr int kSchemaVersion = 1;
constexpr size_t kMostRanks = 8, kMostKernels = 10;

std::string Ratio(double first, double second) {
  if (first == second) return "=";
  if (first == 0) return "new";
  return absl::StrFormat("%+.1f %%", 100 * (second / first - 1));
}

class Table {
 public:
  void Add(const std::string& what, double first, double second, double scale, const char* unit) {
    lines_.push_back(absl::StrFormat("%-44.44s %14.3f %14.3f %-8s %s", what, first * scale,
                                     second * scale, unit, Ratio(first, second)));
  }
  void Say(std::string line) { lines_.push_back(std::move(line)); }
  std::vector<std::string> Take() { return std::move(lines_); }

 private:
  std::vector<std::string> lines_;
};

std::string CommandOf(const Json& report) {
  std::string text;
  for (const Json& word : report.at("run").at("command")) {
    absl::StrAppend(&text, text.empty() ? "" : " ", word.get<std::string>());
  }
  return text;
}

void AddRank(const std::string& name, const Json& first, const Json& second, Table& table) {
  const auto add = [&](const char* what, const char* key, double scale, const char* unit) {
    table.Add(absl::StrCat(name, ": ", what), first.at(key), second.at(key), scale, unit);
  };
  add("simulated", "simulated_s", 1, "s");
  add("GPU busy", "gpu_busy_s", 1, "s");
  add("peak memory", "peak_memory_bytes", 1.0 / (1 << 20), "MiB");
  if (!first.contains("steps") || !second.contains("steps")) return;
  const Json &a = first.at("steps").at("median"), &b = second.at("steps").at("median");
  const std::pair<const char*, const char*> parts[] = {
      {"step", "s"},
      {"step, kernels", "compute_s"},
      {"step, exposed communication", "exposed_communication_s"},
      {"step, idle", "idle_s"}};
  for (const auto& [what, key] : parts) {
    table.Add(absl::StrCat(name, ": ", what), a.at(key), b.at(key), 1e3, "ms");
  }
  if (a.contains("mfu") && b.contains("mfu")) {
    table.Add(absl::StrCat(name, ": of bf16's peak"), a["mfu"], b["mfu"], 100, "%");
  }
}

// Sums by name.
std::map<std::string, double> Sums(const Json& list, const char* name, const char* value) {
  std::map<std::string, double> sums;
  for (const Json& one : list) sums[one.at(name).get<std::string>()] += one.at(value).get<double>();
  return sums;
}

void AddLargest(const char* what, const std::map<std::string, double>& first,
                const std::map<std::string, double>& second, Table& table) {
  const auto in = [](const std::map<std::string, double>& sums, const std::string& name) {
    const auto found = sums.find(name);
    return found == sums.end() ? 0.0 : found->second;
  };
  std::set<std::string> all;
  for (const auto* sums : {&first, &second}) {
    for (const auto& [name, value] : *sums) all.insert(name);
  }
  std::vector<std::string> names(all.begin(), all.end());
  const auto differs = [&](const std::string& name) {
    return std::abs(in(second, name) - in(first, name));
  };
  std::stable_sort(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
    return differs(a) > differs(b);
  });
  if (names.size() > kMostKernels) names.resize(kMostKernels);
  if (!names.empty()) table.Say(absl::StrCat("\n", what));
  for (const std::string& name : names) {
    table.Add(absl::StrCat("  ", name), in(first, name), in(second, name), 1e3, "ms");
  }
}

// What a client of a server measured in both.
void AddRequests(const Json& first, const Json& second, Table& table) {
  if (!first.contains("requests") || !second.contains("requests")) return;
  const Json &a = first.at("requests").at("summary"), &b = second.at("requests").at("summary");
  const auto add = [&](const std::string& what, const Json& from, const Json& to, const char* key,
                       double scale, const char* unit) {
    if (from.contains(key) && to.contains(key)) {
      table.Add(absl::StrCat("requests: ", what), from.at(key), to.at(key), scale, unit);
    }
  };
  add("rate", a, b, "requests_per_s", 1, "1/s");
  add("output tokens", a, b, "output_tokens_per_s", 1, "1/s");
  const std::pair<const char*, const char*> latencies[] = {
      {"TTFT", "ttft"}, {"TPOT", "tpot"}, {"end to end", "latency"}};
  for (const auto& [what, key] : latencies) {
    if (!a.contains(key) || !b.contains(key)) continue;
    add(absl::StrCat(what, ", mean"), a.at(key), b.at(key), "mean_s", 1e3, "ms");
    add(absl::StrCat(what, ", 99 % within"), a.at(key), b.at(key), "p99_s", 1e3, "ms");
  }
  if (a.contains("goodput") && b.contains("goodput")) {
    add("within the objective", a.at("goodput"), b.at("goodput"), "share", 100, "%");
  }
}

}  // namespace

absl::StatusOr<Json> ReadReport(const std::string& path) {
  std::error_code unreadable;
  const std::string file =
      std::filesystem::is_directory(path, unreadable) ? absl::StrCat(path, "/report.json") : path;
  std::ifstream in(file);
  if (!in) return absl::NotFoundError(absl::StrCat("cannot read ", file));
  Json report = Json::parse(in, nullptr, false);
  const auto is = [&report](const char* key, const Json& value) {
    const auto found = report.find(key);
    return found != report.end() && *found == value;
  };
  if (report.is_discarded() || !report.is_object() || !is("schema", "phantora report")) {
    return absl::InvalidArgumentError(absl::StrCat(file, " is no report of phantora-run"));
  }
  if (!is("schema_version", kSchemaVersion)) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, " has another version of the report's schema than ", kSchemaVersion));
  }
  return report;
}

std::vector<std::string> CompareReports(const Json& first, const Json& second) {
  Table table;
  try {
    table.Say(absl::StrCat("A: ", CommandOf(first)));
    table.Say(absl::StrCat("B: ", CommandOf(second)));
    for (const char* key : {"product", "gpus", "driver", "host_time", "kernel_prices"}) {
      const Json &a = first.at("run").at(key), &b = second.at("run").at(key);
      if (a != b) table.Say(absl::StrCat(key, ": ", a.dump(), ", ", b.dump()));
    }
    table.Say(absl::StrFormat("\n%-44s %14s %14s", "", "A", "B"));
    const auto &ranks = first.at("ranks"), &others = second.at("ranks");
    for (size_t i = 0; i < std::min({ranks.size(), others.size(), kMostRanks}); ++i) {
      AddRank(ranks[i].at("name"), ranks[i], others[i], table);
    }
    AddRequests(first, second, table);
    const size_t both = std::min(ranks.size(), others.size());
    if (ranks.size() != others.size()) {
      table.Say(absl::StrCat("A has ", ranks.size(), " ranks, B ", others.size()));
    } else if (both > kMostRanks) {
      table.Say(absl::StrCat("and ", both - kMostRanks, " ranks more"));
    }
    if (both > 0) {
      AddLargest("kernels of the first rank (of the ten longest of each) that differ most",
                 Sums(ranks[0].at("largest_kernels"), "name", "total_s"),
                 Sums(others[0].at("largest_kernels"), "name", "total_s"), table);
    }
    AddLargest("NCCL on the network", Sums(first.at("nccl"), "operation", "network_s"),
               Sums(second.at("nccl"), "operation", "network_s"), table);
  } catch (const Json::exception& error) {
    table.Say(absl::StrCat("a report is incomplete: ", error.what()));
  }
  return table.Take();
}

}  // namespace phantora
