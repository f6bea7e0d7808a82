#include "tools/profiler/line_process.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "absl/strings/str_cat.h"

extern char** environ;

namespace phantora {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kToEnd(2);
constexpr std::chrono::milliseconds kLookEvery(10);
constexpr size_t kLongestLine = size_t{1} << 30;

// Whether the descriptor is ready for `events` before `deadline`.
bool WaitFor(int fd, int16_t events, Clock::time_point deadline) {
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd wanted = {.fd = fd, .events = events, .revents = 0};
    const int ready = poll(&wanted, 1, static_cast<int>(std::max<int64_t>(0, left.count())));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<LineProcess>> LineProcess::Start(
    const std::vector<std::string>& command) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return absl::InternalError(absl::StrCat("socketpair: ", strerror(errno)));
  }
  UniqueFd ours(ends[0]);
  const UniqueFd theirs(ends[1]);
  std::vector<char*> arguments;
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, theirs.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, theirs.get(), STDOUT_FILENO);
  pid_t process = 0;
  const int error =
      posix_spawnp(&process, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    return absl::NotFoundError(absl::StrCat("cannot start ", command[0], ": ", strerror(error)));
  }
  return std::unique_ptr<LineProcess>(new LineProcess(process, std::move(ours)));
}

LineProcess::~LineProcess() {
  socket_.reset();
  WaitToEnd();
  Kill();
}

void LineProcess::Kill() {
  if (process_ == 0) return;
  kill(process_, SIGKILL);
  // One that hangs in the driver cannot die, and is left behind.
  WaitToEnd();
  process_ = 0;
}

void LineProcess::WaitToEnd() {
  const auto deadline = Clock::now() + kToEnd;
  while (process_ != 0 && Clock::now() < deadline) {
    if (waitpid(process_, nullptr, WNOHANG) != 0) process_ = 0;
    if (process_ != 0) std::this_thread::sleep_for(kLookEvery);
  }
}

absl::Status LineProcess::Send(const std::string& line, std::chrono::milliseconds timeout) {
  const std::string whole = absl::StrCat(line, "\n");
  const auto deadline = Clock::now() + timeout;
  for (size_t sent = 0; sent < whole.size();) {
    if (!WaitFor(socket_.get(), POLLOUT, deadline)) {
      return absl::DeadlineExceededError("it does not read what it is sent");
    }
    const ssize_t some =
        send(socket_.get(), whole.data() + sent, whole.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (some < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (some <= 0) return HowItEnded();
    sent += static_cast<size_t>(some);
  }
  return absl::OkStatus();
}

absl::Status LineProcess::HowItEnded() {
  int status = 0;
  const auto deadline = Clock::now() + kToEnd;
  while (process_ != 0 && Clock::now() < deadline) {
    if (waitpid(process_, &status, WNOHANG) == process_) {
      process_ = 0;
      return absl::UnavailableError(
          WIFSIGNALED(status) ? absl::StrCat("it was ended by ", strsignal(WTERMSIG(status)))
                              : absl::StrCat("it ended with status ", WEXITSTATUS(status)));
    }
    std::this_thread::sleep_for(kLookEvery);
  }
  return absl::UnavailableError("it has closed its output");
}

absl::StatusOr<std::string> LineProcess::Receive(std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  for (size_t searched = 0;;) {
    const size_t end = received_.find('\n', searched);
    if (end != std::string::npos) {
      std::string line = received_.substr(0, end);
      received_.erase(0, end + 1);
      return line;
    }
    searched = received_.size();
    if (searched > kLongestLine) return absl::OutOfRangeError("it sends a line without end");
    if (!WaitFor(socket_.get(), POLLIN, deadline)) {
      return absl::DeadlineExceededError("it does not answer");
    }
    char buffer[65536];
    const ssize_t got = recv(socket_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) return HowItEnded();
    received_.append(buffer, static_cast<size_t>(got));
  }
}

}  // namespace phantora
