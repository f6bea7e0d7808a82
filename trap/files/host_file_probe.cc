#include "trap/files/host_file_probe.h"

#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

namespace phantora {
namespace {

// Threads that hang are not got back.
constexpr int kMostHanging = 8;

}  // namespace

struct HostFileProbe::State {
  Look look;
  std::mutex mutex;
  std::condition_variable changed;
  int hanging = 0;
  // What the one thread that does not hang is to look at, and what it found.
  std::optional<std::string> wanted;
  std::optional<bool> found;
  uint64_t worker = 0;  // counts up when a thread is left to itself
  bool has_worker = false, stop = false;

  void Run(uint64_t self) {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return stop || worker != self || wanted; });
      if (stop || worker != self) return;
      const std::string path = *std::exchange(wanted, std::nullopt);
      lock.unlock();
      const bool is_readable = look(path);
      lock.lock();
      if (worker != self) {  // nobody waits any more
        --hanging;
        return;
      }
      found = is_readable;
      changed.notify_all();
    }
  }
};

HostFileProbe::Look HostFileProbe::DefaultLook() {
  return [](const std::string& path) { return access(path.c_str(), R_OK) == 0; };
}

HostFileProbe::HostFileProbe(Look look, std::chrono::milliseconds patience)
    : patience_(patience), state_(std::make_shared<State>()) {
  state_->look = std::move(look);
}

HostFileProbe::~HostFileProbe() {
  std::lock_guard lock(state_->mutex);
  state_->stop = true;
  state_->changed.notify_all();
}

int HostFileProbe::hanging() const {
  std::lock_guard lock(state_->mutex);
  return state_->hanging;
}

std::optional<bool> HostFileProbe::IsReadable(pid_t thread, const std::string& path) {
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  if (state.hanging >= kMostHanging) return std::nullopt;
  if (!state.has_worker) {
    state.has_worker = true;
    std::thread([kept = state_, self = state.worker] { kept->Run(self); }).detach();
  }
  state.wanted = absl::StrCat("/proc/", thread, "/root", path);
  state.found.reset();
  state.changed.notify_all();
  if (state.changed.wait_for(lock, patience_, [&] { return state.found.has_value(); })) {
    return state.found;
  }
  state.wanted.reset();
  ++state.worker;
  ++state.hanging;
  state.has_worker = false;
  return std::nullopt;
}

}  // namespace phantora
