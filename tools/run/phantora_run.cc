// phantora-run: runs a command as if the machine had NVIDIA GPUs.
#include <cstdio>

#include "tools/run/doctor.h"
#include "tools/run/run_options.h"
#include "tools/run/session.h"
#include "tools/run/setup.h"

int main(int argc, char** argv) {
  const phantora::RunRequest request = phantora::ParseRunOptions({argv + 1, argv + argc});
  switch (request.action) {
    case phantora::RunAction::kDoctor:
      return phantora::RunDoctor();
    case phantora::RunAction::kSetup:
      return phantora::RunSetup(request.arguments);
    case phantora::RunAction::kSession:
      return phantora::RunSession(request.options);
    case phantora::RunAction::kPrint:
      break;
  }
  std::fputs(request.output.c_str(), stdout);
  std::fputs(request.errors.c_str(), stderr);
  return request.exit_status;
}
