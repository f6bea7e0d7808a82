// What phantora-run says of itself: help and its manual page, which is made from the options that
// there are.
#ifndef PHANTORA_TOOLS_RUN_MANUAL_H_
#define PHANTORA_TOOLS_RUN_MANUAL_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace CLI {
class App;
}

namespace phantora {

// What phantora-run does by itself, when its first word is one of these.
struct OwnCommand {
  absl::string_view name, arguments, about;
};
absl::Span<const OwnCommand> OwnCommands();

// --help: one screen (at most 50 lines of 100 columns).
std::string ShortHelp();

// Options that ShortHelp() names, in its order.
std::vector<absl::string_view> ShortHelpOptions();

// What --help-all prints before its options, and after them.
std::string LongHelpHead();
std::string LongHelpFoot();

// For man(1), in roff.
std::string ManualPage(const CLI::App& app);

}  // namespace phantora

#endif  // PHANTORA_TOOLS_RUN_MANUAL_H_
