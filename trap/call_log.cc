#include "trap/call_log.h"

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clock/time_source.h"

namespace phantora {

absl::StatusOr<std::unique_ptr<CallLog>> CallLog::Open(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "we");
  if (file == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot write the call log ", path, ": ", std::strerror(errno)));
  }
  auto log = std::make_unique<CallLog>();
  log->file_ = file;
  log->start_ns_ = RealTimeSource().Now().nanoseconds();
  return log;
}

CallLog::~CallLog() {
  if (file_ != nullptr) std::fclose(file_);
}

void CallLog::Line(int process, std::string_view text) {
  if (file_ == nullptr) return;
  const double ms = (RealTimeSource().Now().nanoseconds() - start_ns_) / 1e6;
  std::lock_guard lock(mutex_);
  absl::FPrintF(file_, "%10.3f %6d %s\n", ms, process, absl::string_view(text.data(), text.size()));
}

std::string CallLog::Hex(absl::Span<const uint8_t> bytes, size_t limit) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  const size_t shown = std::min(bytes.size(), limit);
  for (size_t i = 0; i < shown; ++i) {
    if (i > 0 && i % 4 == 0) text += ' ';
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  if (shown < bytes.size()) absl::StrAppend(&text, " ... (", bytes.size(), " bytes)");
  return text;
}

}  // namespace phantora
