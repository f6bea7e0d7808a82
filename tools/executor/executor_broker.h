// Starts a process with the real GPU for each address space of a run.
#ifndef PHANTORA_TOOLS_EXECUTOR_EXECUTOR_BROKER_H_
#define PHANTORA_TOOLS_EXECUTOR_EXECUTOR_BROKER_H_

#include <string>
#include <vector>

namespace phantora {

// Reads lines from standard input, each of which asks for one, and writes a line with two
// descriptors (messages.h) to standard output, which must be a socket; or one with none that says
// why not. When there are no more lines, it ends; its processes do when nobody has their other end.
// `worker` is a shell's command that does as 'phantora-profile execute-worker', which takes
// `options`, words; empty for that of this program. Returns the exit status.
int RunExecutorBroker(const std::string& worker, const std::vector<std::string>& options);

}  // namespace phantora

#endif  // PHANTORA_TOOLS_EXECUTOR_EXECUTOR_BROKER_H_
