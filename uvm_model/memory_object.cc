#include "uvm_model/memory_object.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>

namespace phantora {
namespace {

constexpr uint64_t kPage = 4096;
// Below this a memset is cheaper than a system call and the page faults after it.
constexpr uint64_t kPunchThreshold = 64 * 1024;

// Files of all memory here, for ResidentBytes().
std::mutex files_mutex;
std::set<int> open_files;

// Memory leaves a quarter of this process's descriptors to everything else: without
// them no call of any rank could be served.
size_t MostOpenFiles() {
  rlimit descriptors{};
  getrlimit(RLIMIT_NOFILE, &descriptors);
  return descriptors.rlim_cur / 4 * 3;
}

const char* FileName(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::kVidmem:
      return "phantora-vidmem";
    case MemoryKind::kSysmem:
      return "phantora-sysmem";
    case MemoryKind::kRegisters:
      return "phantora-registers";
    case MemoryKind::kManaged:
      return "phantora-uvm";
    case MemoryKind::kExternal:
      break;
  }
  return "phantora-memory";
}

}  // namespace

OwnedMemory::OwnedMemory(MemoryKind kind, uint64_t size)
    : MemoryObject(kind, (size + kPage - 1) & ~(kPage - 1)) {}

OwnedMemory::~OwnedMemory() {
  if (base_ != nullptr) munmap(base_, size());
  if (fd_ < 0) return;
  const std::lock_guard lock(files_mutex);
  open_files.erase(fd_);
  close(fd_);
}

bool OwnedMemory::Materialise() {
  if (fd_ < 0) {
    const std::lock_guard lock(files_mutex);
    if (open_files.size() >= MostOpenFiles()) return false;
    int fd = memfd_create(FileName(kind()), MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) return false;
    if (ftruncate(fd, static_cast<off_t>(size())) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
      close(fd);
      return false;
    }
    fd_ = fd;
    open_files.insert(fd);
  }
  return true;
}

uint64_t OwnedMemory::ResidentBytes() {
  const std::lock_guard lock(files_mutex);
  uint64_t bytes = 0;
  for (const int file : open_files) {
    struct stat status = {};
    if (fstat(file, &status) == 0) bytes += static_cast<uint64_t>(status.st_blocks) * 512;
  }
  return bytes;
}

int OwnedMemory::MappableFd() { return Materialise() ? fd_ : -1; }

uint8_t* OwnedMemory::HostPointer() {
  // A process's UVM file spans its whole address space; map none of it here.
  if (kind() == MemoryKind::kManaged) return nullptr;
  if (base_ == nullptr && Materialise()) {
    void* base = mmap(nullptr, size(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd_, 0);
    if (base != MAP_FAILED) base_ = static_cast<uint8_t*>(base);
  }
  return base_;
}

bool OwnedMemory::Read(uint64_t offset, void* out, uint64_t length) {
  if (!Contains(offset, length)) return false;
  if (fd_ < 0) {
    std::memset(out, 0, length);
    return true;
  }
  if (uint8_t* base = HostPointer()) {
    std::memcpy(out, base + offset, length);
    return true;
  }
  auto* to = static_cast<uint8_t*>(out);
  while (length > 0) {
    ssize_t done = pread(fd_, to, length, static_cast<off_t>(offset));
    if (done <= 0) return false;
    to += done, offset += done, length -= done;
  }
  return true;
}

bool OwnedMemory::Write(uint64_t offset, const void* data, uint64_t length) {
  if (!Contains(offset, length)) return false;
  const auto* bytes = static_cast<const uint8_t*>(data);
  while (length >= 2 * kPunchThreshold) {
    // Up to where a piece that can be punched out begins.
    const uint64_t into = offset % kPunchThreshold;
    const uint64_t piece = kPunchThreshold - into;
    const bool zeros = into == 0 && bytes[0] == 0 && std::memcmp(bytes, bytes + 1, piece - 1) == 0;
    if (!(zeros ? Zero(offset, piece) : WriteBytes(offset, bytes, piece))) return false;
    offset += piece, bytes += piece, length -= piece;
  }
  return WriteBytes(offset, bytes, length);
}

bool OwnedMemory::WriteBytes(uint64_t offset, const uint8_t* data, uint64_t length) {
  if (uint8_t* base = HostPointer()) {
    std::memcpy(base + offset, data, length);
    return true;
  }
  if (!Materialise()) return false;
  while (length > 0) {
    ssize_t done = pwrite(fd_, data, length, static_cast<off_t>(offset));
    if (done <= 0) return false;
    data += done, offset += done, length -= done;
  }
  return true;
}

bool OwnedMemory::Zero(uint64_t offset, uint64_t length) {
  if (!Contains(offset, length)) return false;
  if (fd_ < 0) return true;  // never written: zero already
  const uint64_t end = offset + length;
  const uint64_t first_page = (offset + kPage - 1) & ~(kPage - 1);
  const uint64_t last_page = end & ~(kPage - 1);
  if (length >= kPunchThreshold && last_page > first_page &&
      fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(first_page),
                static_cast<off_t>(last_page - first_page)) == 0) {
    return Zero(offset, first_page - offset) && Zero(last_page, end - last_page);
  }
  if (uint8_t* base = HostPointer()) {
    std::memset(base + offset, 0, length);
    return true;
  }
  static constexpr uint8_t kZeros[kPage] = {};
  while (length > 0) {
    const uint64_t piece = std::min(length, kPage);
    if (!Write(offset, kZeros, piece)) return false;
    offset += piece, length -= piece;
  }
  return true;
}

MemoryObject::Run OwnedMemory::RunAt(uint64_t offset, uint64_t length) {
  if (fd_ < 0) return {true, length};
  const auto at = static_cast<off_t>(offset);
  const off_t data = lseek(fd_, at, SEEK_DATA);
  if (data < 0) return {errno == ENXIO, length};  // no data from here on
  if (data != at) return {true, std::min<uint64_t>(length, data - at)};
  const off_t hole = lseek(fd_, at, SEEK_HOLE);
  return {false, hole < 0 ? length : std::min<uint64_t>(length, hole - at)};
}

}  // namespace phantora
