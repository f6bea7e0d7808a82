// Starts the ranks of a job, as mpirun does, and waits for them.
#ifndef PHANTORA_TRAP_LAUNCH_RANK_STARTER_H_
#define PHANTORA_TRAP_LAUNCH_RANK_STARTER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trap/launch/python_command.h"

namespace phantora {

// A process to be started: the job's command with this environment.
struct RankCommand {
  std::string label = {};  // "rank 3", or "host 1" if it is what starts the ranks of a host
  int host = 0;
  std::vector<std::pair<std::string, std::string>> environment;  // over what is there
  // Descriptors to write to; -1: where this process writes to.
  int output = -1, errors = -1;
  bool reads_input = false;  // else it finds /dev/null
};

// What the starter, which runs under the filter, tells the supervisor: ioctls of descriptor -1
// with these numbers. A rank says that it starts, before its program does, with its number as
// the argument. The starter says how a rank ended, with RankEnd as the argument.
inline constexpr uint32_t kRankStarts = 0x46f0, kRankEnded = 0x46f1;
struct RankEnd {
  uint32_t rank;
  int32_t wait_status;

  static RankEnd From(uint64_t argument) {
    return {static_cast<uint32_t>(argument), static_cast<int32_t>(argument >> 32)};
  }
  uint64_t argument() const { return uint64_t{static_cast<uint32_t>(wait_status)} << 32 | rank; }
};

// What ranks have in common before they begin (preloader.h): the command that they all run, in its
// parts, and modules to import, with commas.
struct Preload {
  PythonCommand command;
  std::string modules;
};

// Starts all ranks, waits for them and returns 0, or the exit status of the first that failed (128
// + n if signal n ended it). When one fails, the others get SIGTERM and, five seconds of their
// time later, SIGKILL. SIGTERM and SIGHUP are passed on to all; a terminal tells them itself of
// its SIGINT.
int RunRanks(char* const* argv, const std::vector<RankCommand>& ranks,
             const std::optional<Preload>& preload = std::nullopt);

// exec, or a message and the exit status that a shell would have.
[[noreturn]] void ExecCommand(char* const* argv);

}  // namespace phantora

#endif  // PHANTORA_TRAP_LAUNCH_RANK_STARTER_H_
