// Writes the stream (stream.h) from within a program that is recorded.
//
// The file is opened anew for each write, and the program's memory is read by system calls: there
// is nothing that a fork, an exec, a signal or a program that closes all descriptors could spoil.
#ifndef PHANTORA_TOOLS_RECORD_STREAM_WRITER_H_
#define PHANTORA_TOOLS_RECORD_STREAM_WRITER_H_

#include <errno.h>
#include <stddef.h>

#include <cstdint>

#include "tools/record/stream.h"

namespace phantora::record {

// No parameter block of the drivers is larger.
inline constexpr uint32_t kMostBlock = 1 << 20;

// Is there a folder to write to?
bool Recording();

// The number of the next call of this process.
uint64_t NextCall();

// Reads the program's memory. False if not all of it can be read.
bool ReadMemory(uint64_t address, void* to, size_t size);

// Writes a number in decimal digits and a 0 to `at`. Returns where the 0 is.
char* AppendNumber(unsigned number, char* at);

// Collects records and writes them in one go. What cannot be written is counted.
class Writer {
 public:
  // Says first which process this is, if that was not said.
  Writer();
  ~Writer() { Flush(); }

  void Add(RecordKind kind, uint64_t call, const uint64_t (&values)[4], const void* payload,
           uint32_t bytes);
  void AddText(RecordKind kind, uint64_t call, const uint64_t (&values)[4], const char* text);
  // A block of the program's memory, as far as it can be read.
  void AddBlock(RecordKind kind, uint16_t block, uint64_t call, uint64_t address, uint32_t size);

 private:
  // Makes room for a record with so much payload.
  void Reserve(uint32_t bytes);
  // A record whose payload lies in its place already.
  void AddInPlace(RecordKind kind, uint16_t block, uint64_t call, const uint64_t (&values)[4],
                  uint32_t bytes);
  void Flush();

  uint8_t buffer_[sizeof(RecordHeader) + kMostPayload];
  uint32_t used_ = 0, records_ = 0;
};

// Restores errno.
class KeepErrno {
 public:
  KeepErrno() : errno_(errno) {}
  ~KeepErrno() { errno = errno_; }

 private:
  const int errno_;
};

}  // namespace phantora::record

#endif  // PHANTORA_TOOLS_RECORD_STREAM_WRITER_H_
