// What the wall costs: once for a run, once for a command, and at each open.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trap/launch/device_wall.h"

namespace phantora {
namespace {

// As on a machine with a GPU: something is closed in /dev and in /sys.
const std::vector<std::string>& Closed() {
  static const auto* const closed = new std::vector<std::string>{"/dev/full", "/sys/kernel/mm"};
  return *closed;
}

void BuildAndEnter(benchmark::State& state, bool walled) {
  for (auto _ : state) {
    const pid_t child = fork();
    if (child == 0) {
      if (walled) {
        const auto wall = DeviceWall::Build(Closed());
        if (!wall.ok()) _exit(1);
        wall->Hide();
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        // The supervisor, and the command.
        if (wall->Enter() != 0 || wall->Enter() != 0) _exit(1);
      }
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) state.SkipWithError("there is no wall");
  }
}
BENCHMARK_CAPTURE(BuildAndEnter, process_without_a_wall, false)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(BuildAndEnter, process_behind_a_wall, true)->Unit(benchmark::kMicrosecond);

void OpenAndClose(benchmark::State& state) {
  for (auto _ : state) close(open("/usr/bin/env", O_RDONLY | O_CLOEXEC));
}

// In this order: there is no way back.
BENCHMARK(OpenAndClose)->Name("OpenAndClose/without_a_wall");
void OpenAndCloseWithin(benchmark::State& state) {
  static const bool inside = [] {
    const auto wall = DeviceWall::Build(Closed());
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return wall.ok() && wall->Enter() == 0 && wall->Enter() == 0;
  }();
  if (!inside) return state.SkipWithError("there is no wall");
  OpenAndClose(state);
}
BENCHMARK(OpenAndCloseWithin)->Name("OpenAndClose/behind_a_wall");

}  // namespace
}  // namespace phantora

BENCHMARK_MAIN();
