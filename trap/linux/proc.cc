#include "trap/linux/proc.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <utility>

#include "trap/linux/memory_left.h"

namespace phantora {
namespace {

// Entries of a directory that are numbers.
std::optional<std::vector<pid_t>> Numbers(const char* path) {
  DIR* directory = opendir(path);
  if (directory == nullptr) return std::nullopt;
  std::vector<pid_t> numbers;
  while (const dirent* entry = readdir(directory)) {
    const pid_t number = atoi(entry->d_name);
    if (number > 0) numbers.push_back(number);
  }
  closedir(directory);
  return numbers;
}

class HostProc : public Proc {
 public:
  std::vector<pid_t> Processes() const override {
    return Numbers("/proc").value_or(std::vector<pid_t>());
  }

  std::optional<std::vector<pid_t>> Threads(pid_t process) const override {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", process);
    return Numbers(path);
  }

  UniqueFd Open(pid_t number, const char* name, int flags) const override {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", number, name);
    return UniqueFd(open(path, flags | O_CLOEXEC));
  }

  bool Read(pid_t number, const char* name, const UniqueFd& kept, char* out,
            size_t size) const override {
    ssize_t length = -1;
    if (kept.valid()) {
      length = pread(kept.get(), out, size - 1, 0);
    } else if (const UniqueFd file = Open(number, name, O_RDONLY); file.valid()) {
      length = read(file.get(), out, size - 1);
    }
    out[length > 0 ? length : 0] = '\0';
    return length > 0;
  }

  bool ChannelsAreExact() const override {
    utsname kernel{};
    int version = 0, patchlevel = 0;
    uname(&kernel);
    sscanf(kernel.release, "%d.%d", &version, &patchlevel);
    return std::pair(version, patchlevel) >= std::pair(5, 16);
  }

  Memory MachineMemory() const override {
    const MemoryLeft left = ReadMemoryLeft();
    return {left.total, left.available};
  }
};

}  // namespace

std::string Proc::Text(pid_t number, const char* name) const {
  std::string text;
  const UniqueFd file = Open(number, name);
  if (!file.valid()) return text;
  for (;;) {
    char part[16 << 10];
    const ssize_t length = read(file.get(), part, sizeof part);
    if (length <= 0) return text;
    text.append(part, static_cast<size_t>(length));
  }
}

const Proc& Proc::Host() {
  static const HostProc* const proc = new HostProc;
  return *proc;
}

}  // namespace phantora
