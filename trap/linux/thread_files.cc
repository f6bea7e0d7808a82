#include "trap/linux/thread_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

namespace phantora {
namespace {

class HostFiles : public ThreadFiles {
 public:
  std::optional<std::vector<pid_t>> Threads(pid_t process) const override {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", process);
    DIR* tasks = opendir(path);
    if (tasks == nullptr) return std::nullopt;
    std::vector<pid_t> threads;
    while (const dirent* entry = readdir(tasks)) {
      const pid_t number = atoi(entry->d_name);
      if (number > 0) threads.push_back(number);
    }
    closedir(tasks);
    return threads;
  }

  UniqueFd Open(pid_t thread, const char* name) const override {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", thread, name);
    return UniqueFd(open(path, O_RDONLY | O_CLOEXEC));
  }

  bool Read(pid_t thread, const char* name, const UniqueFd& kept, char* out,
            size_t size) const override {
    ssize_t length = -1;
    if (kept.valid()) {
      length = pread(kept.get(), out, size - 1, 0);
    } else if (const UniqueFd file = Open(thread, name); file.valid()) {
      length = read(file.get(), out, size - 1);
    }
    out[length > 0 ? length : 0] = '\0';
    return length > 0;
  }
};

}  // namespace

const ThreadFiles& ThreadFiles::Host() {
  static const HostFiles* const files = new HostFiles;
  return *files;
}

}  // namespace phantora
