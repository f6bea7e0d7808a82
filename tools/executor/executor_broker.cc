#include "tools/executor/executor_broker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/executor/messages.h"
#include "tools/executor/transport.h"
#include "trap/linux/unique_fd.h"

extern char** environ;

namespace phantora {
namespace {

constexpr std::chrono::seconds kToSend(60);

absl::Status StartOne(const std::string& worker, const std::vector<std::string>& options) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return absl::InternalError(absl::StrCat("socketpair: ", strerror(errno)));
  }
  const UniqueFd ours(ends[0]), theirs(ends[1]);
  const UniqueFd memory(memfd_create("phantora-executor", MFD_CLOEXEC));
  if (!memory.valid() || ftruncate(memory.get(), executor::kSharedBytes) != 0) {
    return absl::InternalError(absl::StrCat("memfd: ", strerror(errno)));
  }
  // Out of the way of the two that it is to have.
  const UniqueFd high(fcntl(theirs.get(), F_DUPFD_CLOEXEC, 10));
  const UniqueFd high_memory(fcntl(memory.get(), F_DUPFD_CLOEXEC, 10));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, high.get(), executor::kSocketFd);
  posix_spawn_file_actions_adddup2(&actions, high_memory.get(), executor::kMemoryFd);
  // Standard output is the run's.
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  std::vector<std::string> words = {"/proc/self/exe", "execute-worker"};
  words.insert(words.end(), options.begin(), options.end());
  if (!worker.empty()) {
    words = {"/bin/sh", "-c", absl::StrCat("exec ", worker, " ", absl::StrJoin(options, " "))};
  }
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t process = 0;
  const int error =
      posix_spawn(&process, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return absl::InternalError(absl::StrCat("posix_spawn: ", strerror(error)));
  return executor::SendDescriptors(STDOUT_FILENO, "space\n", {ours.get(), memory.get()}, kToSend);
}

}  // namespace

int RunExecutorBroker(const std::string& worker, const std::vector<std::string>& options) {
  signal(SIGCHLD, SIG_IGN);  // nobody asks how they ended
  for (std::string line; std::getline(std::cin, line);) {
    if (const auto status = StartOne(worker, options); !status.ok()) {
      if (!executor::SendDescriptors(STDOUT_FILENO, absl::StrCat(status.message(), "\n"), {},
                                     kToSend)
               .ok()) {
        return 1;
      }
    }
  }
  return 0;
}

}  // namespace phantora
