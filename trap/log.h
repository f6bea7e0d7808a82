// Messages to the user, one line each, on stderr. ERROR: the run fails. WARNING:
// check before trusting the results. SUMMARY: what the run was asked for.
// INFO: only with --verbose.
#ifndef PHANTORA_TRAP_LOG_H_
#define PHANTORA_TRAP_LOG_H_

#include <string_view>

namespace phantora {

enum class LogLevel { kError, kSummary, kWarning, kInfo };

// Messages above this level are dropped. Set once, before threads start.
void SetLogLevel(LogLevel most_verbose);
void Log(LogLevel level, std::string_view message);

// Is written before every message: what takes a status line off the terminal. `prelude`
// lives for ever.
void SetLogPrelude(const char* prelude);

inline void LogError(std::string_view message) { Log(LogLevel::kError, message); }
inline void LogSummary(std::string_view message) { Log(LogLevel::kSummary, message); }
inline void LogWarning(std::string_view message) { Log(LogLevel::kWarning, message); }
inline void LogInfo(std::string_view message) { Log(LogLevel::kInfo, message); }

}  // namespace phantora

#endif  // PHANTORA_TRAP_LOG_H_
