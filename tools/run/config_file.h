// phantora.toml: options of phantora-run that are always the same.
#ifndef PHANTORA_TOOLS_RUN_CONFIG_FILE_H_
#define PHANTORA_TOOLS_RUN_CONFIG_FILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace phantora {

// The file that is read where nobody names one, if it is in the folder that phantora-run is
// started in.
inline constexpr char kConfigFile[] = "phantora.toml";

struct ConfigItem {
  std::string name;   // of the option, without its dashes
  std::string value;  // as on the command line; "true" or "false" of a flag
  int line;           // in the file

  bool operator==(const ConfigItem&) const = default;
};

// In the order of the file's lines. A list is its values with commas between them; a table [env]
// gives items of the option env. Errors name the file and the line: it cannot be read, is no TOML,
// or has values that are no words, numbers, booleans or lists of those.
absl::StatusOr<std::vector<ConfigItem>> ReadConfigFile(const std::string& path);

struct FoundConfig {
  bool there = false;
  // Why it may not be read unasked; "" if it may: it is the user's or root's, and not everybody can
  // write to it. Options name programs that are started, so that what somebody else has left in a
  // shared folder is not to be believed.
  std::string refused;
};
// Looks for phantora.toml in this folder.
FoundConfig FindConfigFile();

}  // namespace phantora

#endif  // PHANTORA_TOOLS_RUN_CONFIG_FILE_H_
