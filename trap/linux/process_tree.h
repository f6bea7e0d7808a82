// The processes below this one.
#ifndef PHANTORA_TRAP_LINUX_PROCESS_TREE_H_
#define PHANTORA_TRAP_LINUX_PROCESS_TREE_H_

#include <sys/types.h>

#include <vector>

#include "trap/linux/proc.h"

namespace phantora {

// All living descendants of this process, found in /proc. This process should be
// a child subreaper, or orphans escape it.
std::vector<pid_t> Descendants(const Proc& proc);
std::vector<pid_t> Descendants();

// 0 if the process is gone or a zombie.
pid_t ParentOf(pid_t process, const Proc& proc);
pid_t ParentOf(pid_t process);

// Is the process there, and not a zombie?
bool IsRunning(pid_t process, const Proc& proc = Proc::Host());

// Raises the nice value of all threads of `process` that are below `niceness`.
void MakeNice(pid_t process, int niceness);

// Asks for short time slices, for the calling thread and all that it starts. Threads that
// wake each other for every call otherwise wait for the slices of whatever else keeps the
// machine busy. Takes no privilege; Linux before 6.12 ignores it.
void AskForShortSlices();

// Sends `signal` to all of them; returns how many there were.
int SignalDescendants(int signal);

// Kills all of them, also those that are forked meanwhile, and waits until none is
// left; false if some cannot die (a call that hangs in the kernel).
bool EndDescendants();

}  // namespace phantora

#endif  // PHANTORA_TRAP_LINUX_PROCESS_TREE_H_
