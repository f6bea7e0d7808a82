#include "tools/observe/trace_writer.h"

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/observe/json_text.h"

namespace phantora {
namespace {

constexpr size_t kBufferBytes = 1 << 16;

// Microseconds, the format's unit.
std::string Microseconds(int64_t nanoseconds) {
  const char* sign = nanoseconds < 0 ? "-" : "";
  const int64_t magnitude = nanoseconds < 0 ? -nanoseconds : nanoseconds;
  return absl::StrFormat("%s%d.%03d", sign, magnitude / 1000, magnitude % 1000);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TraceWriter>> TraceWriter::Open(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "we");
  if (file == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot write the trace ", path, ": ", std::strerror(errno)));
  }
  // pending_ is the buffer: this one would cut events in two.
  std::setvbuf(file, nullptr, _IONBF, 0);
  return std::unique_ptr<TraceWriter>(new TraceWriter(file, path));
}

TraceWriter::~TraceWriter() { (void)Close(); }

absl::Status TraceWriter::Close() {
  if (file_ != nullptr) {
    absl::StrAppend(&pending_, first_ ? "[" : "", "\n]\n");
    Flush();
    if (std::fclose(file_) != 0 && error_ == 0) error_ = errno;
    file_ = nullptr;
  }
  if (error_ == 0) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("the trace ", path_, " is incomplete: ", std::strerror(error_)));
}

void TraceWriter::Flush() {
  if (error_ == 0 && std::fwrite(pending_.data(), 1, pending_.size(), file_) != pending_.size()) {
    error_ = errno == 0 ? EIO : errno;
  }
  pending_.clear();
}

void TraceWriter::Event(absl::string_view event) {
  if (file_ == nullptr) return;
  absl::StrAppend(&pending_, first_ ? "[\n" : ",\n", event);
  first_ = false;
  if (pending_.size() >= kBufferBytes) Flush();
}

void TraceWriter::Slice(int process, int track, VirtualSpan start, VirtualSpan end,
                        absl::string_view category, absl::string_view name,
                        absl::string_view arguments) {
  Event(absl::StrFormat(
      R"({"ph":"X","pid":%d,"tid":%d,"ts":%s,"dur":%s,"cat":%s,"name":%s,"args":{%s}})", process,
      track, Microseconds(start.nanoseconds()),
      Microseconds(end.nanoseconds() - start.nanoseconds()), JsonText(category), JsonText(name),
      arguments));
}

void TraceWriter::Counter(int process, absl::string_view name, absl::string_view unit,
                          VirtualSpan at, int64_t value) {
  Event(absl::StrFormat(R"({"ph":"C","pid":%d,"ts":%s,"name":%s,"args":{%s:%d}})", process,
                        Microseconds(at.nanoseconds()), JsonText(name), JsonText(unit), value));
}

void TraceWriter::NameProcess(int process, absl::string_view name, int order) {
  Event(absl::StrFormat(R"({"ph":"M","pid":%d,"name":"process_name","args":{"name":%s}})", process,
                        JsonText(name)));
  Event(
      absl::StrFormat(R"({"ph":"M","pid":%d,"name":"process_sort_index","args":{"sort_index":%d}})",
                      process, order));
}

void TraceWriter::NameTrack(int process, int track, absl::string_view name, int order) {
  Event(absl::StrFormat(R"({"ph":"M","pid":%d,"tid":%d,"name":"thread_name","args":{"name":%s}})",
                        process, track, JsonText(name)));
  Event(absl::StrFormat(
      R"({"ph":"M","pid":%d,"tid":%d,"name":"thread_sort_index","args":{"sort_index":%d}})",
      process, track, order));
}

}  // namespace phantora
