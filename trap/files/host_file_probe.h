// Asks the host's file system about paths that ranks give, without waiting for file systems that
// do not answer.
#ifndef PHANTORA_TRAP_FILES_HOST_FILE_PROBE_H_
#define PHANTORA_TRAP_FILES_HOST_FILE_PROBE_H_

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace phantora {

// A look at a file of a network file system, or of one in user space, may never come back. It is
// made by a thread of its own: the caller waits a moment, then goes on without it.
class HostFileProbe {
 public:
  // `look`: is the file there, and may it be read? Replaced in tests.
  using Look = std::function<bool(const std::string& path)>;
  // `patience`: real time that the caller waits. It decides nothing but who waits: the answer after
  // it is the kernel's own.
  explicit HostFileProbe(Look look = DefaultLook(),
                         std::chrono::milliseconds patience = std::chrono::seconds(1));
  ~HostFileProbe();
  HostFileProbe(const HostFileProbe&) = delete;
  HostFileProbe& operator=(const HostFileProbe&) = delete;

  // `path` as the thread `thread` sees it, below its root. nullopt: it could not be told in
  // time, or so many looks hang already that no other is tried.
  std::optional<bool> IsReadable(pid_t thread, const std::string& path);

  int hanging() const;

 private:
  struct State;
  static Look DefaultLook();

  const std::chrono::milliseconds patience_;
  const std::shared_ptr<State> state_;  // outlives this for looks that never end
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_FILES_HOST_FILE_PROBE_H_
