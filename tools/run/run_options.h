// The command line of phantora-run.
#ifndef PHANTORA_TOOLS_RUN_RUN_OPTIONS_H_
#define PHANTORA_TOOLS_RUN_RUN_OPTIONS_H_

#include <string>
#include <vector>

#include "tools/run/session_options.h"

namespace phantora {

// As `env` and `timeout` do when they themselves fail: the command was not run.
inline constexpr int kCannotSetUp = 125;

enum class RunAction {
  kSession,  // run, or with SessionOptions::dry_run check, the command
  kDoctor,   // say whether this machine can
  kSetup,    // fetch what a package does not have
  kPrint,    // print `output` and `errors`, and end with `exit_status`
};

struct RunRequest {
  RunAction action = RunAction::kPrint;
  SessionOptions options;              // of kSession
  std::vector<std::string> arguments;  // of kSetup: the driver's versions; none for the usual ones
  int exit_status = 0;                 // of kPrint, as are the texts below
  std::string output;                  // for standard output: help, the version, the clusters
  std::string errors;                  // for standard error
};

// `arguments` are those of phantora-run, without its own name. What cannot be understood, options
// that contradict each other, and options that would have no effect are kPrint with kCannotSetUp
// and a sentence that says why.
RunRequest ParseRunOptions(const std::vector<std::string>& arguments);

}  // namespace phantora

#endif  // PHANTORA_TOOLS_RUN_RUN_OPTIONS_H_
