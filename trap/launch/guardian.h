// The outermost process: it outlives the supervisor, so that no rank is left
// spinning on an emulated GPU that has gone.
#ifndef PHANTORA_TRAP_LAUNCH_GUARDIAN_H_
#define PHANTORA_TRAP_LAUNCH_GUARDIAN_H_

#include <functional>

namespace phantora {

// Runs `supervise` in a child process and returns its exit status. Its argument
// is a signalfd that carries every signal it should forward, and GuardianDiedSignal()
// when this process has died: then it must end everything below. If the supervisor
// dies instead of exiting, says so and returns 70. In any case nothing below is left. (If both
// are killed at once, the command dies too; what it started goes on, without a GPU.)
int RunGuarded(const std::function<int(int signals)>& supervise);

int GuardianDiedSignal();

}  // namespace phantora

#endif  // PHANTORA_TRAP_LAUNCH_GUARDIAN_H_
