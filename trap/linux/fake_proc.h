// Threads that tests make up.
#ifndef PHANTORA_TRAP_LINUX_FAKE_PROC_H_
#define PHANTORA_TRAP_LINUX_FAKE_PROC_H_

#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trap/linux/proc.h"

namespace phantora {

class FakeProc : public Proc {
 public:
  using Proc::Read;
  using Files = std::map<std::string, std::string>;

  // A thread that is asleep in the system call `call` (202: futex).
  void Sleeps(pid_t process, pid_t thread, int slices, int call = 202) {
    Set(process, thread, 'S', slices, std::to_string(call) + " 0x1 0x2 0x3");
  }
  void AboutToSleep(pid_t process, pid_t thread, int slices) {
    Set(process, thread, 'S', slices, "running");
  }
  // One that is asleep by its call, and has been woken.
  void Woken(pid_t process, pid_t thread, int slices, int call = 202) {
    Set(process, thread, 'R', slices, std::to_string(call) + " 0x1 0x2 0x3");
  }
  void Set(pid_t process, pid_t thread, char state, int slices, const std::string& call) {
    Files& files = processes_[process][thread];
    files["stat"] = Stat(thread, state, 1, 1);
    files["schedstat"] = "1000 2000 " + std::to_string(slices) + "\n";
    files["syscall"] = call + "\n";
    files["wchan"] = state == 'R' || call == "running" ? "0" : "do_wait";
  }
  // A process with one thread, which `threads` says are more.
  void SetProcess(pid_t process, pid_t parent, char state = 'S', int threads = 1) {
    processes_[process][process]["stat"] = Stat(process, state, parent, threads);
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
  std::vector<pid_t> Processes() const override {
    std::vector<pid_t> all;
    for (const auto& [process, threads] : processes_) all.push_back(process);
    return all;
  }
  using Proc::Open;
  // Of files that were set by SetText() only.
  UniqueFd Open(pid_t number, const char* name, int) const override {
    const auto text = texts_.find({number, name});
    if (text == texts_.end()) return UniqueFd();
    UniqueFd file(memfd_create(name, MFD_CLOEXEC));
    const std::string& bytes = text->second;
    if (write(file.get(), bytes.data(), bytes.size()) < 0 || lseek(file.get(), 0, SEEK_SET) != 0) {
      return UniqueFd();
    }
    return file;
  }
  void SetText(pid_t number, const std::string& name, const std::string& bytes) {
    texts_[{number, name}] = bytes;
  }
  std::string Text(pid_t number, const char* name) const override {
    const auto text = texts_.find({number, name});
    return text == texts_.end() ? "" : text->second;
  }
  bool ChannelsAreExact() const override { return channels_are_exact; }
  bool channels_are_exact = true;
  Memory MachineMemory() const override { return memory; }
  Memory memory{.total = uint64_t{64} << 30, .available = uint64_t{64} << 30};
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
  static std::string Stat(pid_t number, char state, pid_t parent, int threads) {
    return std::to_string(number) + " (a ) b) " + state + " " + std::to_string(parent) +
           " 1 1 0 -1 0 0 0 0 0 1 1 0 0 20 0 " + std::to_string(threads) + " 0 100\n";
  }

  std::map<std::pair<pid_t, std::string>, std::string> texts_;
  std::map<pid_t, std::map<pid_t, Files>> processes_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_LINUX_FAKE_PROC_H_
