// What versions of Linux bring that a run needs or is better with: for messages, and to say no in
// time. Whether a feature is there is otherwise found by trying it.
#ifndef PHANTORA_TRAP_LINUX_KERNEL_FEATURES_H_
#define PHANTORA_TRAP_LINUX_KERNEL_FEATURES_H_

#include <compare>
#include <string>

namespace phantora {

struct KernelVersion {
  int major = 0, minor = 0;
  auto operator<=>(const KernelVersion&) const = default;

  std::string text() const { return std::to_string(major) + "." + std::to_string(minor); }
  // Of uname(2)'s release, as "6.1.0-13-amd64"; 0.0 if it is none.
  static KernelVersion Of(const char* release);
  static KernelVersion Running();
};

// SECCOMP_ADDFD_FLAG_SEND: a descriptor is installed and the call answered in one. The least that
// runs take.
inline constexpr KernelVersion kLeastKernel{5, 14};
// Landlock with LANDLOCK_ACCESS_FS_REFER (ABI 2), so that files can be moved behind the wall.
inline constexpr KernelVersion kWallKernel{5, 19};
// SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP: who is answered is woken on the same processor.
inline constexpr KernelVersion kSyncWakeUpKernel{6, 6};
// LANDLOCK_SCOPE_SIGNAL (ABI 6): signals do not leave the run.
inline constexpr KernelVersion kSignalScopeKernel{6, 12};

}  // namespace phantora

#endif  // PHANTORA_TRAP_LINUX_KERNEL_FEATURES_H_
