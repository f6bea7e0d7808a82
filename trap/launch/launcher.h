// Starts the command under the filter.
#ifndef PHANTORA_TRAP_LAUNCH_LAUNCHER_H_
#define PHANTORA_TRAP_LAUNCH_LAUNCHER_H_

#include <linux/filter.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "trap/launch/device_wall.h"
#include "trap/launch/rank_starter.h"
#include "trap/linux/seccomp_listener.h"
#include "trap/linux/unique_fd.h"

namespace phantora {

struct LaunchedCommand {
  pid_t pid;
  UniqueFd pidfd;
  std::unique_ptr<SeccompListener> listener;
};

// Limits that a supervisor raises for itself.
struct CommandLimits {
  rlimit descriptors;
  rlimit file_size;  // of files in memory, too, in which GPUs' memory lies
};

// A supervisor needs many descriptors, and long files: as much as it may have. Returns the limits
// that there were, which are the command's.
CommandLimits RaiseLimits();

struct LaunchOptions {
  std::vector<std::string> command;  // argv, at least one
  // Set in the command's environment, over what is there.
  std::vector<std::pair<std::string, std::string>> environment = {};
  // Gives the command the same addresses in every run, where that is allowed: how libcuda
  // splits a transfer depends on them.
  bool same_addresses = false;
  // If there are any, the command is started once for each of them, by a process of its own, which
  // is then the launched command.
  std::vector<RankCommand> ranks = {};
  // They are copies of one process.
  std::optional<Preload> preload = {};
  // What it cannot open, if anything.
  const DeviceWall* wall = nullptr;
  // The command's limits; by default those of this process.
  std::optional<CommandLimits> limits = {};
};

// Forks, loads `filter` in the child, receives its listener, and lets the child
// exec the command. The child dies with this process. Must be called before any
// thread is started. The command is exec'ed by the child itself, so a failure of
// exec shows as its exit status (126, 127) with a message, as in a shell.
// Errors: the kernel refuses seccomp (a container's profile, usually).
absl::StatusOr<LaunchedCommand> Launch(const std::vector<sock_filter>& filter,
                                       const LaunchOptions& options);

}  // namespace phantora

#endif  // PHANTORA_TRAP_LAUNCH_LAUNCHER_H_
