// Messages to the user, one line each, on stderr. ERROR: the run fails. WARNING:
// check before trusting the results. INFO: only with --verbose.
#ifndef PHANTORA_TRAP_LOG_H_
#define PHANTORA_TRAP_LOG_H_

#include <string_view>

namespace phantora {

enum class LogLevel { kError, kWarning, kInfo };

// Messages above this level are dropped. Set once, before threads start.
void SetLogLevel(LogLevel most_verbose);
void Log(LogLevel level, std::string_view message);

inline void LogError(std::string_view message) { Log(LogLevel::kError, message); }
inline void LogWarning(std::string_view message) { Log(LogLevel::kWarning, message); }
inline void LogInfo(std::string_view message) { Log(LogLevel::kInfo, message); }

}  // namespace phantora

#endif  // PHANTORA_TRAP_LOG_H_
