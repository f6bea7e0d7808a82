// usage: escapes [--only NAME] [PROCESS...]
//
// Tries all ways, and prints a line for each: its name, a tab, what came of it. PROCESS: others
// that must not be harmed.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "test/escapes/way.h"

namespace phantora::escapes {
namespace {

// How it died, or what it said.
Outcome TakeInChild(const Way& way) {
  int said[2];
  if (pipe(said) != 0) return Error(errno);
  const pid_t child = fork();
  if (child < 0) return Error(errno);
  if (child == 0) {
    close(said[0]);
    setpgid(0, 0);
    const Outcome outcome = way.take();
    if (write(said[1], outcome.data(), outcome.size()) < 0) _exit(1);
    _exit(0);
  }
  close(said[1]);
  // Who starts this has the patience: a timeout here would be one of simulated time.
  Outcome outcome;
  char text[256];
  const ssize_t length = read(said[0], text, sizeof text);
  if (length > 0) outcome.assign(text, static_cast<size_t>(length));
  close(said[0]);
  kill(-child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  if (outcome.empty() && WIFSIGNALED(status)) {
    outcome = std::string("killed by ") + strsignal(WTERMSIG(status));
  }
  return outcome.empty() ? "nothing said" : outcome;
}

int Main(int argc, char** argv) {
  std::string only;
  std::vector<pid_t> others;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--only" && i + 1 < argc) {
      only = argv[++i];
    } else {
      others.push_back(std::atoi(argv[i]));
    }
  }
  SetOthers(others);
  setvbuf(stdout, nullptr, _IOLBF, 0);
  for (const auto& ways : {WaysByName(), WaysByDescriptor(), WaysByInterface(), WaysByNamespace(),
                           WaysByProcess(), WaysByChange(), WaysByNumber(), WaysByRace()}) {
    for (const Way& way : ways) {
      if (!only.empty() && way.name != only) continue;
      std::printf("%s\t%s\n", way.name.c_str(), TakeInChild(way).c_str());
    }
  }
  return 0;
}

}  // namespace
}  // namespace phantora::escapes

int main(int argc, char** argv) { return phantora::escapes::Main(argc, argv); }
