// The process that has the GPU: it may crash, hang, or spoil its context at any time.
#ifndef PHANTORA_TOOLS_PROFILER_REPLAY_WORKER_H_
#define PHANTORA_TOOLS_PROFILER_REPLAY_WORKER_H_

#include <cstdint>

namespace phantora {

// Reads lines of profiles/kernels/launch_request.h from standard input, without the header, and
// writes those of replay_result.h to standard output, until there are no more or its context is
// spoilt. Returns the exit status.
int RunReplayWorker(uint64_t pool_bytes);

// Starts this program again, once, with addresses as far away from those of GPU memory as Linux
// allows, so that fewer are taken which are to be mirrored. Returns if that is not allowed, or was
// done already.
void MoveOutOfTheWay(char** argv);

}  // namespace phantora

#endif  // PHANTORA_TOOLS_PROFILER_REPLAY_WORKER_H_
