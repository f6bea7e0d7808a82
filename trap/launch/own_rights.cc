#include "trap/launch/own_rights.h"

#include <errno.h>
#include <linux/capability.h>
#include <seccomp.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <memory>

#include "absl/strings/str_cat.h"

namespace phantora {
namespace {

// By name: what the kernel of the machine that this was built on does not know, libseccomp does.
constexpr const char* kGivenUp[] = {
    // Programs. (Threads are still made.)
    "execve", "execveat", "fork", "vfork",
    // Mounts and name spaces.
    "mount", "umount2", "pivot_root", "chroot", "unshare", "setns", "fsopen", "fsconfig", "fsmount",
    "fspick", "move_mount", "open_tree", "mount_setattr", "open_by_handle_at", "name_to_handle_at",
    // Users and capabilities.
    "setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setgroups", "setfsuid",
    "setfsgid", "capset",
    // Files that already are.
    "chmod", "fchmodat", "chown", "lchown", "fchown", "fchownat", "mknod", "mknodat", "setxattr",
    "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr",
    // The machine.
    "init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot",
    "swapon", "swapoff", "settimeofday", "clock_settime", "adjtimex", "clock_adjtime",
    "sethostname", "setdomainname", "acct", "quotactl", "syslog", "iopl", "ioperm", "bpf",
    "perf_event_open", "add_key", "request_key", "keyctl", "io_uring_setup", "io_uring_enter",
    "io_uring_register", "personality", "modify_ldt"};

constexpr int kKept[] = {CAP_SYS_PTRACE,   CAP_KILL,     CAP_DAC_OVERRIDE,    CAP_DAC_READ_SEARCH,
                         CAP_SYS_RESOURCE, CAP_SYS_NICE, CAP_NET_BIND_SERVICE};

// Of this thread.
int DropCapabilities() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {};
  if (syscall(SYS_capget, &header, sets) != 0) return errno;
  // Without CAP_SYS_PTRACE, as root in a container is, it reads the memory of those only that have
  // no capability that it has not itself (cap_ptrace_access_check in security/commoncap.c).
  if ((sets[CAP_SYS_PTRACE / 32].permitted >> (CAP_SYS_PTRACE % 32) & 1) == 0) return 0;
  uint32_t kept[_LINUX_CAPABILITY_U32S_3] = {};
  for (const int capability : kKept) kept[capability / 32] |= uint32_t{1} << (capability % 32);
  for (int i = 0; i < _LINUX_CAPABILITY_U32S_3; ++i) {
    sets[i].permitted &= kept[i];
    sets[i].effective &= kept[i];
    sets[i].inheritable = 0;
  }
  return syscall(SYS_capset, &header, sets) != 0 ? errno : 0;
}

}  // namespace

absl::Status GiveUpRights() {
  if (const int error = DropCapabilities(); error != 0) {
    return absl::InternalError(absl::StrCat("capset: ", strerror(error)));
  }
  const std::unique_ptr<void, decltype(&seccomp_release)> filter(seccomp_init(SCMP_ACT_ALLOW),
                                                                 &seccomp_release);
  if (filter == nullptr) return absl::ResourceExhaustedError("no memory for a filter");
  for (const char* name : kGivenUp) {
    const int call = seccomp_syscall_resolve_name(name);
    if (call == __NR_SCMP_ERROR) continue;  // libseccomp is older than the call
    const int error = seccomp_rule_add(filter.get(), SCMP_ACT_ERRNO(EPERM), call, 0);
    if (error != 0) return absl::InternalError(absl::StrCat(name, ": ", strerror(-error)));
  }
  int error = seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_TSYNC, 1);
  if (error == 0) error = seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2);
  if (error == 0) error = seccomp_load(filter.get());
  if (error != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the kernel takes no filter of the supervisor's own calls: ", strerror(-error)));
  }
  return absl::OkStatus();
}

}  // namespace phantora
