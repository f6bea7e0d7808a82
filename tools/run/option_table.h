// What can be said of a run on phantora-run's command line, and in phantora.toml.
#ifndef PHANTORA_TOOLS_RUN_OPTION_TABLE_H_
#define PHANTORA_TOOLS_RUN_OPTION_TABLE_H_

#include "tools/run/session_options.h"

namespace CLI {
class App;
}

namespace phantora {

// Adds every option of a run, in groups. What is parsed is written to `options`, which lives as
// long as `app`.
void AddRunOptions(CLI::App& app, SessionOptions& options);

}  // namespace phantora

#endif  // PHANTORA_TOOLS_RUN_OPTION_TABLE_H_
