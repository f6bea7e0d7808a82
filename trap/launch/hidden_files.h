// Lays nothing over files, in a mount name space of the caller's own: what no permission of
// Landlock covers (changing a node's mode or owner, removing it) does not reach them either.
#ifndef PHANTORA_TRAP_LAUNCH_HIDDEN_FILES_H_
#define PHANTORA_TRAP_LAUNCH_HIDDEN_FILES_H_

#include <string>
#include <vector>

namespace phantora {

// Takes CAP_SYS_ADMIN. `paths` are files and directories; an empty one that cannot be written lies
// over each from now on, for the calling process and what it starts. Whoever has the capability can
// take it away again, if he is not behind a Landlock ruleset, which forbids that. What is mounted
// on the machine meanwhile is seen as before. Allocates nothing: safe between fork and exec.
// Returns 0 or an error number.
int HideFiles(const std::vector<std::string>& paths);

}  // namespace phantora

#endif  // PHANTORA_TRAP_LAUNCH_HIDDEN_FILES_H_
