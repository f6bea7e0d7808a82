#include "fabric/library/last_error.h"

#include <strings.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace phantora::nccl {
namespace {

enum Level { kUnread = -1, kNone, kVersion, kWarn, kInfo };

std::atomic<int> level{kUnread};

// One thread's watchdog reads what another thread's call left behind, so this is not per thread;
// a message that is being read must not change, so there are several.
constexpr unsigned kMessages = 8;
char messages[kMessages][1024];
std::atomic<unsigned> begun{0}, written{0};

int DebugLevel() {
  int known = level.load(std::memory_order_relaxed);
  if (known != kUnread) return known;
  const char* text = getenv("NCCL_DEBUG");
  known = kNone;
  if (text != nullptr) {
    if (strcasecmp(text, "VERSION") == 0) known = kVersion;
    if (strcasecmp(text, "WARN") == 0) known = kWarn;
    for (const char* more : {"INFO", "ABORT", "TRACE"}) {
      if (strcasecmp(text, more) == 0) known = kInfo;
    }
  }
  level.store(known, std::memory_order_relaxed);
  return known;
}

void Remember(bool print, const char* format, va_list arguments) {
  const unsigned number = ++begun;
  char* message = messages[number % kMessages];
  vsnprintf(message, sizeof(messages[0]), format, arguments);
  written.store(number);
  if (print) fprintf(stderr, "phantora: NCCL: %s\n", message);
}

}  // namespace

ncclResult_t Fail(ncclResult_t result, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  Remember(DebugLevel() >= kWarn, format, arguments);
  va_end(arguments);
  return result;
}

ncclResult_t FailLoudly(ncclResult_t result, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  Remember(true, format, arguments);
  va_end(arguments);
  return result;
}

void Warn(const char* format, ...) {
  char message[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof(message), format, arguments);
  va_end(arguments);
  fprintf(stderr, "phantora: NCCL: %s\n", message);
}

const char* LastError() { return messages[written.load() % kMessages]; }

void ShowVersionOnce(int rank) {
  const int known = DebugLevel();
  if (known < kVersion || (known < kInfo && rank != 0)) return;
  static std::atomic<bool> shown{false};
  if (shown.exchange(true)) return;
  printf("NCCL version %d.%d.%d+phantora\n", kNcclVersion / 10000, kNcclVersion / 100 % 100,
         kNcclVersion % 100);
  fflush(stdout);
}

void RereadDebugLevel() { level = kUnread; }

}  // namespace phantora::nccl
