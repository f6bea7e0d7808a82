#include "tools/record/driver_recorder.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tools/record/embedded_interposer.h"
#include "tools/record/stream.h"

namespace phantora::record {
namespace {

constexpr char kPreload[] = "LD_PRELOAD";
// As shells have it.
constexpr int kNotFound = 127, kNotExecutable = 126, kSignalled = 128;

// The child's part; returns only through the kernel.
[[noreturn]] void Start(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  const int error = errno;
  const std::string message =
      absl::StrCat("phantora-record: cannot start ", command[0], ": ", std::strerror(error), "\n");
  (void)!write(STDERR_FILENO, message.data(), message.size());
  _exit(error == ENOENT ? kNotFound : kNotExecutable);
}

}  // namespace

absl::StatusOr<int> RunRecorded(const std::vector<std::string>& command,
                                const std::string& folder) {
  const std::string library = absl::StrCat(folder, "/libphantora_record.so");
  {
    std::ofstream file(library, std::ios::binary);
    file << Interposer();
    if (!file.flush()) return absl::InternalError(absl::StrCat("cannot write ", library));
  }
  chmod(library.c_str(), 0755);
  // The terminal's signals are the command's.
  signal(SIGINT, SIG_IGN);
  signal(SIGQUIT, SIG_IGN);
  const pid_t child = fork();
  if (child < 0) return absl::InternalError(absl::StrCat("cannot fork: ", std::strerror(errno)));
  if (child == 0) {
    signal(SIGINT, SIG_DFL);
    signal(SIGQUIT, SIG_DFL);
    const char* others = std::getenv(kPreload);
    const std::string preload =
        others == nullptr || *others == '\0' ? library : absl::StrCat(library, ":", others);
    setenv(kPreload, preload.c_str(), 1);
    setenv(kFolderVariable, folder.c_str(), 1);
    Start(command);
  }
  int status;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) {
      return absl::InternalError(absl::StrCat("cannot wait: ", std::strerror(errno)));
    }
  }
  unlink(library.c_str());
  return WIFSIGNALED(status) ? kSignalled + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace phantora::record
