// A command that runs a Python program, in its parts.
#ifndef PHANTORA_TRAP_LAUNCH_PYTHON_COMMAND_H_
#define PHANTORA_TRAP_LAUNCH_PYTHON_COMMAND_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace phantora {

struct PythonCommand {
  std::vector<std::string> interpreter = {};  // and its options
  std::string kind = {};  // of the program: "file", "module" (-m) or "code" (-c)
  std::string program = {};
  std::vector<std::string> arguments = {};

  // Errors: it is no Python interpreter by its name, has no program on its command line, or options
  // that are not known to be followed by none.
  static absl::StatusOr<PythonCommand> Parse(const std::vector<std::string>& command);
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_LAUNCH_PYTHON_COMMAND_H_
