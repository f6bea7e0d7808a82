#include "trap/launch/launcher.h"

#include <fcntl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "trap/log.h"

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV  // Linux 5.19
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

namespace phantora {
namespace {

// What the child says before it execs: an errno (0 for success), and with
// success the listener as SCM_RIGHTS. (pidfd_getfd would need a capability that
// container profiles deny.)
bool SendListener(int socket, int error, int listener) {
  iovec data{&error, sizeof error};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (error == 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &listener, sizeof(int));
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL) == sizeof error;
}

struct Received {
  int error;
  UniqueFd listener;
};

std::optional<Received> ReceiveListener(int socket) {
  int error = 0;
  iovec data{&error, sizeof error};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != sizeof error) return std::nullopt;
  Received received{error, UniqueFd()};
  if (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr) {
    int listener;
    std::memcpy(&listener, CMSG_DATA(header), sizeof listener);
    received.listener = UniqueFd(listener);
  }
  return received;
}

int LoadFilter(const std::vector<sock_filter>& filter) {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -errno;
  sock_fprog program{static_cast<unsigned short>(filter.size()),
                     const_cast<sock_filter*>(filter.data())};
  // With WAIT_KILLABLE_RECV a signal cannot interrupt a call that is being
  // served, so no call is ever served twice. Kernels before 5.19 lack it.
  for (unsigned long extra : {SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, 0UL}) {
    int listener = static_cast<int>(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                                            SECCOMP_FILTER_FLAG_NEW_LISTENER | extra, &program));
    if (listener >= 0) return listener;
    if (errno != EINVAL) break;
  }
  return -errno;
}

// The result of LoadFilter, in memory that two processes share.
using Result = std::atomic<int>;
constexpr int kNoResult = INT_MIN;

// Sends the result to the supervisor when it is there, which the child says by closing the
// other end of the pipe `read_from`: that, the filter does not stop. Shares the child's
// descriptors, but not the filter, which may stop the call that sends.
pid_t StartCourier(int socket, int read_from, const Result* result) {
  const auto pid =
      static_cast<pid_t>(syscall(SYS_clone, CLONE_FILES | SIGCHLD, nullptr, nullptr, nullptr, 0));
  if (pid != 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  char nothing;
  while (read(read_from, &nothing, 1) < 0 && errno == EINTR) {
  }
  const int listener = result->load();
  SendListener(socket, listener < 0 ? -listener : 0, listener);
  _exit(0);
}

// 0 or an error number.
int EnterWall(const DeviceWall* wall) {
  if (wall == nullptr) return 0;
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ? errno : wall->Enter();
}

CommandLimits Limits() {
  CommandLimits limits{};
  getrlimit(RLIMIT_NOFILE, &limits.descriptors);
  getrlimit(RLIMIT_FSIZE, &limits.file_size);
  return limits;
}

void FixAddresses() {
  constexpr unsigned kAsk = 0xffffffff;
  const int persona = personality(kAsk);
  if (persona != -1) personality(static_cast<unsigned>(persona) | ADDR_NO_RANDOMIZE);
}

[[noreturn]] void RunChild(const std::vector<sock_filter>& filter, char* const* argv, int socket,
                           const sigset_t& signal_mask, const CommandLimits& limits,
                           const LaunchOptions& options) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setrlimit(RLIMIT_NOFILE, &limits.descriptors);
  setrlimit(RLIMIT_FSIZE, &limits.file_size);
  sigprocmask(SIG_SETMASK, &signal_mask, nullptr);
  void* shared =
      mmap(nullptr, sizeof(Result), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) _exit(127);
  Result* result = new (shared) Result(kNoResult);
  int pipe[2];
  if (pipe2(pipe, O_CLOEXEC) != 0) _exit(127);
  const auto [read_from, written] = pipe;
  const pid_t courier = StartCourier(socket, read_from, result);
  if (courier < 0) _exit(127);
  // Before the filter, which a process behind the wall may load.
  const int refused = EnterWall(options.wall);
  const int listener = refused != 0 ? -refused : LoadFilter(filter);
  result->store(listener);
  close(written);
  int sent = 0;
  if (waitpid(courier, &sent, 0) != courier || sent != 0 || listener < 0) _exit(127);
  munmap(shared, sizeof(Result));
  close(read_from);
  close(listener);
  // The supervisor says when it serves calls; if it died instead, so do we.
  char go;
  if (read(socket, &go, 1) != 1) _exit(127);
  close(socket);
  if (!options.ranks.empty()) _exit(RunRanks(argv, options.ranks, options.preload));
  ExecCommand(argv);
}

}  // namespace

CommandLimits RaiseLimits() {
  const CommandLimits before = Limits();
  for (const auto& [what, limit] :
       {std::pair{RLIMIT_NOFILE, before.descriptors}, {RLIMIT_FSIZE, before.file_size}}) {
    const rlimit raised{limit.rlim_max, limit.rlim_max};
    setrlimit(what, &raised);
  }
  return before;
}

absl::StatusOr<LaunchedCommand> Launch(const std::vector<sock_filter>& filter,
                                       const LaunchOptions& options) {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    return absl::InternalError(absl::StrCat("socketpair: ", std::strerror(errno)));
  }
  UniqueFd ours(sockets[0]), theirs(sockets[1]);
  std::vector<char*> argv;
  for (const std::string& word : options.command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);

  const CommandLimits limits = options.limits.value_or(Limits());

  const pid_t pid = fork();
  if (pid < 0) return absl::ResourceExhaustedError(absl::StrCat("fork: ", std::strerror(errno)));
  if (pid == 0) {
    for (const auto& [name, value] : options.environment) setenv(name.c_str(), value.c_str(), 1);
    // What the command inherits: nothing blocked, default actions.
    sigset_t none;
    sigemptyset(&none);
    if (options.same_addresses) FixAddresses();
    RunChild(filter, argv.data(), theirs.get(), none, limits, options);
  }
  theirs.reset();
  auto received = ReceiveListener(ours.get());
  if (!received || received->error != 0 || !received->listener.valid()) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    const int error = received ? received->error : EPIPE;
    return absl::PermissionDeniedError(absl::StrCat(
        "the kernel refused the seccomp filter: ", std::strerror(error),
        error == EBUSY ? "; this shell already runs under a supervisor (nested phantora-run, or "
                         "a sandbox with its own listener)"
                       : "; run 'phantora-run doctor' to see which setting forbids it"));
  }
  auto listener = SeccompListener::Create(std::move(received->listener));
  if (!listener.ok()) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    return listener.status();
  }
  UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd.valid() || write(ours.get(), "g", 1) != 1) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    return absl::InternalError(absl::StrCat("pidfd_open: ", std::strerror(errno)));
  }
  return LaunchedCommand{pid, std::move(pidfd), *std::move(listener)};
}

}  // namespace phantora
