// Streams as the interposer writes them, made for tests.
#ifndef PHANTORA_TOOLS_RECORD_STREAM_FOR_TEST_H_
#define PHANTORA_TOOLS_RECORD_STREAM_FOR_TEST_H_

#include <cstring>
#include <string>
#include <vector>

#include "tools/record/stream.h"

namespace phantora::record {

class StreamForTest {
 public:
  void Add(RecordKind kind, uint64_t call, std::vector<uint64_t> values,
           const std::string& payload = "", uint16_t block = 0, uint32_t thread = 1) {
    RecordHeader header = {};
    header.magic = kMagic;
    header.kind = kind;
    header.block = block;
    header.thread = thread;
    header.call = call;
    for (size_t i = 0; i < values.size() && i < 4; ++i) header.values[i] = values[i];
    header.bytes = static_cast<uint32_t>(payload.size());
    bytes.append(reinterpret_cast<const char*>(&header), sizeof header);
    bytes += payload;
  }

  struct Block {
    std::string in, out;
  };

  // A whole ioctl.
  void AddIoctl(const std::string& device, uint64_t request, uint64_t number,
                const std::vector<Block>& blocks, int result = 0, int error = 0,
                uint32_t thread = 1) {
    const uint64_t call = ++calls_;
    Add(RecordKind::kIoctl, call, {request, 3, number, blocks[0].in.size()}, device, 0, thread);
    for (const RecordKind kind : {RecordKind::kBytesIn, RecordKind::kBytesOut}) {
      for (uint16_t i = 0; i < blocks.size(); ++i) {
        const std::string& content = kind == RecordKind::kBytesIn ? blocks[i].in : blocks[i].out;
        for (size_t at = 0; at < content.size(); at += kMostPayload) {
          Add(kind, call, {at, blocks[i].in.size()}, content.substr(at, kMostPayload), i, thread);
        }
      }
    }
    Add(RecordKind::kIoctlEnd, call, {static_cast<uint64_t>(result), static_cast<uint64_t>(error)},
        "", 0, thread);
  }

  std::string bytes;

 private:
  uint64_t calls_ = 0;
};

// The bytes of a structure.
template <typename T>
std::string BytesOf(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

}  // namespace phantora::record

#endif  // PHANTORA_TOOLS_RECORD_STREAM_FOR_TEST_H_
