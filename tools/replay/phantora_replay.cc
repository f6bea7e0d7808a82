// phantora-replay: what a recorded training step takes on larger clusters.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "fabric/cluster/cluster.h"
#include "tools/replay/step_period.h"
#include "tools/replay/step_record.h"
#include "tools/replay/step_replay.h"

namespace phantora {
namespace {

int Fail(const std::string& what) {
  std::fprintf(stderr, "phantora-replay: %s\n", what.c_str());
  return 1;
}

double Milliseconds(VirtualSpan span) { return static_cast<double>(span.picoseconds()) * 1e-9; }

int Run(const std::string& file, std::vector<std::string> clusters, size_t operations,
        const std::vector<std::string>& sharded) {
  const auto record = ReadStepRecord(file);
  if (!record.ok()) return Fail(std::string(record.status().message()));
  const auto period = FindSteps(*record, operations);
  if (!period.ok()) return Fail(absl::StrCat(file, ": ", std::string(period.status().message())));
  if (clusters.empty()) clusters = {absl::StrCat(record->cluster, ":", record->hosts)};
  const VirtualSpan recorded =
      StepTime(*period, [&](uint32_t node) { return record->nodes[node].end; });
  std::printf("%zu NCCL operations repeat %zu times: a step; it took %.3f ms on %d GPUs\n",
              period->operations, period->ends.size(), Milliseconds(recorded),
              record->hosts * record->gpus);
  if (record->truncated) std::printf("the recording ends before the run\n");
  if (record->lost_releases > 0) {
    std::printf("%llu waits of streams for something else than the GPU's own work are left out\n",
                static_cast<unsigned long long>(record->lost_releases));
  }
  std::printf(
      "\n| cluster | GPUs | step ms | speed per GPU | NCCL ms | exposed ms | exposed part |\n"
      "|---|---|---|---|---|---|---|\n");
  double first = 0;
  for (const std::string& name : clusters) {
    const auto cluster = FindCluster(name);
    if (!cluster.ok()) return Fail(std::string(cluster.status().message()));
    const auto step = Replay(*record, *period, *cluster, sharded);
    if (!step.ok()) return Fail(absl::StrCat(name, ": ", std::string(step.status().message())));
    const double time = Milliseconds(step->time);
    if (first == 0) first = time;
    const double all = Milliseconds(step->communication), exposed = Milliseconds(step->exposed);
    std::printf("| %s | %d | %.3f | %.3f | %.3f | %.3f | %.0f %% |\n", name.c_str(), step->gpus,
                time, first / time, all, exposed, all > 0 ? 100 * exposed / all : 0);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace phantora

int main(int argc, char** argv) {
  CLI::App app(
      "phantora-replay FILE --cluster NAME:HOSTS [--cluster ...]\n\n"
      "What a step that phantora-run --record-step wrote takes on clusters of more hosts of the\n"
      "same kind, where every rank does the same. Speeds per GPU are relative to the first "
      "cluster.",
      "phantora-replay");
  std::string file;
  std::vector<std::string> clusters;
  size_t operations = 0;
  app.add_option("file", file, "the recording")->required();
  app.add_option("--cluster", clusters,
                 "a cluster: a preset or a .yaml file, with :N for N hosts; several times or with "
                 "commas (default: that of the recording)")
      ->delimiter(',');
  app.add_option("--operations", operations,
                 "NCCL operations of a step (default: after how many they repeat)");
  std::vector<std::string> sharded;
  app.add_option(
         "--sharded", sharded,
         "kernels whose names contain this work on a rank's own shard, which is smaller where "
         "there are more ranks: for optimizers of FSDP and ZeRO, multi_tensor_apply")
      ->delimiter(',');
  CLI11_PARSE(app, argc, argv);
  return phantora::Run(file, clusters, operations, sharded);
}
