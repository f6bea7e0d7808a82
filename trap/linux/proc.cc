#include "trap/linux/proc.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "trap/linux/memory_left.h"
#include "trap/linux/spare_descriptor.h"

namespace phantora {
namespace {

class HostProc : public Proc {
 public:
  std::vector<pid_t> Processes() const override {
    return Numbers("/proc").value_or(std::vector<pid_t>());
  }

  std::optional<std::vector<pid_t>> Threads(pid_t process) const override {
    return Numbers(Path(process, "task").text);
  }

  UniqueFd Open(pid_t number, const char* name, int flags) const override {
    return UniqueFd(open(Path(number, name).text, flags | O_CLOEXEC));
  }

  bool Read(pid_t number, const char* name, const UniqueFd& kept, char* out,
            size_t size) const override {
    ssize_t length = -1;
    if (kept.valid()) {
      length = pread(kept.get(), out, size - 1, 0);
    } else {
      spare_.Open(Path(number, name).text, O_RDONLY, [&](const UniqueFd& file) {
        if (file.valid()) length = read(file.get(), out, size - 1);
      });
    }
    out[length > 0 ? length : 0] = '\0';
    return length > 0;
  }

  std::string Text(pid_t number, const char* name) const override {
    std::string text;
    spare_.Open(Path(number, name).text, O_RDONLY, [&text](const UniqueFd& file) {
      char part[16 << 10];
      ssize_t length = 0;
      while (file.valid() && (length = read(file.get(), part, sizeof part)) > 0) {
        text.append(part, static_cast<size_t>(length));
      }
    });
    return text;
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

 private:
  struct Path {
    Path(pid_t number, const char* name) {
      snprintf(text, sizeof text, "/proc/%d/%s", number, name);
    }
    char text[64];
  };

  // Entries of a directory that are numbers.
  std::optional<std::vector<pid_t>> Numbers(const char* path) const {
    std::optional<std::vector<pid_t>> numbers;
    spare_.Open(path, O_RDONLY | O_DIRECTORY, [&numbers](UniqueFd file) {
      DIR* const directory = file.valid() ? fdopendir(file.get()) : nullptr;
      if (directory == nullptr) return;
      file.release();  // which closedir closes
      numbers.emplace();
      while (const dirent* entry = readdir(directory)) {
        const pid_t number = atoi(entry->d_name);
        if (number > 0) numbers->push_back(number);
      }
      closedir(directory);
    });
    return numbers;
  }

  mutable SpareDescriptor spare_;
};

}  // namespace

const Proc& Proc::Host() {
  static const HostProc* const proc = new HostProc;
  return *proc;
}

}  // namespace phantora
