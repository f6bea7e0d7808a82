// usage: restrict [--docker] [--linux-5.14] [--no-landlock] [--within-landlock] [--no-tracing]
//        -- COMMAND...
//
// Runs a command as in a locked-down place:
//   --docker           what Docker's default profile denies to a container without capabilities
//                      (moby, profiles/seccomp/default.json): EPERM
//   --linux-5.14       system calls and flags that Linux has had since then only: ENOSYS, EINVAL
//   --no-landlock      Landlock is switched off: EOPNOTSUPP
//   --no-tracing       what Yama's ptrace_scope 3 forbids: EPERM
//   --within-landlock  behind a ruleset that allows everything but making devices
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

constexpr int kDockerDenies[] = {
    SYS_acct,
    SYS_add_key,
    SYS_bpf,
    SYS_clock_adjtime,
    SYS_clock_settime,
    SYS_delete_module,
    SYS_finit_module,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fsopen,
    SYS_fspick,
    SYS_get_mempolicy,
    SYS_init_module,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_io_uring_setup,
    SYS_ioperm,
    SYS_iopl,
    SYS_kcmp,
    SYS_kexec_file_load,
    SYS_kexec_load,
    SYS_keyctl,
    SYS_lookup_dcookie,
    SYS_mbind,
    SYS_mount,
    SYS_mount_setattr,
    SYS_move_mount,
    SYS_move_pages,
    SYS_open_by_handle_at,
    SYS_open_tree,
    SYS_perf_event_open,
    SYS_pidfd_getfd,
    SYS_pivot_root,
    SYS_process_madvise,
    SYS_quotactl,
    SYS_reboot,
    SYS_request_key,
    SYS_set_mempolicy,
    SYS_setns,
    SYS_settimeofday,
    SYS_swapoff,
    SYS_swapon,
    SYS_sysfs,
    SYS_umount2,
    SYS_unshare,
    SYS_uselib,
    SYS_userfaultfd,
    SYS_ustat,
};
// What personality(2) may be asked for there, as bits.
constexpr unsigned long kPersonas = 0x20008, kQuestion = 0x80000000;
constexpr unsigned long kNameSpaces = CLONE_NEWCGROUP | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWNS |
                                      CLONE_NEWPID | CLONE_NEWUSER | CLONE_NEWUTS;
constexpr int kFirstNewCall = 448;  // process_mrelease, Linux 5.15
constexpr int kNewestCall = 470;
constexpr uint64_t kWaitKillable = 1 << 5;        // SECCOMP_FILTER_FLAG_*, Linux 5.19
constexpr uint64_t kSetNotifyFlags = 0x40082104;  // SECCOMP_IOCTL_NOTIF_SET_FLAGS, 6.6

void Check(int error, const char* what) {
  if (error == 0) return;
  std::fprintf(stderr, "restrict: %s: %s\n", what, std::strerror(-error));
  std::exit(125);
}

void DenyAsDocker(scmp_filter_ctx filter) {
  for (const int call : kDockerDenies) {
    Check(seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), call, 0), "a rule");
  }
  Check(seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SYS_clone3, 0), "clone3");
  for (unsigned long flag = 1; flag != 0 && flag <= kNameSpaces; flag <<= 1) {
    if ((kNameSpaces & flag) == 0) continue;
    Check(seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SYS_clone, 1,
                           SCMP_A0(SCMP_CMP_MASKED_EQ, flag, flag)),
          "clone");
  }
  // A rule may compare an argument once. Bit 31 tells the question, 0xffffffff, from the others.
  for (unsigned long bit = 1; bit < kQuestion; bit <<= 1) {
    if ((kPersonas & bit) != 0) continue;
    Check(seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SYS_personality, 1,
                           SCMP_A0(SCMP_CMP_MASKED_EQ, bit | kQuestion, bit)),
          "personality");
  }
}

void BeLinux514(scmp_filter_ctx filter) {
  for (int call = kFirstNewCall; call <= kNewestCall; ++call) {
    Check(seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), call, 0), "a new call");
  }
  Check(seccomp_rule_add(filter, SCMP_ACT_ERRNO(EINVAL), SYS_seccomp, 1,
                         SCMP_A1(SCMP_CMP_MASKED_EQ, kWaitKillable, kWaitKillable)),
        "seccomp");
  Check(seccomp_rule_add(filter, SCMP_ACT_ERRNO(EINVAL), SYS_ioctl, 1,
                         SCMP_A1(SCMP_CMP_MASKED_EQ, 0xffffffff, kSetNotifyFlags)),
        "ioctl");
}

void DenyLandlock(scmp_filter_ctx filter, int error) {
  for (const int call :
       {SYS_landlock_create_ruleset, SYS_landlock_add_rule, SYS_landlock_restrict_self}) {
    Check(seccomp_rule_add(filter, SCMP_ACT_ERRNO(static_cast<uint32_t>(error)), call, 0),
          "landlock");
  }
}

void DenyTracing(scmp_filter_ctx filter) {
  for (const int call :
       {SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_pidfd_getfd}) {
    Check(seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), call, 0), "tracing");
  }
}

void EnterLandlock() {
  landlock_ruleset_attr attributes{};
  attributes.handled_access_fs = LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK;
  const auto ruleset = static_cast<int>(
      syscall(SYS_landlock_create_ruleset, &attributes, sizeof attributes.handled_access_fs, 0));
  if (ruleset < 0 || syscall(SYS_landlock_restrict_self, ruleset, 0) != 0) {
    Check(-errno, "landlock");
  }
}

}  // namespace

int main(int argc, char** argv) {
  bool docker = false, old = false, no_landlock = false, within = false, no_tracing = false;
  int i = 1;
  for (; i < argc && std::strcmp(argv[i], "--") != 0; ++i) {
    const std::string option = argv[i];
    docker |= option == "--docker";
    old |= option == "--linux-5.14";
    no_landlock |= option == "--no-landlock";
    within |= option == "--within-landlock";
    no_tracing |= option == "--no-tracing";
  }
  if (i + 1 >= argc) return 125;
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (within) EnterLandlock();
  scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
  if (docker) DenyAsDocker(filter);
  if (old) BeLinux514(filter);
  if (no_landlock || old) DenyLandlock(filter, EOPNOTSUPP);
  if (no_tracing) DenyTracing(filter);
  Check(seccomp_load(filter), "seccomp_load");
  execvp(argv[i + 1], argv + i + 1);
  std::perror(argv[i + 1]);
  return 127;
}
