// What libphantora_record.so writes: one file per process, of records one after the other.
//
// A file is named after the process's number. Each record is a header and `bytes` of payload. The
// writer may die at any point, so the last record may be cut.
#ifndef PHANTORA_TOOLS_RECORD_STREAM_H_
#define PHANTORA_TOOLS_RECORD_STREAM_H_

#include <cstdint>

namespace phantora::record {

// The folder that the files are written to.
inline constexpr char kFolderVariable[] = "PHANTORA_RECORD_FOLDER";

inline constexpr uint32_t kMagic = 0x31524850;  // "PHR1"

enum class RecordKind : uint16_t {
  // A process, or a new program in it. values: parent, start time (/proc/PID/stat). Payload: its
  // program's path.
  kProcess = 1,
  // Before an ioctl. values: request, descriptor, escape or command, size of its block. Payload:
  // the device's path, empty if it is not known.
  kIoctl,
  // A piece of a block. values: offset, size of the whole block. Payload: the bytes.
  kBytesIn,
  kBytesOut,
  // After the ioctl. values: result, errno.
  kIoctlEnd,
  // values: flags, errno. Payload: the path.
  kOpen,
  // values: length, protection | flags << 32, offset, errno. Payload: the device's path.
  kMmap,
  // A text file that was opened. Payload: the path.
  kFile,
  // A piece of it. values: offset.
  kFileBytes,
};

// Blocks of an ioctl.
inline constexpr uint16_t kParameters = 0;  // the ioctl's own
inline constexpr uint16_t kNested = 1;      // a control's or an allocation's
inline constexpr uint16_t kFirstList = 2;   // lists that a control's parameters point to

struct RecordHeader {
  uint32_t magic;
  RecordKind kind;
  uint16_t block;
  uint32_t thread;
  uint32_t lost;  // records that could not be written before this one
  uint64_t call;  // counts within the process; joins the records of a call
  uint64_t values[4];
  uint32_t bytes;
  uint32_t reserved;
};
static_assert(sizeof(RecordHeader) == 64);

// No payload is longer.
inline constexpr uint32_t kMostPayload = 4096;

}  // namespace phantora::record

#endif  // PHANTORA_TOOLS_RECORD_STREAM_H_
