// The process that has the real GPU for one address space: it may crash, hang, or spoil its
// context.
#ifndef PHANTORA_TOOLS_EXECUTOR_SPACE_WORKER_H_
#define PHANTORA_TOOLS_EXECUTOR_SPACE_WORKER_H_

namespace phantora {

// Does what comes from the descriptors of messages.h, until there is no more. What a kernel takes
// more than `most_seconds` for ends it. `synchronous`: each launch is waited for, so that a fault
// names its kernel. Returns the exit status.
int RunSpaceWorker(int most_seconds, bool synchronous);

}  // namespace phantora

#endif  // PHANTORA_TOOLS_EXECUTOR_SPACE_WORKER_H_
