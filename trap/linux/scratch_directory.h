// Directories for files that are needed for as long as a supervisor lives.
#ifndef PHANTORA_TRAP_LINUX_SCRATCH_DIRECTORY_H_
#define PHANTORA_TRAP_LINUX_SCRATCH_DIRECTORY_H_

#include <sys/types.h>

#include <string>

namespace phantora {

// A new one of this process's, in the directory for temporary files; empty if there can be none.
std::string MakeScratchDirectory();

// Removes what the process has left, which is no more: one that was killed removes nothing itself.
void RemoveScratchDirectoriesOf(pid_t process);

}  // namespace phantora

#endif  // PHANTORA_TRAP_LINUX_SCRATCH_DIRECTORY_H_
