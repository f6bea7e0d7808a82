// Very many of something, and odd flags: the run's others must not notice.
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>

#include "test/escapes/way.h"

namespace phantora::escapes {
namespace {

constexpr int kMany = 100'000;

Outcome Descriptors() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  int made = 0;
  while (made < kMany && eventfd(0, 0) >= 0) ++made;
  return made == 0 ? Error(errno) : "made";
}

Outcome Devices() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  int made = 0;
  while (made < kMany && open(kNode, O_RDWR) >= 0) ++made;
  return made == 0 ? Error(errno) : "made";
}

void* Nothing(void*) { return nullptr; }

Outcome Threads() {
  int made = 0;
  for (; made < kMany; ++made) {
    pthread_t thread;
    if (pthread_create(&thread, nullptr, Nothing, nullptr) != 0) break;
    pthread_detach(thread);
  }
  return made == 0 ? Error(errno) : "made";
}

// As many at a time as there may be, until there have been so many.
Outcome Processes() {
  constexpr int kProcesses = 5000;
  int made = 0;
  for (; made < kProcesses; ++made) {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    while (waitpid(-1, nullptr, child < 0 ? 0 : WNOHANG) > 0) {
    }
  }
  return "made";
}

Outcome Clone(unsigned long flags) {
  alignas(16) static char stack[1 << 16];
  const int child =
      clone([](void*) -> int { _exit(Opened(open(kHidden, O_RDONLY)) == "reached" ? 1 : 0); },
            stack + sizeof stack, static_cast<int>(flags), nullptr);
  if (child < 0) return Error(errno);
  int status = 0;
  waitpid(child, &status, __WALL);
  return WIFEXITED(status) && WEXITSTATUS(status) == 1 ? "reached" : "ended";
}

}  // namespace

std::vector<Way> WaysByNumber() {
  return {
      {"100,000 descriptors", Descriptors},
      {"100,000 emulated devices", Devices},
      {"100,000 threads", Threads},
      {"5,000 processes", Processes},
      {"clone without a signal", [] { return Clone(0); }},
      {"clone with shared memory", [] { return Clone(CLONE_VM | CLONE_VFORK | SIGCHLD); }},
      {"clone with shared descriptors", [] { return Clone(CLONE_FILES | CLONE_FS | SIGCHLD); }},
      {"clone with the parent's parent", [] { return Clone(CLONE_PARENT | SIGCHLD); }},
      {"clone untraced", [] { return Clone(CLONE_UNTRACED | SIGCHLD); }},
      {"clone with name spaces",
       [] { return Clone(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | SIGCHLD); }},
      {"clone with all name spaces",
       [] {
         return Clone(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
                      CLONE_NEWUTS | CLONE_NEWCGROUP | SIGCHLD);
       }},
  };
}

}  // namespace phantora::escapes
