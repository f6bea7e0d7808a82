// The readable trace of --log-calls: one line per driver call, with names and
// the parameter block before and after.
#ifndef PHANTORA_TRAP_CALL_LOG_H_
#define PHANTORA_TRAP_CALL_LOG_H_

#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace phantora {

class CallLog {
 public:
  // A log that drops everything.
  CallLog() = default;
  // Errors: the file cannot be created.
  static absl::StatusOr<std::unique_ptr<CallLog>> Open(const std::string& path);
  ~CallLog();

  bool enabled() const { return file_ != nullptr; }
  // `process` is the tgid of the caller, 0 for the GPU itself.
  void Line(int process, std::string_view text);

  // "1a2b3c4d 00000000 ..." in groups of four bytes, at most `limit` bytes.
  static std::string Hex(absl::Span<const uint8_t> bytes, size_t limit = 128);

 private:
  std::FILE* file_ = nullptr;
  std::mutex mutex_;
  int64_t start_ns_ = 0;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_CALL_LOG_H_
