// As whom a process runs.
#ifndef PHANTORA_TRAP_RM_EFFECTIVE_USER_H_
#define PHANTORA_TRAP_RM_EFFECTIVE_USER_H_

#include <sys/types.h>

#include <optional>

namespace phantora {

// The effective user of the process, as this process sees it; none if that cannot be told: it is
// dead, or there are no descriptors left. Call it while a call of the process is served, when its
// number cannot be another's.
std::optional<uid_t> EffectiveUser(pid_t process);

}  // namespace phantora

#endif  // PHANTORA_TRAP_RM_EFFECTIVE_USER_H_
