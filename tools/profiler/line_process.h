// A child process that is talked to in lines.
#ifndef PHANTORA_TOOLS_PROFILER_LINE_PROCESS_H_
#define PHANTORA_TOOLS_PROFILER_LINE_PROCESS_H_

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trap/linux/unique_fd.h"

namespace phantora {

// Its standard input and output are a socket; whoever writes into one that nobody reads gets an
// error and no signal. Standard error is this process's.
class LineProcess {
 public:
  // `command`: a program, looked up in PATH, and its arguments. Errors: it cannot be started; a
  // program that does not exist shows when it is talked to.
  static absl::StatusOr<std::unique_ptr<LineProcess>> Start(
      const std::vector<std::string>& command);
  // Kills it if it does not end by itself, having nothing more to read, within two seconds.
  ~LineProcess();

  // `line` without its end. Errors: the process is gone, or reads nothing for so long.
  absl::Status Send(const std::string& line, std::chrono::milliseconds timeout);
  // The next line, without its end. Errors: UNAVAILABLE: the process is gone (says how);
  // DEADLINE_EXCEEDED: it has said nothing for so long.
  absl::StatusOr<std::string> Receive(std::chrono::milliseconds timeout);

  void Kill();
  // For what is no line: whoever uses it must have received all lines before.
  int socket() const { return socket_.get(); }

 private:
  LineProcess(pid_t process, UniqueFd socket) : process_(process), socket_(std::move(socket)) {}
  absl::Status HowItEnded();
  void WaitToEnd();  // for two seconds

  pid_t process_;  // 0 once it has been waited for
  UniqueFd socket_;
  std::string received_;
};

}  // namespace phantora

#endif  // PHANTORA_TOOLS_PROFILER_LINE_PROCESS_H_
