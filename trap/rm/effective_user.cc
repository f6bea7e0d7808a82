#include "trap/rm/effective_user.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "trap/linux/unique_fd.h"

namespace phantora {

std::optional<uid_t> EffectiveUser(pid_t process) {
  char path[64], text[1024];
  snprintf(path, sizeof path, "/proc/%d/status", process);
  const UniqueFd file(open(path, O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return std::nullopt;
  // "Uid:" is the ninth line, after a name of at most 64 bytes.
  const ssize_t length = read(file.get(), text, sizeof text - 1);
  if (length <= 0) return std::nullopt;
  text[length] = '\0';
  const char* line = std::strstr(text, "\nUid:");
  uid_t real = 0, effective = 0;
  if (line == nullptr || sscanf(line, "\nUid: %u %u", &real, &effective) != 2) return std::nullopt;
  return effective;
}

}  // namespace phantora
