#include "trap/launch/guardian.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "trap/linux/process_tree.h"
#include "trap/linux/scratch_directory.h"
#include "trap/log.h"

namespace phantora {
namespace {

constexpr int kSupervisorDied = 70;  // EX_SOFTWARE of sysexits.h

sigset_t ForwardedSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (int signal :
       {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT, SIGCHLD}) {
    sigaddset(&set, signal);
  }
  return set;
}

void EndAll() {
  if (!EndDescendants()) {
    LogError("some processes of the run do not end, though they were killed (a hung file system?)");
  }
}

}  // namespace

int GuardianDiedSignal() { return SIGRTMIN + 1; }

int RunGuarded(const std::function<int(int signals)>& supervise) {
  const sigset_t forwarded = ForwardedSignals();
  sigprocmask(SIG_BLOCK, &forwarded, nullptr);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t guardian = getpid();
  const pid_t supervisor = fork();
  if (supervisor < 0) {
    LogError(absl::StrCat("fork: ", strerror(errno)));
    return kSupervisorDied;
  }
  if (supervisor == 0) {
    sigset_t taken = forwarded;
    sigaddset(&taken, GuardianDiedSignal());
    sigprocmask(SIG_BLOCK, &taken, nullptr);
    prctl(PR_SET_PDEATHSIG, GuardianDiedSignal());
    if (getppid() != guardian) _exit(kSupervisorDied);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    const int signals = signalfd(-1, &taken, SFD_NONBLOCK | SFD_CLOEXEC);
    if (signals < 0) _exit(kSupervisorDied);
    const int status = supervise(signals);
    // Not exit(): the GPU's thread may still run, and owns what destructors free.
    fflush(nullptr);
    _exit(status);
  }
  for (;;) {
    siginfo_t info{};
    if (sigwaitinfo(&forwarded, &info) < 0) continue;
    if (info.si_signo == SIGCHLD) {
      int status = 0;
      pid_t child;
      while ((child = waitpid(-1, &status, WNOHANG)) > 0) {
        if (child != supervisor) continue;
        // Whatever the way out: what lives on would be under a filter that nobody serves.
        if (WIFEXITED(status)) {
          EndAll();
          return WEXITSTATUS(status);
        }
        LogError(absl::StrCat("the supervisor died (", strsignal(WTERMSIG(status)),
                              "); ending all ranks. Please report this with the output of "
                              "'phantora-run --verbose --log-calls FILE'."));
        EndAll();
        RemoveScratchDirectoriesOf(supervisor);
        return kSupervisorDied;
      }
    } else if (info.si_code != SI_KERNEL) {
      kill(supervisor, info.si_signo);
    }
  }
}

}  // namespace phantora
