// A tracee's memory without a tracee.
#ifndef PHANTORA_TRAP_LINUX_FAKE_MEMORY_H_
#define PHANTORA_TRAP_LINUX_FAKE_MEMORY_H_

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <vector>

#include "trap/linux/remote_memory.h"

namespace phantora {

// Blocks at addresses; what is in none of them cannot be read or written. Const like the real one,
// whose bytes are not its own either.
class FakeMemory : public RemoteMemory {
 public:
  FakeMemory() : RemoteMemory(0) {}

  // Called after each read of anything, with its address: another thread may write now.
  mutable std::function<void(uint64_t address)> after_read;
  mutable int reads = 0, writes = 0;

  template <typename T>
  void Put(uint64_t address, const T& value) const {
    PutBytes(address, &value, sizeof value);
  }
  template <typename T>
  void PutAll(uint64_t address, const std::vector<T>& values) const {
    PutBytes(address, values.data(), values.size() * sizeof(T));
  }
  template <typename T>
  T Get(uint64_t address) const {
    T value{};
    if (const uint8_t* bytes = Find(address, sizeof value)) memcpy(&value, bytes, sizeof value);
    return value;
  }
  void MakeReadOnly() const { writable_ = false; }

  bool Read(RemoteAddress from, void* out, uint64_t length) const override {
    if (length == 0) return true;
    ++reads;
    const auto address = static_cast<uint64_t>(from);
    const uint8_t* bytes = Find(address, length);
    if (bytes == nullptr) return false;
    memcpy(out, bytes, length);
    if (after_read) after_read(address);
    return true;
  }
  bool Write(RemoteAddress to, const void* data, uint64_t length) const override {
    if (length == 0) return true;
    ++writes;
    uint8_t* bytes = Find(static_cast<uint64_t>(to), length);
    if (bytes == nullptr || !writable_) return false;
    memcpy(bytes, data, length);
    return true;
  }

 private:
  void PutBytes(uint64_t address, const void* data, size_t length) const {
    uint8_t* bytes = Find(address, length);
    if (bytes == nullptr) {
      blocks_[address].resize(length);
      bytes = blocks_[address].data();
    }
    if (length > 0) memcpy(bytes, data, length);
  }
  uint8_t* Find(uint64_t address, uint64_t length) const {
    auto it = blocks_.upper_bound(address);
    if (it == blocks_.begin()) return nullptr;
    --it;
    const uint64_t offset = address - it->first;
    if (offset > it->second.size() || length > it->second.size() - offset) return nullptr;
    return it->second.data() + offset;
  }

  mutable std::map<uint64_t, std::vector<uint8_t>> blocks_;
  mutable bool writable_ = true;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_LINUX_FAKE_MEMORY_H_
