#include "trap/launch/tree_ending.h"

#include <signal.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "trap/linux/process_tree.h"
#include "trap/log.h"

namespace phantora {
namespace {

// What outlives the command gets this long to end by itself, and then again this
// long after SIGTERM.
constexpr timespec kGrace{.tv_sec = 2, .tv_nsec = 0};

}  // namespace

TreeEnding::TreeEnding(pid_t command)
    : command_(command), timer_(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)) {}

void TreeEnding::Arm() {
  const itimerspec once{.it_interval = {}, .it_value = kGrace};
  timerfd_settime(timer_.get(), 0, &once, nullptr);
}

void TreeEnding::Reaped(pid_t child, int status) {
  if (child != command_) return;
  wait_status_ = status;
  Arm();
}

void TreeEnding::Reap() {
  int status = 0;
  pid_t child;
  while ((child = waitpid(-1, &status, WNOHANG)) > 0) Reaped(child, status);
}

void TreeEnding::TimeIsUp() {
  uint64_t expirations;
  if (read(timer_.get(), &expirations, sizeof expirations) != sizeof expirations) return;
  const int signalled = SignalDescendants(signals_sent_ == 0 ? SIGTERM : SIGKILL);
  if (signals_sent_++ == 0 && signalled > 0) {
    LogInfo(absl::StrCat("the command has exited; ending ", signalled, " processes it left"));
  }
  Arm();
}

int TreeEnding::AwaitCommand() {
  while (!wait_status_) {
    int status = 0;
    const pid_t child = waitpid(command_, &status, 0);
    if (child > 0) Reaped(child, status);
    if (child < 0 && errno != EINTR) wait_status_ = 0;
  }
  return *wait_status_;
}

}  // namespace phantora
