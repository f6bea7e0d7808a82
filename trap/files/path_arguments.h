// Where the arguments of system calls that take a path are, and what such a call does.
#ifndef PHANTORA_TRAP_FILES_PATH_ARGUMENTS_H_
#define PHANTORA_TRAP_FILES_PATH_ARGUMENTS_H_

#include <cstdint>
#include <optional>

#include "trap/linux/trapped_call.h"

namespace phantora {

enum class PathAction {
  kOpen,
  kStat,
  kStatx,
  kStatFs,
  kAccess,
  kReadLink,
  kMake,    // a new name, which must not exist
  kRemove,  // a name goes, or becomes another's
};

// Indices of arguments; -1: there is none.
struct PathArguments {
  PathAction action;
  int path;
  int directory = -1;  // what a relative path starts from; without one, the working directory
  int flags = -1;
  int buffer = -1;  // where the answer goes
  // The other path of a call that has two: of the same action, with a directory before it
  // if the first has.
  int other_path = -1;
};

// nullopt: the call takes no path, or none that matters (CallHandler::kPath has the others).
std::optional<PathArguments> PathArgumentsOf(int call);

// Does the call follow a link that its path ends in?
bool FollowsLink(const TrappedCall& call, const PathArguments& arguments, uint64_t open_flags);

}  // namespace phantora

#endif  // PHANTORA_TRAP_FILES_PATH_ARGUMENTS_H_
