// Reads what libphantora_record.so wrote (stream.h) back into calls.
#ifndef PHANTORA_TOOLS_RECORD_STREAM_READER_H_
#define PHANTORA_TOOLS_RECORD_STREAM_READER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/record/stream.h"

namespace phantora::record {

// A block of parameters before and after the call; shorter than `size` where it could not be read.
struct RawBlock {
  uint32_t size = 0;
  std::vector<uint8_t> in, out;
};

struct RawCall {
  RecordKind kind = RecordKind::kIoctl;  // or kOpen, kMmap, kFile
  uint64_t number = 0;
  uint32_t thread = 0;
  std::string path;  // of the device or file; "" if it is not known
  // As in the stream's record. Of kIoctl: request, descriptor, escape or command, size.
  uint64_t values[4] = {};
  std::vector<RawBlock> blocks;  // of kIoctl
  bool ended = false;
  int result = 0, error = 0;
  std::string content;  // of kFile
};

struct RawProcess {
  int process = 0, parent = 0;
  uint64_t start = 0;  // as /proc/PID/stat has it
  std::string program;
  std::vector<RawCall> calls;
  uint64_t lost = 0;  // records that could not be written
  bool cut = false;   // the last record is not whole
};

// One file's text; `process` is its name. A number may have been given to several processes.
// Errors: what the interposer does not write.
absl::StatusOr<std::vector<RawProcess>> ReadStream(absl::string_view bytes, int process);

// All files of a folder, in the order in which the processes were started.
absl::StatusOr<std::vector<RawProcess>> ReadStreams(const std::string& folder);

}  // namespace phantora::record

#endif  // PHANTORA_TOOLS_RECORD_STREAM_READER_H_
