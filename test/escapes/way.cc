#include "test/escapes/way.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

namespace phantora::escapes {
namespace {

std::vector<pid_t>& TheOthers() {
  static std::vector<pid_t> others;
  return others;
}

pid_t ParentOf(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/status");
  for (std::string word; file >> word;) {
    pid_t parent = 0;
    if (word == "PPid:" && file >> parent) return parent;
  }
  return 0;
}

}  // namespace

Outcome Error(int error) {
  const char* name = strerrorname_np(error);
  return name != nullptr ? name : "error " + std::to_string(error);
}

Outcome Opened(int descriptor) {
  if (descriptor < 0) return Error(errno);
  char link[256] = {}, text[sizeof kReal] = {};
  const std::string name = "/proc/self/fd/" + std::to_string(descriptor);
  if (readlink(name.c_str(), link, sizeof link - 1) < 0) return Error(errno);
  const std::string to = link;
  // A rank's own files; reading from the end of a pipe that stands for a device would be an error.
  if (to.rfind("pipe:", 0) == 0 || to.rfind("/memfd:phantora", 0) == 0) {
    close(descriptor);
    return "emulated";
  }
  if (pread(descriptor, text, sizeof text - 1, 0) < 0) {
    const bool writes = errno == EBADF && (fcntl(descriptor, F_GETFL) & O_ACCMODE) == O_WRONLY;
    if (writes && to.rfind("/dev/nvidia", 0) == 0) return "reached";
  }
  close(descriptor);
  return std::strcmp(text, kReal) == 0 ? "reached" : "another file: " + to;
}

Outcome Harmed(long result) { return result < 0 ? Error(errno) : "reached"; }

const std::vector<pid_t>& Others() { return TheOthers(); }

void SetOthers(std::vector<pid_t> others) {
  // Who serves this process, and who watches over that one.
  for (pid_t process = getppid(); process > 1; process = ParentOf(process)) {
    std::ifstream file("/proc/" + std::to_string(process) + "/comm");
    std::string name;
    if (file >> name && name.rfind("phantora-run", 0) == 0) others.push_back(process);
  }
  TheOthers() = std::move(others);
}

Outcome ForOthers(const std::function<long(pid_t)>& harm) {
  Outcome worst = "nobody there";
  for (const pid_t process : Others()) {
    const long result = harm(process);
    if (result >= 0) return "reached";
    worst = Error(errno);
  }
  return worst;
}

}  // namespace phantora::escapes
