// Processes for tests: numbers mean what the test says, and may be used anew at any moment.
#ifndef PHANTORA_TRAP_LINUX_FAKE_PROCESSES_H_
#define PHANTORA_TRAP_LINUX_FAKE_PROCESSES_H_

#include <sys/eventfd.h>

#include <functional>
#include <map>
#include <set>

#include "trap/linux/process_source.h"

namespace phantora {

class FakeProcesses : public ProcessSource {
 public:
  std::map<pid_t, pid_t> process_of;
  std::map<pid_t, pid_t> parent_of;
  std::set<pid_t> ending;
  bool out_of_descriptors = false;
  std::function<void()> before_answer = [] {};
  int looks = 0;
  int last_pidfd = -1;  // an eventfd: readable, and so dead, once it is written

  bool HasThread(pid_t process, pid_t thread) override {
    const auto it = process_of.find(thread);
    return it != process_of.end() && it->second == process;
  }
  absl::StatusOr<pid_t> ProcessOf(pid_t thread) override {
    ++looks;
    before_answer();
    if (out_of_descriptors) return absl::ResourceExhaustedError("none");
    const auto it = process_of.find(thread);
    if (it == process_of.end()) return absl::NotFoundError("none");
    return it->second;
  }
  pid_t ParentOf(pid_t process) override {
    const auto it = parent_of.find(process);
    return it == parent_of.end() ? 0 : it->second;
  }
  bool IsEnding(pid_t process) override { return ending.count(process) > 0; }
  absl::StatusOr<UniqueFd> Open(pid_t process) override {
    if (out_of_descriptors) return absl::ResourceExhaustedError("none");
    last_pidfd = eventfd(0, EFD_CLOEXEC);
    return UniqueFd(last_pidfd);
  }
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_LINUX_FAKE_PROCESSES_H_
