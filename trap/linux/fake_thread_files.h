// Threads that tests make up.
#ifndef PHANTORA_TRAP_LINUX_FAKE_THREAD_FILES_H_
#define PHANTORA_TRAP_LINUX_FAKE_THREAD_FILES_H_

#include <sys/types.h>

#include <cstdio>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trap/linux/thread_files.h"

namespace phantora {

class FakeThreadFiles : public ThreadFiles {
 public:
  using Files = std::map<std::string, std::string>;

  // A thread that is asleep in the system call `call` (202: futex).
  void Sleeps(pid_t process, pid_t thread, int slices, int call = 202) {
    Set(process, thread, 'S', slices, std::to_string(call) + " 0x1 0x2 0x3");
  }
  void AboutToSleep(pid_t process, pid_t thread, int slices) {
    Set(process, thread, 'S', slices, "running");
  }
  void Set(pid_t process, pid_t thread, char state, int slices, const std::string& call) {
    Files& files = processes_[process][thread];
    files["stat"] = std::to_string(thread) + " (a ) b) " + state + " 1 1";
    files["schedstat"] = "1000 2000 " + std::to_string(slices) + "\n";
    files["syscall"] = call + "\n";
  }
  void SetFile(pid_t process, pid_t thread, const std::string& name, const std::string& text) {
    processes_[process][thread][name] = text;
  }
  void End(pid_t process, pid_t thread) { processes_[process].erase(thread); }
  void EndProcess(pid_t process) { processes_.erase(process); }

  // Called before every read.
  std::function<void(pid_t thread, const std::string& name)> on_read;
  mutable int reads = 0, lists = 0;

  std::optional<std::vector<pid_t>> Threads(pid_t process) const override {
    ++lists;
    const auto it = processes_.find(process);
    if (it == processes_.end()) return std::nullopt;
    std::vector<pid_t> threads;
    for (const auto& [thread, files] : it->second) threads.push_back(thread);
    return threads;
  }
  UniqueFd Open(pid_t, const char*) const override { return UniqueFd(); }
  bool Read(pid_t thread, const char* name, const UniqueFd&, char* out,
            size_t size) const override {
    ++reads;
    if (on_read) on_read(thread, name);
    out[0] = '\0';
    for (const auto& [process, threads] : processes_) {
      const auto found = threads.find(thread);
      if (found == threads.end()) continue;
      const auto file = found->second.find(name);
      if (file == found->second.end()) return false;
      snprintf(out, size, "%s", file->second.c_str());
      return out[0] != '\0';
    }
    return false;
  }

 private:
  std::map<pid_t, std::map<pid_t, Files>> processes_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_LINUX_FAKE_THREAD_FILES_H_
