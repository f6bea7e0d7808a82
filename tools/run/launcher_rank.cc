#include "tools/run/launcher_rank.h"

#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace phantora {
namespace {

constexpr int kMostRank = 999'999;
// The earlier ones win: a program may be started by torchrun in a job of srun.
constexpr absl::string_view kVariables[] = {
    "RANK=", "OMPI_COMM_WORLD_RANK=", "PMI_RANK=", "SLURM_PROCID="};

}  // namespace

std::optional<int> RankInEnvironment(absl::string_view environment) {
  for (const absl::string_view variable : kVariables) {
    for (absl::string_view entry : absl::StrSplit(environment, '\0')) {
      int rank;
      if (!absl::ConsumePrefix(&entry, variable)) continue;
      if (absl::SimpleAtoi(entry, &rank) && rank >= 0 && rank <= kMostRank) return rank;
    }
  }
  return std::nullopt;
}

std::optional<int> LauncherRank(pid_t process) {
  std::ifstream file(absl::StrCat("/proc/", process, "/environ"), std::ios::binary);
  const std::string environment{std::istreambuf_iterator<char>(file), {}};
  return RankInEnvironment(environment);
}

std::string NameOfProcess(pid_t process) {
  const auto rank = LauncherRank(process);
  return rank ? absl::StrCat("rank ", *rank) : absl::StrCat("process ", process);
}

}  // namespace phantora
