#include "trap/launch/python_command.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace phantora {
namespace {

// python(1): options without a value, which may be put together; those that have one; -m and -c,
// which end them.
constexpr char kPlain[] = "bBdEhiIOPqRsSuvVx?";
constexpr absl::string_view kWithValue = "WX";

// "python", "python3", "python3.11".
bool IsInterpreter(absl::string_view path) {
  const size_t slash = path.rfind('/');
  const absl::string_view name = slash == absl::string_view::npos ? path : path.substr(slash + 1);
  return absl::StartsWith(name, "python") &&
         name.find_first_not_of("0123456789.", 6) == absl::string_view::npos;
}

}  // namespace

absl::StatusOr<PythonCommand> PythonCommand::Parse(const std::vector<std::string>& command) {
  if (command.empty() || !IsInterpreter(command[0])) {
    return absl::InvalidArgumentError(
        absl::StrCat("the command is to begin with a Python interpreter",
                     command.empty() ? "" : absl::StrCat(", and not with ", command[0])));
  }
  PythonCommand parsed{.interpreter = {command[0]}, .kind = "file"};
  size_t at = 1;
  for (; at < command.size() && absl::StartsWith(command[at], "-"); ++at) {
    const std::string& word = command[at];
    if (word == "-m" || word == "-c") {
      parsed.kind = word == "-m" ? "module" : "code";
      ++at;
      break;
    }
    const size_t last = word.find_first_not_of(kPlain, 1);
    const bool has_value = last == 1 && absl::StrContains(kWithValue, word[1]);
    if (word == "-" || (last != std::string::npos && !has_value)) {
      return absl::InvalidArgumentError(
          absl::StrCat("python's option ", word, " is not known here"));
    }
    parsed.interpreter.push_back(word);
    if (has_value && word.size() == 2 && at + 1 < command.size()) {
      parsed.interpreter.push_back(command[++at]);
    }
  }
  if (at >= command.size()) return absl::InvalidArgumentError("the command has no Python program");
  parsed.program = command[at];
  parsed.arguments.assign(command.begin() + static_cast<std::ptrdiff_t>(at) + 1, command.end());
  return parsed;
}

}  // namespace phantora
