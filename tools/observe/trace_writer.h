// Writes the JSON Array Format of the Trace Event Format, which ui.perfetto.dev and
// chrome://tracing open.
#ifndef PHANTORA_TOOLS_OBSERVE_TRACE_WRITER_H_
#define PHANTORA_TOOLS_OBSERVE_TRACE_WRITER_H_

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "clock/virtual_time.h"

namespace phantora {

// In the array format the closing bracket is optional, and only whole events are handed to
// the kernel: what a killed run leaves behind can be opened.
class TraceWriter {
 public:
  // Makes the file, empties it. Errors: it cannot be written.
  static absl::StatusOr<std::unique_ptr<TraceWriter>> Open(const std::string& path);
  ~TraceWriter();

  // Times are told since the start of the run, and written in whole nanoseconds, so that
  // what touches does not overlap. `process` and `track` are positive. `arguments` are
  // members of a JSON object.
  void Slice(int process, int track, VirtualSpan start, VirtualSpan end, absl::string_view category,
             absl::string_view name, absl::string_view arguments);
  void Counter(int process, absl::string_view name, absl::string_view unit, VirtualSpan at,
               int64_t value);
  // Lower orders are shown further up.
  void NameProcess(int process, absl::string_view name, int order);
  void NameTrack(int process, int track, absl::string_view name, int order);

  // Writes the end. Errors: something could not be written. Nothing may follow.
  absl::Status Close();

 private:
  TraceWriter(std::FILE* file, std::string path) : file_(file), path_(std::move(path)) {}
  void Event(absl::string_view event);
  void Flush();

  std::FILE* file_;
  const std::string path_;
  std::string pending_;  // whole events
  bool first_ = true;
  int error_ = 0;  // errno of the first failure
};

}  // namespace phantora

#endif  // PHANTORA_TOOLS_OBSERVE_TRACE_WRITER_H_
