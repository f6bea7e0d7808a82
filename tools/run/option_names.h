// How options are written.
#ifndef PHANTORA_TOOLS_RUN_OPTION_NAMES_H_
#define PHANTORA_TOOLS_RUN_OPTION_NAMES_H_

#include <string>
#include <vector>

namespace CLI {
class Option;
}

namespace phantora {

// "-o" and "--out"
std::vector<std::string> NamesOf(const CLI::Option& option);

// Of its value, as "FILE" or "auto|on|off"; "" of a flag.
std::string TypeOf(const CLI::Option& option);
bool TakesValue(const CLI::Option& option);

}  // namespace phantora

#endif  // PHANTORA_TOOLS_RUN_OPTION_NAMES_H_
