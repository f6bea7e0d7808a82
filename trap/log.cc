#include "trap/log.h"

#include <unistd.h>

#include <string>

namespace phantora {
namespace {
LogLevel most_verbose_level = LogLevel::kWarning;
}  // namespace

void SetLogLevel(LogLevel most_verbose) { most_verbose_level = most_verbose; }

void Log(LogLevel level, std::string_view message) {
  if (level > most_verbose_level) return;
  std::string line = "phantora: ";
  if (level == LogLevel::kError) line += "error: ";
  if (level == LogLevel::kWarning) line += "warning: ";
  line.append(message);
  line += '\n';
  // One write keeps lines of concurrent writers apart.
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace phantora
