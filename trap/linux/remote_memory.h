// Memory of a tracee. Addresses are their own type, so that one cannot be
// dereferenced here by accident. Every byte read is untrusted: copy in once,
// validate the copy, use the copy.
#ifndef PHANTORA_TRAP_LINUX_REMOTE_MEMORY_H_
#define PHANTORA_TRAP_LINUX_REMOTE_MEMORY_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>

#include "absl/types/span.h"

namespace phantora {

enum class RemoteAddress : uint64_t {};

constexpr RemoteAddress operator+(RemoteAddress base, uint64_t offset) {
  return RemoteAddress{static_cast<uint64_t>(base) + offset};
}

class RemoteMemory {
 public:
  explicit RemoteMemory(pid_t pid) : pid_(pid) {}
  virtual ~RemoteMemory() = default;

  // False: the kernel forbids it (Yama, a seccomp filter, capabilities that this process lacks, a
  // program whose file may not be read).
  bool Allowed() const;

  // All or nothing as seen by the caller; false when any byte is inaccessible or
  // the process has gone.
  virtual bool Read(RemoteAddress from, void* out, uint64_t length) const;
  virtual bool Write(RemoteAddress to, const void* data, uint64_t length) const;

  template <typename T>
  std::optional<T> ReadObject(RemoteAddress from) const {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    if (!Read(from, &value, sizeof value)) return std::nullopt;
    return value;
  }
  template <typename T>
  bool WriteObject(RemoteAddress to, const T& value) const {
    static_assert(std::is_trivially_copyable_v<T>);
    return Write(to, &value, sizeof value);
  }

  // Words of 32 bits that lie anywhere, one to each of `out`, in one call. False as above.
  bool ReadWords(absl::Span<const RemoteAddress> from, uint32_t* out) const;

  // A NUL-terminated string of at most `limit` bytes; nullopt if there is no
  // terminator within them or the memory ends before it.
  std::optional<std::string> ReadString(RemoteAddress from, size_t limit) const;

 private:
  const pid_t pid_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_LINUX_REMOTE_MEMORY_H_
