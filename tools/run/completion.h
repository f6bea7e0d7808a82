// What shells ask to complete a command line of phantora-run.
#ifndef PHANTORA_TOOLS_RUN_COMPLETION_H_
#define PHANTORA_TOOLS_RUN_COMPLETION_H_

#include <string>

#include "absl/strings/string_view.h"

namespace CLI {
class App;
}

namespace phantora {

// A script for "bash", "zsh" or "fish"; "" for another shell.
std::string CompletionScript(const CLI::App& app, absl::string_view shell);

}  // namespace phantora

#endif  // PHANTORA_TOOLS_RUN_COMPLETION_H_
