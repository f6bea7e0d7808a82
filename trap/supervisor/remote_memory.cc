#include "trap/supervisor/remote_memory.h"

#include <sys/uio.h>

#include <algorithm>
#include <cstring>

namespace phantora {

bool RemoteMemory::Read(RemoteAddress from, void* out, uint64_t length) const {
  if (length == 0) return true;
  iovec local{out, length};
  iovec remote{reinterpret_cast<void*>(from), length};
  return process_vm_readv(pid_, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(length);
}

bool RemoteMemory::Write(RemoteAddress to, const void* data, uint64_t length) const {
  if (length == 0) return true;
  iovec local{const_cast<void*>(data), length};
  iovec remote{reinterpret_cast<void*>(to), length};
  return process_vm_writev(pid_, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(length);
}

std::optional<std::string> RemoteMemory::ReadString(RemoteAddress from, size_t limit) const {
  std::string text;
  char chunk[256];
  while (text.size() < limit) {
    // Never across a page boundary, which the string may not cross itself.
    const uint64_t here = static_cast<uint64_t>(from);
    const size_t length = std::min<size_t>(sizeof chunk, 4096 - here % 4096);
    if (!Read(from, chunk, length)) return std::nullopt;
    if (const void* end = std::memchr(chunk, 0, length)) {
      text.append(chunk, static_cast<const char*>(end) - chunk);
      if (text.size() > limit) return std::nullopt;
      return text;
    }
    text.append(chunk, length);
    from = from + length;
  }
  return std::nullopt;
}

}  // namespace phantora
