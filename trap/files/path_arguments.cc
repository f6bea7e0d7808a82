#include "trap/files/path_arguments.h"

#include <fcntl.h>
#include <sys/syscall.h>

namespace phantora {

std::optional<PathArguments> PathArgumentsOf(int call) {
  using Action = PathAction;
  switch (call) {
    case SYS_open:
      return PathArguments{.action = Action::kOpen, .path = 0, .flags = 1};
    case SYS_creat:
      return PathArguments{.action = Action::kOpen, .path = 0};
    case SYS_openat:
    case SYS_openat2:
      return PathArguments{.action = Action::kOpen, .path = 1, .directory = 0, .flags = 2};
    case SYS_stat:
    case SYS_lstat:
      return PathArguments{.action = Action::kStat, .path = 0, .buffer = 1};
    case SYS_newfstatat:
      return PathArguments{
          .action = Action::kStat, .path = 1, .directory = 0, .flags = 3, .buffer = 2};
    case SYS_statx:
      return PathArguments{
          .action = Action::kStatx, .path = 1, .directory = 0, .flags = 2, .buffer = 4};
    case SYS_statfs:
      return PathArguments{.action = Action::kStatFs, .path = 0, .buffer = 1};
    case SYS_access:
      return PathArguments{.action = Action::kAccess, .path = 0};
    case SYS_faccessat:
      return PathArguments{.action = Action::kAccess, .path = 1, .directory = 0};
    case SYS_faccessat2:
      return PathArguments{.action = Action::kAccess, .path = 1, .directory = 0, .flags = 3};
    case SYS_readlink:
      return PathArguments{.action = Action::kReadLink, .path = 0, .buffer = 1};
    case SYS_readlinkat:
      return PathArguments{.action = Action::kReadLink, .path = 1, .directory = 0, .buffer = 2};
    case SYS_mknod:
    case SYS_mkdir:
      return PathArguments{.action = Action::kMake, .path = 0};
    case SYS_mknodat:
    case SYS_mkdirat:
      return PathArguments{.action = Action::kMake, .path = 1, .directory = 0};
    case SYS_symlink:
      return PathArguments{.action = Action::kMake, .path = 1};
    case SYS_symlinkat:
      return PathArguments{.action = Action::kMake, .path = 2, .directory = 1};
    case SYS_link:
      return PathArguments{.action = Action::kMake, .path = 0, .other_path = 1};
    case SYS_linkat:
      return PathArguments{.action = Action::kMake, .path = 1, .directory = 0, .other_path = 3};
    case SYS_unlink:
    case SYS_rmdir:
      return PathArguments{.action = Action::kRemove, .path = 0};
    case SYS_unlinkat:
      return PathArguments{.action = Action::kRemove, .path = 1, .directory = 0};
    case SYS_rename:
      return PathArguments{.action = Action::kRemove, .path = 0, .other_path = 1};
    case SYS_renameat:
    case SYS_renameat2:
      return PathArguments{.action = Action::kRemove, .path = 1, .directory = 0, .other_path = 3};
    default:
      return std::nullopt;
  }
}

bool FollowsLink(const TrappedCall& call, const PathArguments& arguments, uint64_t open_flags) {
  switch (arguments.action) {
    case PathAction::kOpen:
      return (open_flags & O_NOFOLLOW) == 0;
    case PathAction::kStat:
    case PathAction::kStatx:
    case PathAction::kAccess:
      if (call.number() == SYS_lstat) return false;
      return arguments.flags < 0 || (call.Word(arguments.flags) & AT_SYMLINK_NOFOLLOW) == 0;
    case PathAction::kStatFs:
      return true;
    case PathAction::kReadLink:
    case PathAction::kMake:
    case PathAction::kRemove:
      return false;
  }
  return true;
}

}  // namespace phantora
