#include "trap/linux/remote_memory.h"

#include <errno.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace phantora {
namespace {

constexpr size_t kWordsAtATime = 128;  // of 1,024 that the kernel allows

}  // namespace

bool RemoteMemory::Allowed() const {
  // Who may read finds nothing at this address.
  char byte;
  iovec local{&byte, 1};
  iovec remote{nullptr, 1};
  const bool forbidden =
      process_vm_readv(pid_, &local, 1, &remote, 1, 0) < 0 && (errno == EPERM || errno == ENOSYS);
  return !forbidden;
}

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

bool RemoteMemory::ReadWords(absl::Span<const RemoteAddress> from, uint32_t* out) const {
  std::array<iovec, kWordsAtATime> words;
  for (size_t done = 0; done < from.size();) {
    const size_t count = std::min(words.size(), from.size() - done);
    for (size_t i = 0; i < count; ++i) {
      words[i] = {reinterpret_cast<void*>(from[done + i]), sizeof *out};
    }
    iovec local{out + done, count * sizeof *out};
    if (process_vm_readv(pid_, &local, 1, words.data(), count, 0) !=
        static_cast<ssize_t>(local.iov_len)) {
      return false;
    }
    done += count;
  }
  return true;
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
