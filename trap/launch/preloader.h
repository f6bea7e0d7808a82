// Ranks that are copies of one process, which has imported Python modules once for all.
#ifndef PHANTORA_TRAP_LAUNCH_PRELOADER_H_
#define PHANTORA_TRAP_LAUNCH_PRELOADER_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "trap/launch/python_command.h"
#include "trap/launch/rank_starter.h"

namespace phantora {

// What they would import takes time and memory once, and a program does not notice: it runs as
// `__main__` of the same interpreter, with its words and environment. Modules must neither start
// threads that they need nor use a GPU when they are imported, as for every fork.
//
// Starts the ranks, which become children of this process, and sets `pids`, of which there is one
// for each, 0. (A signal handler may read them meanwhile: the first is the process that imports
// until the ranks are there.) They begin when all are there. Errors: the modules cannot be imported
// (their message is where rank 0's errors go), or the kernel has no more processes; no rank is left
// then.
absl::Status StartPreloaded(const Preload& preload, const std::vector<RankCommand>& ranks,
                            std::vector<pid_t>& pids);

}  // namespace phantora

#endif  // PHANTORA_TRAP_LAUNCH_PRELOADER_H_
