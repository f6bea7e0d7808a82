#include "trap/supervisor/thread_activity.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trap/supervisor/unique_fd.h"

namespace phantora {
namespace {

// Reads a small file of /proc; false if it is gone.
template <size_t kSize>
bool ReadFile(const char* format, pid_t thread, char (&text)[kSize]) {
  char path[64];
  snprintf(path, sizeof path, format, thread);
  const UniqueFd file(open(path, O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return false;
  const ssize_t length = read(file.get(), text, kSize - 1);
  text[length > 0 ? length : 0] = '\0';
  return length > 0;
}

// The time slices that the thread has had; -1 if it is gone.
int64_t Slices(pid_t thread) {
  char text[128];
  int64_t slices = -1;
  if (!ReadFile("/proc/%d/schedstat", thread, text)) return -1;
  sscanf(text, "%*d %*d %" SCNd64, &slices);
  return slices;
}

bool Runs(pid_t thread) {
  char text[512];
  if (!ReadFile("/proc/%d/stat", thread, text)) return false;
  const char* fields = strrchr(text, ')');
  char state = 'S';
  if (fields != nullptr) sscanf(fields + 1, " %c", &state);
  return state == 'R' || state == 'D';
}

uint64_t Mask(const char* text, const char* name) {
  const char* at = strstr(text, name);
  return at == nullptr ? 0 : strtoull(at + strlen(name), nullptr, 16);
}

}  // namespace

uint64_t PendingSignals(pid_t thread) {
  char text[4096];
  if (!ReadFile("/proc/%d/status", thread, text)) return 0;
  return Mask(text, "SigPnd:") | Mask(text, "ShdPnd:");
}

bool HasSignalToHandle(pid_t thread) {
  char text[4096];
  if (!ReadFile("/proc/%d/status", thread, text)) return false;
  return ((Mask(text, "SigPnd:") | Mask(text, "ShdPnd:")) & ~Mask(text, "SigBlk:") &
          Mask(text, "SigCgt:")) != 0;
}

bool ThreadActivity::AllBlocked(const std::vector<pid_t>& processes,
                                const std::function<bool(pid_t)>& held) {
  // Who ran last time probably still does.
  if (running_ != 0 && !held(running_) && Runs(running_)) return false;
  std::vector<std::pair<pid_t, int64_t>> threads;
  for (const pid_t process : processes) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", process);
    DIR* tasks = opendir(path);
    if (tasks == nullptr) continue;
    while (const dirent* entry = readdir(tasks)) {
      const pid_t thread = atoi(entry->d_name);
      if (thread > 0 && !held(thread)) threads.emplace_back(thread, Slices(thread));
    }
    closedir(tasks);
  }
  for (const auto& [thread, slices] : threads) {
    if (Runs(thread)) {
      running_ = thread;
      return false;
    }
  }
  for (const auto& [thread, slices] : threads) {
    if (Slices(thread) != slices) {
      running_ = thread;
      return false;
    }
  }
  return true;
}

}  // namespace phantora
