#include "trap/linux/native_calls.h"

#include <sys/syscall.h>

#include <cerrno>

namespace phantora {
namespace {

// Newer than Debian 12's headers: arch/x86/entry/syscalls/syscall_64.tbl of Linux 6.16.
enum NewCall {
  kCachestat = 451,
  kFchmodat2 = 452,
  kMapShadowStack = 453,
  kFutexWake = 454,
  kFutexWait = 455,
  kFutexRequeue = 456,
  kStatmount = 457,
  kListmount = 458,
  kLsmGetSelfAttr = 459,
  kLsmSetSelfAttr = 460,
  kLsmListModules = 461,
  kMseal = 462,
  kSetxattrat = 463,
  kGetxattrat = 464,
  kListxattrat = 465,
  kRemovexattrat = 466,
  kOpenTreeAttr = 467,
};

constexpr int kOwnMemory[] = {SYS_mprotect,
                              SYS_munmap,
                              SYS_brk,
                              SYS_msync,
                              SYS_mincore,
                              SYS_mlock,
                              SYS_munlock,
                              SYS_mlockall,
                              SYS_munlockall,
                              SYS_mlock2,
                              SYS_remap_file_pages,
                              SYS_mbind,
                              SYS_set_mempolicy,
                              SYS_get_mempolicy,
                              SYS_set_mempolicy_home_node,
                              SYS_migrate_pages,
                              SYS_move_pages,
                              SYS_pkey_mprotect,
                              SYS_pkey_alloc,
                              SYS_pkey_free,
                              SYS_memfd_create,
                              SYS_memfd_secret,
                              SYS_userfaultfd,
                              SYS_membarrier,
                              SYS_modify_ldt,
                              SYS_set_thread_area,
                              SYS_get_thread_area,
                              SYS_process_madvise,
                              SYS_process_mrelease,
                              SYS_shmget,
                              SYS_shmat,
                              SYS_shmctl,
                              SYS_shmdt,
                              kMapShadowStack,
                              kMseal};
constexpr int kOpenFiles[] = {
    SYS_close,      SYS_close_range, SYS_lseek,        SYS_dup,       SYS_dup2,
    SYS_dup3,       SYS_flock,       SYS_fsync,        SYS_fdatasync, SYS_sync_file_range,
    SYS_ftruncate,  SYS_fallocate,   SYS_fadvise64,    SYS_readahead, SYS_getdents,
    SYS_getdents64, SYS_fchdir,      SYS_fchmod,       SYS_fchown,    SYS_fgetxattr,
    SYS_fsetxattr,  SYS_flistxattr,  SYS_fremovexattr, SYS_pread64,   SYS_pwrite64,
    SYS_preadv,     SYS_pwritev,     SYS_fstatfs,      SYS_syncfs,    kCachestat};
constexpr int kStatusOfOpenFiles[] = {SYS_fstat};
constexpr int kPathsOfOthers[] = {SYS_chdir,
                                  SYS_getcwd,
                                  SYS_truncate,
                                  SYS_chmod,
                                  SYS_fchmodat,
                                  kFchmodat2,
                                  SYS_chown,
                                  SYS_lchown,
                                  SYS_fchownat,
                                  SYS_utime,
                                  SYS_utimes,
                                  SYS_futimesat,
                                  SYS_utimensat,
                                  SYS_setxattr,
                                  SYS_lsetxattr,
                                  SYS_getxattr,
                                  SYS_lgetxattr,
                                  SYS_listxattr,
                                  SYS_llistxattr,
                                  SYS_removexattr,
                                  SYS_lremovexattr,
                                  kSetxattrat,
                                  kGetxattrat,
                                  kListxattrat,
                                  kRemovexattrat,
                                  SYS_inotify_init,
                                  SYS_inotify_init1,
                                  SYS_inotify_add_watch,
                                  SYS_inotify_rm_watch,
                                  SYS_fanotify_init,
                                  SYS_fanotify_mark,
                                  SYS_name_to_handle_at,
                                  SYS_ustat,
                                  SYS_sysfs,
                                  SYS_umask,
                                  SYS_sync};
constexpr int kNameSpaces[] = {
    SYS_chroot,   SYS_pivot_root,        SYS_mount,     SYS_umount2,       SYS_unshare,
    SYS_setns,    SYS_open_by_handle_at, SYS_open_tree, SYS_move_mount,    SYS_fsopen,
    SYS_fsconfig, SYS_fsmount,           SYS_fspick,    SYS_mount_setattr, kStatmount,
    kListmount,   kOpenTreeAttr};
constexpr int kCarryNoTime[] = {
    SYS_splice,          SYS_tee,     SYS_vmsplice,         SYS_sendfile,
    SYS_copy_file_range, SYS_preadv2, SYS_pwritev2,         SYS_msgsnd,
    SYS_msgrcv,          SYS_semop,   SYS_process_vm_readv, SYS_process_vm_writev,
    SYS_io_submit};
constexpr int kRealTimeouts[] = {SYS_io_getevents, SYS_io_pgetevents};
constexpr int kTellRealTime[] = {SYS_times, SYS_adjtimex, SYS_clock_adjtime};
constexpr int kSetClocks[] = {SYS_settimeofday, SYS_clock_settime};
constexpr int kNewFutexes[] = {kFutexWake, kFutexWait, kFutexRequeue};
constexpr int kQueues[] = {SYS_pipe,       SYS_pipe2,          SYS_epoll_create,  SYS_epoll_create1,
                           SYS_epoll_ctl,  SYS_eventfd,        SYS_eventfd2,      SYS_signalfd,
                           SYS_signalfd4,  SYS_timerfd_create, SYS_pidfd_open,    SYS_pidfd_getfd,
                           SYS_mq_open,    SYS_mq_unlink,      SYS_mq_getsetattr, SYS_semget,
                           SYS_semctl,     SYS_msgget,         SYS_msgctl,        SYS_io_setup,
                           SYS_io_destroy, SYS_io_cancel};
constexpr int kSockets[] = {SYS_socket,      SYS_socketpair, SYS_getsockname,
                            SYS_getpeername, SYS_setsockopt, SYS_getsockopt};
constexpr int kOwnSignals[] = {
    SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_rt_sigpending, SYS_rt_sigsuspend,
    SYS_sigaltstack,  SYS_pause,          SYS_wait4,        SYS_waitid,        SYS_restart_syscall};
constexpr int kPrograms[] = {SYS_execve,          SYS_execveat, SYS_exit_group, SYS_set_tid_address,
                             SYS_get_robust_list, SYS_rseq,     SYS_uselib};
constexpr int kIdentity[] = {
    SYS_getpid,   SYS_getppid,   SYS_gettid,      SYS_getuid,    SYS_geteuid,   SYS_getgid,
    SYS_getegid,  SYS_getgroups, SYS_setgroups,   SYS_getresuid, SYS_getresgid, SYS_setuid,
    SYS_setgid,   SYS_setreuid,  SYS_setregid,    SYS_setresuid, SYS_setresgid, SYS_setfsuid,
    SYS_setfsgid, SYS_getpgid,   SYS_setpgid,     SYS_getpgrp,   SYS_getsid,    SYS_setsid,
    SYS_capget,   SYS_capset,    SYS_personality, SYS_getrandom, SYS_kcmp};
constexpr int kScheduling[] = {SYS_getrlimit,
                               SYS_setrlimit,
                               SYS_getrusage,
                               SYS_clock_getres,
                               SYS_getpriority,
                               SYS_sched_getparam,
                               SYS_sched_getscheduler,
                               SYS_sched_get_priority_max,
                               SYS_sched_get_priority_min,
                               SYS_sched_rr_get_interval,
                               SYS_sched_getattr,
                               SYS_ioprio_get,
                               SYS_getcpu,
                               SYS_perf_event_open};
constexpr int kOwnTree[] = {SYS_ptrace,
                            SYS_seccomp,
                            SYS_landlock_create_ruleset,
                            SYS_landlock_add_rule,
                            SYS_landlock_restrict_self,
                            SYS_bpf,
                            SYS_add_key,
                            SYS_request_key,
                            SYS_keyctl,
                            kLsmGetSelfAttr,
                            kLsmSetSelfAttr,
                            kLsmListModules};
constexpr int kAdministration[] = {
    SYS_syslog,      SYS_vhangup,         SYS_acct,          SYS_swapon,   SYS_swapoff,
    SYS_reboot,      SYS_sethostname,     SYS_setdomainname, SYS_iopl,     SYS_ioperm,
    SYS_init_module, SYS_finit_module,    SYS_delete_module, SYS_quotactl, SYS_quotactl_fd,
    SYS_kexec_load,  SYS_kexec_file_load, SYS_lookup_dcookie};
constexpr int kRings[] = {SYS_io_uring_enter, SYS_io_uring_register};
constexpr int kGone[] = {SYS__sysctl,    SYS_create_module, SYS_get_kernel_syms, SYS_query_module,
                         SYS_nfsservctl, SYS_getpmsg,       SYS_putpmsg,         SYS_afs_syscall,
                         SYS_tuxcall,    SYS_security,      SYS_epoll_ctl_old,   SYS_epoll_wait_old,
                         SYS_vserver};

constexpr auto kHarmless = Disposition::kHarmless, kUnseen = Disposition::kUnseen;
constexpr auto kAlways = CallMode::kAlways;

constexpr NativeCalls kGroups[] = {
    {kHarmless, kAlways, 0, "memory of the process itself", kOwnMemory},
    {kHarmless, kAlways, 0, "open files, by descriptor: emulated devices are pipes or memfds there",
     kOpenFiles},
    {kUnseen, kAlways, 0, "an emulated device shows as a pipe, a made-up file as a memory file",
     kStatusOfOpenFiles},
    {kHarmless, kAlways, 0, "paths: the driver's files are not among those that it can change",
     kPathsOfOthers},
    {kUnseen, kAlways, 0,
     "for the administrator: can make the host's own files of the driver reachable", kNameSpaces},
    {kUnseen, CallMode::kSimulatedTime, 0, "carries bytes between processes, but no time with them",
     kCarryNoTime},
    {kUnseen, CallMode::kSimulatedTime, 0, "a timeout of it is real time", kRealTimeouts},
    {kUnseen, CallMode::kSimulatedTime, 0, "tells real time", kTellRealTime},
    {kHarmless, kAlways, 0, "for the administrator: sets the machine's clock", kSetClocks},
    {Disposition::kRefused, CallMode::kSimulatedTime, ENOSYS,
     "its timeouts are not simulated; the C library does without", kNewFutexes},
    {kHarmless, kAlways, 0,
     "descriptors and queues that tell of events; waiting for them is trapped", kQueues},
    {kHarmless, kAlways, 0, "sockets; addresses and transfers are trapped", kSockets},
    {kHarmless, kAlways, 0, "signals of the process itself, and waiting for children", kOwnSignals},
    {kHarmless, kAlways, 0, "programs and their ends; the filter stays", kPrograms},
    {kHarmless, kAlways, 0, "who a process is", kIdentity},
    {kHarmless, kAlways, 0, "limits, processor time and scheduling, which stay this machine's",
     kScheduling},
    {kHarmless, kAlways, 0, "looks at, or restricts, the process's own tree", kOwnTree},
    {kHarmless, kAlways, 0, "for the administrator, and not of the driver", kAdministration},
    {kHarmless, kAlways, 0, "needs a ring, which io_uring_setup refuses", kRings},
    {kHarmless, kAlways, 0, "the kernel has it no more", kGone},
};

}  // namespace

absl::Span<const NativeCalls> NativeCallGroups() { return kGroups; }

const char* NewCallName(int number) {
  switch (number) {
    case kCachestat:
      return "cachestat";
    case kFchmodat2:
      return "fchmodat2";
    case kMapShadowStack:
      return "map_shadow_stack";
    case kFutexWake:
      return "futex_wake";
    case kFutexWait:
      return "futex_wait";
    case kFutexRequeue:
      return "futex_requeue";
    case kStatmount:
      return "statmount";
    case kListmount:
      return "listmount";
    case kLsmGetSelfAttr:
      return "lsm_get_self_attr";
    case kLsmSetSelfAttr:
      return "lsm_set_self_attr";
    case kLsmListModules:
      return "lsm_list_modules";
    case kMseal:
      return "mseal";
    case kSetxattrat:
      return "setxattrat";
    case kGetxattrat:
      return "getxattrat";
    case kListxattrat:
      return "listxattrat";
    case kRemovexattrat:
      return "removexattrat";
    case kOpenTreeAttr:
      return "open_tree_attr";
    default:
      return nullptr;
  }
}

}  // namespace phantora
