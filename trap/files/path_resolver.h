// What file of the host's name space a path of a process means.
#ifndef PHANTORA_TRAP_FILES_PATH_RESOLVER_H_
#define PHANTORA_TRAP_FILES_PATH_RESOLVER_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

namespace phantora {

// Where links of /proc/PID lead, behind an interface for tests.
class ProcessLinks {
 public:
  virtual ~ProcessLinks() = default;
  // /proc/`process`/`name`, such as "cwd" or "fd/3"; empty if it cannot be told.
  virtual std::string Read(pid_t process, const std::string& name) const;
};

class PathResolver {
 public:
  explicit PathResolver(const ProcessLinks* links) : links_(links) {}

  // Could it be one of the made-up files, for all that its text says? Nearly none can (an import
  // of PyTorch looks up 17,000), so this asks nothing about the process. `text_only`: false for
  // relative paths, which have to be resolved to know.
  static bool MayMatter(std::string_view path);

  // Absolute and normalised; without the ways round that /proc has (/proc/self/root and cwd, a
  // directory in /proc/self/fd). Links of the file system are not followed. `directory` is a
  // descriptor or AT_FDCWD. Empty if it starts from nowhere.
  std::string Absolute(pid_t process, int directory, std::string_view path) const;

 private:
  // The path behind a link of /proc/PID that `path` goes through; nullopt if it goes through none.
  std::optional<std::string> BehindLink(pid_t process, const std::string& path) const;

  const ProcessLinks* const links_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_FILES_PATH_RESOLVER_H_
