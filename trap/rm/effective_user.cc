#include "trap/rm/effective_user.h"

#include <cstdio>
#include <cstring>

#include "trap/linux/proc.h"

namespace phantora {

std::optional<uid_t> EffectiveUser(pid_t process) {
  // "Uid:" is the ninth line, after a name of at most 64 bytes.
  char text[1024];
  if (!Proc::Host().Read(process, "status", text)) return std::nullopt;
  const char* line = std::strstr(text, "\nUid:");
  uid_t real = 0, effective = 0;
  if (line == nullptr || sscanf(line, "\nUid: %u %u", &real, &effective) != 2) return std::nullopt;
  return effective;
}

}  // namespace phantora
