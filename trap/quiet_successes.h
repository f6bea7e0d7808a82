// Calls that are answered with success although nothing is done for them, with the reason why
// nothing needs to be: counted, so that a run can tell what it took for granted.
#ifndef PHANTORA_TRAP_QUIET_SUCCESSES_H_
#define PHANTORA_TRAP_QUIET_SUCCESSES_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace phantora {

class QuietSuccesses {
 public:
  // What is counted comes from the tables of ours, never from a program, so that there is only so
  // much of it, and lives as long as the program: `kind` is a fixed word such as "control"; `name`
  // may be nullptr; `reason` is a clause in plain words.
  void Count(std::string_view kind, uint64_t number, const char* name, const char* reason);

  // One line per call, most frequent first; empty if there was none.
  std::string Report() const;

 private:
  struct Entry {
    const char* name;
    const char* reason;
    uint64_t times = 0;
  };
  mutable std::mutex mutex_;
  std::map<std::pair<uint64_t, std::string_view>, Entry> calls_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_QUIET_SUCCESSES_H_
