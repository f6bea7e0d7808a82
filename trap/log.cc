#include "trap/log.h"

#include <unistd.h>

#include <atomic>
#include <string>

namespace phantora {
namespace {
LogLevel most_verbose_level = LogLevel::kWarning;
std::atomic<const char*> prelude = "";
}  // namespace

void SetLogLevel(LogLevel most_verbose) { most_verbose_level = most_verbose; }

void SetLogPrelude(const char* text) { prelude = text; }

void Log(LogLevel level, std::string_view message) {
  if (level > most_verbose_level) return;
  std::string line = prelude.load();
  line += "phantora: ";
  if (level == LogLevel::kError) line += "error: ";
  if (level == LogLevel::kWarning) line += "warning: ";
  line.append(message);
  line += '\n';
  // One write keeps lines of concurrent writers apart.
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace phantora
