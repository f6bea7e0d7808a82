#include "trap/launch/tree_ending.h"

#include <signal.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "trap/linux/process_tree.h"
#include "trap/log.h"

namespace phantora {
namespace {

// What outlives the command gets this long to end by itself, and then again this
// long after SIGTERM.
constexpr timespec kGrace{.tv_sec = 2, .tv_nsec = 0};
// As if it had failed; see wait(2).
constexpr int kUnknownEnd = 1 << 8;

}  // namespace

TreeEnding::TreeEnding(pid_t command, Children* children)
    : command_(command),
      children_(children),
      timer_(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)) {}

void TreeEnding::Arm() {
  const itimerspec once{.it_interval = {}, .it_value = kGrace};
  timerfd_settime(timer_.get(), 0, &once, nullptr);
}

void TreeEnding::Ended(int status) {
  wait_status_ = status;
  Arm();
}

void TreeEnding::Reap() {
  for (const WaitEvent& end : children_->TakeEnds()) {
    if (end.id == command_) Ended(end.status);
  }
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
  if (!wait_status_) wait_status_ = children_->AwaitEnd(command_);
  if (!wait_status_) {
    LogError("how the command ended is not known: somebody else waited for it");
    wait_status_ = kUnknownEnd;
  }
  return *wait_status_;
}

}  // namespace phantora
