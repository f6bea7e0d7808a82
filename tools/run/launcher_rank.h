// Which rank of a job a process is, as its launcher (torchrun, mpirun, srun) told it.
#ifndef PHANTORA_TOOLS_RUN_LAUNCHER_RANK_H_
#define PHANTORA_TOOLS_RUN_LAUNCHER_RANK_H_

#include <sys/types.h>

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace phantora {

// `environment`: NAME=value, each ended by NUL. nullopt if no rank is in it, or none from 0
// to 999,999.
std::optional<int> RankInEnvironment(absl::string_view environment);

// By the environment that the process's program was started with.
std::optional<int> LauncherRank(pid_t process);

// "rank 3", or "process 4711".
std::string NameOfProcess(pid_t process);

}  // namespace phantora

#endif  // PHANTORA_TOOLS_RUN_LAUNCHER_RANK_H_
