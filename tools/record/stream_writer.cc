#include "tools/record/stream_writer.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>

namespace phantora::record {
namespace {

char folder[256];
std::atomic<uint64_t> next_call{1};
std::atomic<uint32_t> lost{0};
std::atomic<pid_t> announced{0};

int Open(const char* path, int flags) {
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0600));
}

// /proc/PID/stat: the parent is field 4, the start time field 22.
void ReadStat(uint64_t (&values)[4]) {
  char text[1024];
  const int fd = Open("/proc/self/stat", O_RDONLY);
  if (fd < 0) return;
  const ssize_t size = syscall(SYS_read, fd, text, sizeof text - 1);
  syscall(SYS_close, fd);
  if (size <= 0) return;
  text[size] = '\0';
  // The program's name is in brackets, and may hold anything.
  const char* at = strrchr(text, ')');
  for (int field = 3; at != nullptr && field <= 22; ++field) {
    at = strchr(at + 1, ' ');
    if (at == nullptr) return;
    if (field == 4) values[0] = strtoul(at, nullptr, 10);
    if (field == 22) values[1] = strtoul(at, nullptr, 10);
  }
}

// Before any other constructor, if the loader heeds the number.
__attribute__((constructor(101))) void ReadFolder() {
  const char* value = getenv(kFolderVariable);
  if (value != nullptr && strlen(value) < sizeof folder) strcpy(folder, value);
}

}  // namespace

bool Recording() { return folder[0] != '\0'; }

uint64_t NextCall() { return next_call.fetch_add(1, std::memory_order_relaxed); }

// False if not all of it can be read.
bool ReadMemory(uint64_t address, void* to, size_t size) {
  if (size == 0) return true;
  iovec local{to, size}, remote{reinterpret_cast<void*>(address), size};
  const ssize_t read = syscall(SYS_process_vm_readv, getpid(), &local, 1, &remote, 1, 0);
  if (read >= 0 || (errno != EPERM && errno != ENOSYS)) return read == static_cast<ssize_t>(size);
  // Some containers forbid the call.
  const int fd = Open("/proc/self/mem", O_RDONLY);
  if (fd < 0) return false;
  const ssize_t got = pread(fd, to, size, static_cast<off_t>(address));
  syscall(SYS_close, fd);
  return got == static_cast<ssize_t>(size);
}

char* AppendNumber(unsigned number, char* at) {
  char digits[12];
  int count = 0;
  do {
    digits[count++] = static_cast<char>('0' + number % 10);
    number /= 10;
  } while (number > 0);
  while (count > 0) *at++ = digits[--count];
  *at = '\0';
  return at;
}

Writer::Writer() {
  const pid_t pid = getpid();
  if (announced.exchange(pid, std::memory_order_relaxed) == pid) return;
  uint64_t values[4] = {};
  ReadStat(values);
  char program[512];
  const ssize_t size = readlink("/proc/self/exe", program, sizeof program - 1);
  program[size > 0 ? size : 0] = '\0';
  AddText(RecordKind::kProcess, 0, values, program);
}

void Writer::Reserve(uint32_t bytes) {
  if (sizeof(RecordHeader) + bytes > sizeof buffer_ - used_) Flush();
}

void Writer::AddInPlace(RecordKind kind, uint16_t block, uint64_t call, const uint64_t (&values)[4],
                        uint32_t bytes) {
  RecordHeader header = {};
  header.magic = kMagic;
  header.kind = kind;
  header.block = block;
  header.thread = static_cast<uint32_t>(syscall(SYS_gettid));
  header.lost = lost.load(std::memory_order_relaxed);
  header.call = call;
  memcpy(header.values, values, sizeof values);
  header.bytes = bytes;
  memcpy(buffer_ + used_, &header, sizeof header);
  used_ += sizeof header + bytes;
  ++records_;
}

void Writer::Add(RecordKind kind, uint64_t call, const uint64_t (&values)[4], const void* payload,
                 uint32_t bytes) {
  Reserve(bytes);
  if (bytes > 0) memcpy(buffer_ + used_ + sizeof(RecordHeader), payload, bytes);
  AddInPlace(kind, 0, call, values, bytes);
}

void Writer::AddText(RecordKind kind, uint64_t call, const uint64_t (&values)[4],
                     const char* text) {
  const size_t size = strlen(text);
  Add(kind, call, values, text, size < kMostPayload ? static_cast<uint32_t>(size) : kMostPayload);
}

void Writer::AddBlock(RecordKind kind, uint16_t block, uint64_t call, uint64_t address,
                      uint32_t size) {
  if (size > kMostBlock) size = kMostBlock;
  for (uint32_t offset = 0; offset < size; offset += kMostPayload) {
    const uint32_t bytes = size - offset < kMostPayload ? size - offset : kMostPayload;
    Reserve(bytes);
    if (!ReadMemory(address + offset, buffer_ + used_ + sizeof(RecordHeader), bytes)) return;
    AddInPlace(kind, block, call, {offset, size, 0, 0}, bytes);
  }
}

void Writer::Flush() {
  if (used_ == 0) return;
  char path[sizeof folder + 16];  // "<folder>/<pid>"
  strcpy(path, folder);
  char* at = path + strlen(path);
  *at++ = '/';
  AppendNumber(static_cast<unsigned>(getpid()), at);
  const int fd = Open(path, O_WRONLY | O_CREAT | O_APPEND);
  // One write, so that threads' records do not mix.
  if (fd < 0 || syscall(SYS_write, fd, buffer_, used_) != static_cast<ssize_t>(used_)) {
    lost.fetch_add(records_, std::memory_order_relaxed);
  }
  if (fd >= 0) syscall(SYS_close, fd);
  used_ = records_ = 0;
}

}  // namespace phantora::record
