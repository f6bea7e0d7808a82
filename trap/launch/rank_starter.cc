#include "trap/launch/rank_starter.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "trap/launch/preloader.h"
#include "trap/log.h"

namespace phantora {
namespace {

// After SIGTERM, in steps (of simulated time, if time is simulated).
constexpr int kStepsOfGrace = 100;
constexpr timespec kStepOfGrace{.tv_sec = 0, .tv_nsec = 50'000'000};
// Exit status, as a shell's for what cannot be run.
constexpr int kCannotStart = 126;

// For the signal handler.
std::vector<pid_t>* living = nullptr;

void SignalLiving(int signal) {
  if (living == nullptr) return;
  for (const pid_t rank : *living) {
    if (rank > 0) kill(rank, signal);
  }
}

void Handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(signal, &action, nullptr);
}

[[noreturn]] void RunRank(char* const* argv, const RankCommand& command, uint32_t rank) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (int signal : {SIGTERM, SIGHUP, SIGINT}) Handle(signal, SIG_DFL);
  ioctl(-1, kRankStarts, static_cast<uint64_t>(rank));
  for (const auto& [name, value] : command.environment) setenv(name.c_str(), value.c_str(), 1);
  if (!command.reads_input) {
    const int nothing = open("/dev/null", O_RDONLY);
    if (nothing >= 0) dup2(nothing, STDIN_FILENO), close(nothing);
  }
  // Both are closed on exec; the copies are not.
  if (command.output >= 0) dup2(command.output, STDOUT_FILENO);
  if (command.errors >= 0) dup2(command.errors, STDERR_FILENO);
  ExecCommand(argv);
}

int ExitStatus(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

}  // namespace

void ExecCommand(char* const* argv) {
  execvp(argv[0], argv);
  const int error = errno;
  LogError(absl::StrCat("cannot run ", argv[0], ": ", strerror(error)));
  _exit(error == ENOENT ? 127 : 126);
}

int RunRanks(char* const* argv, const std::vector<RankCommand>& ranks,
             const std::optional<Preload>& preload) {
  std::vector<pid_t> pids(ranks.size(), 0);
  living = &pids;
  for (int signal : {SIGTERM, SIGHUP}) Handle(signal, SignalLiving);
  Handle(SIGINT, SIG_IGN);
  std::optional<int> failure;
  if (preload) {
    const absl::Status started = StartPreloaded(*preload, ranks, pids);
    if (!started.ok()) {
      LogError(std::string(started.message()));
      failure = kCannotStart;
    }
  }
  for (size_t rank = 0; rank < ranks.size() && !failure && !preload; ++rank) {
    pids[rank] = fork();
    if (pids[rank] == 0) RunRank(argv, ranks[rank], static_cast<uint32_t>(rank));
    if (pids[rank] > 0) continue;
    LogError(absl::StrCat("cannot start rank ", rank, ": ", strerror(errno)));
    failure = kCannotStart;
  }
  int steps = 0;
  const auto end_others = [&] {
    if (steps == 0) SignalLiving(SIGTERM);
    if (++steps == kStepsOfGrace) SignalLiving(SIGKILL);
    nanosleep(&kStepOfGrace, nullptr);
  };
  while (std::any_of(pids.begin(), pids.end(), [](pid_t pid) { return pid > 0; })) {
    int status = 0;
    const pid_t ended = waitpid(-1, &status, failure ? WNOHANG : 0);
    if (ended < 0 && errno == ECHILD) break;
    if (ended <= 0) {
      if (failure) end_others();
      continue;
    }
    const auto rank = std::find(pids.begin(), pids.end(), ended);
    if (rank == pids.end()) continue;
    *rank = 0;
    const RankEnd end = {static_cast<uint32_t>(rank - pids.begin()), status};
    ioctl(-1, kRankEnded, end.argument());
    if (ExitStatus(status) != 0 && !failure) failure = ExitStatus(status);
  }
  living = nullptr;
  return failure.value_or(0);
}

}  // namespace phantora
