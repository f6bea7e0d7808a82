// phantora-run setup: fetches what an installed package does not have.
#ifndef PHANTORA_TOOLS_RUN_SETUP_H_
#define PHANTORA_TOOLS_RUN_SETUP_H_

#include <string>
#include <vector>

namespace phantora {

// What a user types to have them fetched: of a package or of a source tree.
std::string SetupCommand();

// NVIDIA's driver libraries, into the user's cache, by the script that the package has
// (tools/setup.sh). Returns only if there is none, or it cannot be started: 125, after a message.
int RunSetup(const std::vector<std::string>& versions);

}  // namespace phantora

#endif  // PHANTORA_TOOLS_RUN_SETUP_H_
