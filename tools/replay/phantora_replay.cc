// phantora-replay: what a recorded training step takes on larger clusters.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "fabric/cluster/cluster.h"
#include "tools/replay/chakra_trace.h"
#include "tools/replay/rank_axes.h"
#include "tools/replay/replayed_trace.h"
#include "tools/replay/scaled_ranks.h"
#include "tools/replay/size_fit.h"
#include "tools/replay/step_period.h"
#include "tools/replay/step_record.h"
#include "tools/replay/step_replay.h"
#include "tools/version.h"

namespace phantora {
namespace {

struct Options {
  std::string file, second, axes, json, trace, chakra;
  std::vector<std::string> clusters, scale, stragglers;
  size_t operations = 0;
  int gpus = 0;  // ranks of a host; 0: as recorded
  bool roles = false;
  ReplayOptions replay;
};

int Fail(const std::string& what) {
  std::fprintf(stderr, "phantora-replay: %s\n", what.c_str());
  return 1;
}
int Fail(const std::string& where, const absl::Status& status) {
  return Fail(absl::StrCat(where, ": ", std::string(status.message())));
}

double Milliseconds(VirtualSpan span) { return static_cast<double>(span.picoseconds()) * 1e-9; }
double MiB(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

// "dp=4" and so on.
absl::StatusOr<std::map<std::string, int>> ParseScale(const std::vector<std::string>& texts) {
  std::map<std::string, int> scale;
  for (const std::string& text : texts) {
    const std::pair<std::string, std::string> split = absl::StrSplit(text, absl::MaxSplits('=', 1));
    int size = 0;
    if (split.first.empty() || !absl::SimpleAtoi(split.second, &size) || size < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("--scale ", text, ": an axis and its size, as in dp=64"));
    }
    scale[split.first] = size;
  }
  return scale;
}

// "17=1.2" and so on: a rank, and how many times as long its kernels take.
absl::StatusOr<std::map<int, double>> ParseStragglers(const std::vector<std::string>& texts) {
  std::map<int, double> slower;
  for (const std::string& text : texts) {
    const std::pair<std::string, std::string> split = absl::StrSplit(text, absl::MaxSplits('=', 1));
    int rank = 0;
    double factor = 0;
    if (!absl::SimpleAtoi(split.first, &rank) || rank < 0 ||
        !absl::SimpleAtod(split.second, &factor) || !(factor > 0 && factor < 1e6)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--straggler ", text, ": a rank and how many times as long it takes, as in 17=1.2"));
    }
    slower[rank] = factor;
  }
  return slower;
}

// The scale that fills a cluster, by its data parallel axis.
absl::StatusOr<std::map<std::string, int>> ScaleToFill(const StepRecord& record,
                                                       const RankAxes& axes, const Cluster& cluster,
                                                       int gpus) {
  const int64_t ranks = int64_t{cluster.hosts} * (gpus > 0 ? gpus : record.gpus);
  if (ranks == axes.ranks()) return std::map<std::string, int>();
  const int axis = axes.Find("dp");
  if (axis < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("none of the axes ", axes.Text(), " is dp: say with --axes what they are"));
  }
  const int rest = axes.ranks() / axes.all()[static_cast<size_t>(axis)].size;
  if (ranks % rest != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "its ", ranks, " GPUs are no multiple of the ", rest, " ranks of ", axes.Text(),
        " that have one place along dp: say with --scale how many are wanted"));
  }
  return std::map<std::string, int>{{"dp", static_cast<int>(ranks / rest)}};
}

// Of each role.
absl::StatusOr<std::vector<StepPeriod>> PeriodsOf(const StepRecord& record, size_t operations) {
  std::vector<StepPeriod> periods;
  for (size_t role = 0; role < record.roles.size(); ++role) {
    // Others do not have as many operations in a step.
    const bool is_first = role == record.ranks[0].role;
    auto period = FindSteps(record.roles[role], is_first ? operations : 0);
    if (!period.ok()) return period.status();
    periods.push_back(*std::move(period));
  }
  return periods;
}

void TellRecording(const StepRecord& record, const std::vector<StepPeriod>& periods,
                   const absl::StatusOr<RankAxes>& axes) {
  const uint32_t first = record.ranks[0].role;
  const StepRecord::Role& role = record.roles[first];
  const VirtualSpan recorded =
      StepTime(periods[first], [&](uint32_t node) { return role.nodes[node].end; });
  std::printf("%zu NCCL operations repeat %zu times: a step; it took %.3f ms on %zu GPUs\n",
              periods[first].operations, periods[first].ends.size(), Milliseconds(recorded),
              record.ranks.size());
  if (axes.ok()) {
    std::printf("axes: %s (%zu roles)\n", axes->Text().c_str(), record.roles.size());
  } else {
    std::printf("axes: none found (%s): it cannot be scaled\n",
                std::string(axes.status().message()).c_str());
  }
  const auto truncated = [](const auto& one) { return one.truncated; };
  if (std::any_of(record.roles.begin(), record.roles.end(), truncated)) {
    std::printf("the recording ends before the run\n");
  }
  if (role.lost_releases > 0) {
    std::printf("%llu waits of streams for something else than the GPU's own work are left out\n",
                static_cast<unsigned long long>(role.lost_releases));
  }
}

nlohmann::json JsonOf(const std::string& cluster, const ReplayedStep& step,
                      const ScaledRanks& ranks) {
  nlohmann::json roles = nlohmann::json::array();
  for (const ReplayedStep::Role& role : step.roles) {
    roles.push_back({{"first_rank", role.first},
                     {"ranks", role.ranks},
                     {"step_ms", Milliseconds(role.time)},
                     {"nccl_ms", Milliseconds(role.communication)},
                     {"exposed_ms", Milliseconds(role.exposed)},
                     {"memory_bytes", role.memory}});
  }
  nlohmann::json axes = nlohmann::json::object();
  for (const RankAxis& axis : ranks.axes().all()) axes[axis.name] = axis.size;
  return {{"cluster", cluster}, {"gpus", step.gpus}, {"axes", axes}, {"roles", roles}};
}

void TellRoles(const ReplayedStep& step, const ScaledRanks& ranks) {
  std::printf(
      "\n| rank | ranks like it | axes | step ms | NCCL ms | exposed ms | memory MiB |\n"
      "|---|---|---|---|---|---|---|\n");
  for (const ReplayedStep::Role& role : step.roles) {
    std::string at;
    const auto coordinates = ranks.axes().CoordinatesOf(role.first);
    for (size_t axis = 0; axis < coordinates.size(); ++axis) {
      absl::StrAppend(&at, axis == 0 ? "" : " ", ranks.axes().all()[axis].name, " ",
                      coordinates[axis]);
    }
    std::printf("| %d | %d | %s | %.3f | %.3f | %.3f | %.0f |\n", role.first, role.ranks,
                at.c_str(), Milliseconds(role.time), Milliseconds(role.communication),
                Milliseconds(role.exposed), MiB(role.memory));
  }
  std::printf("\n");
}

struct Second {
  StepRecord record;
  RankAxes axes;
};

// `axes`: what somebody says those of the first recording are; the second's differ in a size.
absl::StatusOr<Second> ReadSecond(const std::string& file, const RankAxes& first, bool guessed) {
  auto record = ReadStepRecord(file);
  if (!record.ok()) return record.status();
  if (guessed) {
    auto axes = FindAxes(*record);
    if (!axes.ok()) return axes.status();
    return Second{*std::move(record), *std::move(axes)};
  }
  // All that can differ is dp.
  std::vector<RankAxis> axes = first.all();
  const int dp = first.Find("dp");
  if (dp < 0) return absl::InvalidArgumentError("none of --axes is dp");
  const auto ranks = static_cast<int>(record->ranks.size());
  auto& size = axes[static_cast<size_t>(dp)].size;
  size = std::max(ranks / (first.ranks() / size), 1);
  if (RankAxes(axes).ranks() != ranks) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, " has ", ranks, " ranks, which do not fit to --axes"));
  }
  return Second{*std::move(record), RankAxes(std::move(axes))};
}

// The first recording with the sizes that it has when it is scaled.
absl::StatusOr<StepRecord> Fit(const StepRecord& record, const RankAxes& axes,
                               const std::vector<StepPeriod>& periods, const Second& second,
                               const std::map<std::string, int>& to) {
  const auto axis = AxisThatDiffers(axes, second.axes);
  if (!axis.ok()) return axis.status();
  const RankAxis& differs = axes.all()[*axis];
  for (const auto& [name, size] : to) {
    if (name == differs.name) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the two recordings differ in ", differs.name, ", not in ", name));
  }
  const auto size = to.find(differs.name);
  return FitSizes(record, axes, periods, second.record, second.axes,
                  size == to.end() ? differs.size : size->second);
}

int Run(Options options) {
  const auto slower = ParseStragglers(options.stragglers);
  if (!slower.ok()) return Fail(std::string(slower.status().message()));
  options.replay.paces.slower = *slower;
  options.replay.show_roles = !options.trace.empty();
  nlohmann::json rows = nlohmann::json::array();
  const auto record = ReadStepRecord(options.file);
  if (!record.ok()) return Fail(std::string(record.status().message()));
  const auto periods = PeriodsOf(*record, options.operations);
  if (!periods.ok()) return Fail(options.file, periods.status());
  const auto ranks = static_cast<int>(record->ranks.size());
  const auto axes = options.axes.empty() ? FindAxes(*record) : ParseAxes(options.axes, ranks);
  if (!axes.ok() && !options.axes.empty()) return Fail("--axes", axes.status());
  const auto scale = ParseScale(options.scale);
  if (!scale.ok()) return Fail(std::string(scale.status().message()));
  TellRecording(*record, *periods, axes);
  const RankAxes known = axes.ok() ? *axes : RankAxes({{"rank", ranks}});
  std::optional<Second> second;
  if (!options.second.empty()) {
    auto read = ReadSecond(options.second, known, options.axes.empty());
    if (!read.ok()) return Fail(options.second, read.status());
    std::printf("and on %zu GPUs: %s\n", read->record.ranks.size(), read->axes.Text().c_str());
    second = *std::move(read);
  }
  std::vector<std::string> clusters = options.clusters;
  if (clusters.empty()) clusters = {absl::StrCat(record->cluster, ":", record->hosts)};
  const char* const heading =
      "| cluster | GPUs | step ms | speed per GPU | NCCL ms | exposed ms | exposed part | memory "
      "MiB |\n|---|---|---|---|---|---|---|---|\n";
  if (!options.trace.empty() && clusters.size() > 1) return Fail("--trace is of one cluster");
  if (!options.chakra.empty() && clusters.size() > 1) return Fail("--chakra is of one cluster");
  std::printf("\n%s", heading);
  double first = 0;
  for (const std::string& name : clusters) {
    const auto cluster = FindCluster(name);
    if (!cluster.ok()) return Fail(std::string(cluster.status().message()));
    const auto to = scale->empty() ? ScaleToFill(*record, known, *cluster, options.gpus) : scale;
    if (!to.ok()) return Fail(name, to.status());
    absl::StatusOr<StepRecord> fitted;
    if (second) {
      fitted = Fit(*record, known, *periods, *second, *to);
      if (!fitted.ok()) return Fail(name, fitted.status());
    }
    const StepRecord& replayed = second ? *fitted : *record;
    const auto scaled = ScaledRanks::Create(replayed, known, *to, options.gpus, second.has_value());
    if (!scaled.ok()) return Fail(name, scaled.status());
    if (!slower->empty() && slower->rbegin()->first >= scaled->axes().ranks()) {
      return Fail(absl::StrCat(name, ": --straggler ", slower->rbegin()->first, ": it has ",
                               scaled->axes().ranks(), " ranks"));
    }
    const auto step = Replay(replayed, *periods, *scaled, *cluster, options.replay);
    if (!step.ok()) return Fail(name, step.status());
    const ReplayedStep::Role& rank = step->roles[0];
    const double time = Milliseconds(rank.time);
    if (first == 0) first = time;
    const double all = Milliseconds(rank.communication), exposed = Milliseconds(rank.exposed);
    int64_t memory = 0;
    for (const ReplayedStep::Role& role : step->roles) memory = std::max(memory, role.memory);
    std::printf("| %s | %d | %.3f | %.3f | %.3f | %.3f | %.0f %% | %.0f |\n", name.c_str(),
                step->gpus, time, first / time, all, exposed, all > 0 ? 100 * exposed / all : 0,
                MiB(memory));
    rows.push_back(JsonOf(name, *step, *scaled));
    if (!options.trace.empty()) {
      const auto written = WriteReplayedTrace(replayed, *scaled, *step, options.trace);
      if (!written.ok()) return Fail(std::string(written.message()));
    }
    if (!options.chakra.empty()) {
      const auto written = WriteChakraTraces(replayed, *periods, *scaled, options.chakra);
      if (!written.ok()) return Fail("--chakra", written);
      std::fprintf(stderr,
                   "phantora-replay: wrote %s/step.RANK.et of %zu ranks, and comm_groups.json\n",
                   options.chakra.c_str(), scaled->ranks().size());
    }
    if (options.roles) {
      TellRoles(*step, *scaled);
      if (name != clusters.back()) std::printf("%s", heading);
    }
    std::fflush(stdout);
  }
  if (options.json.empty()) return 0;
  std::ofstream out(options.json, std::ios::trunc);
  out << nlohmann::json({{"schema_version", 1}, {"steps", rows}}).dump(2) << "\n";
  out.close();
  if (!out) return Fail(absl::StrCat("cannot write ", options.json));
  return 0;
}

}  // namespace
}  // namespace phantora

int main(int argc, char** argv) {
  CLI::App app(
      "phantora-replay FILE --cluster NAME:HOSTS [--cluster ...]\n\n"
      "What a step that phantora-run --record-step wrote takes on clusters of more hosts of the\n"
      "same kind, with more ranks along its data parallel axis. Times are those of rank 0, memory\n"
      "is the most of any; speeds per GPU are relative to the first cluster.",
      "phantora-replay");
  app.set_version_flag("--version", absl::StrCat("phantora-replay ", phantora::kPhantoraVersion));
  phantora::Options options;
  app.add_option("file", options.file, "the recording")->required();
  app.add_option("--cluster", options.clusters,
                 "a cluster: a preset or a .yaml file, with :N for N hosts; several times or with "
                 "commas (default: that of the recording)")
      ->delimiter(',');
  app.add_option("--scale", options.scale,
                 "the size of an axis, as dp=64 (default: that of dp which fills the cluster)")
      ->delimiter(',');
  app.add_option("--ranks-per-host", options.gpus,
                 "GPUs of each host that have a rank (default: as many as in the recording)")
      ->check(CLI::Range(1, 1 << 10));
  app.add_option("--axes", options.axes,
                 "what the axes are, the fastest first, with their recorded sizes, as "
                 "tp=2,dp=2,pp=2 (default: found from who has communicators with whom)");
  app.add_option("--second", options.second,
                 "a recording of the same program and steps with another size of dp: what ranks do "
                 "with their own parts of something (FSDP, ZeRO), and their memory, are fitted to "
                 "both");
  app.add_flag("--roles", options.roles, "a table of the ranks that do different things, too");
  app.add_option("--straggler", options.stragglers,
                 "a rank whose kernels take longer, and how many times as long, as 17=1.2")
      ->delimiter(',');
  app.add_option("--jitter", options.replay.paces.jitter,
                 "how much each kernel of each rank varies, as a part of its time (log-normal, "
                 "with the recorded time as its mean)")
      ->check(CLI::Range(0.0, 2.0));
  app.add_option("--seed", options.replay.paces.seed, "of --jitter (default: 1)");
  app.add_option("--json", options.json, "write the tables to this file, too");
  app.add_option("--trace", options.trace,
                 "write a timeline of the first rank of each role to this file, for "
                 "ui.perfetto.dev");
  app.add_option("--chakra", options.chakra,
                 "write the last step of each rank to this folder, as Chakra execution traces for "
                 "ASTRA-sim and the like");
  app.add_option("--show", options.replay.shown, "ranks that --trace has as well, as 0,17")
      ->delimiter(',')
      ->needs("--trace");
  app.add_option("--operations", options.operations,
                 "NCCL operations of a step of rank 0 (default: after how many they repeat)");
  app.add_option(
         "--sharded", options.replay.sharded,
         "kernels whose names contain this work on a rank's own shard, which is smaller where "
         "there are more ranks: for optimizers of FSDP and ZeRO, multi_tensor_apply")
      ->delimiter(',');
  CLI11_PARSE(app, argc, argv);
  return phantora::Run(options);
}
