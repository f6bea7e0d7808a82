// A piece of memory that a GPU can address: video memory, pinned system memory,
// a register page, or memory that belongs to a tracee.
#ifndef PHANTORA_UVM_MODEL_MEMORY_OBJECT_H_
#define PHANTORA_UVM_MODEL_MEMORY_OBJECT_H_

#include <cstdint>
#include <memory>

#include "uvm_model/byte_set.h"

namespace phantora {

class DeviceMemory;

enum class MemoryKind {
  kVidmem,     // counts against a GPU's capacity
  kSysmem,     // pinned host memory allocated by the driver
  kRegisters,  // a page of GPU registers (the usermode doorbell page)
  kManaged,    // a process's UVM file: file offset equals virtual address
  kExternal,   // memory of a tracee, pinned by address (OS descriptor)
};

class MemoryObject {
 public:
  virtual ~MemoryObject() = default;
  MemoryObject(const MemoryObject&) = delete;
  MemoryObject& operator=(const MemoryObject&) = delete;

  MemoryKind kind() const { return kind_; }
  // Of video memory, which GPU of its machine it belongs to; -1 if nobody has said.
  int gpu() const { return gpu_; }
  void set_gpu(int gpu) { gpu_ = gpu; }
  // In bytes.
  uint64_t size() const { return size_; }

  // All return false if [offset, offset + length) is not inside the object or
  // the memory has gone away with its owner; a failed write may be partial.
  virtual bool Read(uint64_t offset, void* out, uint64_t length) = 0;
  virtual bool Write(uint64_t offset, const void* data, uint64_t length) = 0;
  virtual bool Zero(uint64_t offset, uint64_t length) = 0;

  // Which bytes of it are tainted; nullptr: none. Only video memory has any: what else there is the
  // host may have written, unseen. AddressSpace keeps it.
  ByteSet* taint() { return taint_.get(); }
  ByteSet& MakeTaint() {
    if (taint_ == nullptr) taint_ = std::make_unique<ByteSet>();
    return *taint_;
  }
  // Likewise those that nobody has written since a program was given them, where that is looked
  // after (--check memory). Beyond a number of ranges all count as written.
  ByteSet* unwritten() { return unwritten_.get(); }
  ByteSet& MakeUnwritten() {
    if (unwritten_ == nullptr) unwritten_ = std::make_unique<ByteSet>(ByteSet::Beyond::kForgotten);
    return *unwritten_;
  }

  // The bytes from `offset` on, at most `length`: how many are alike, either zero and without any
  // memory behind them, or not known to be.
  struct Run {
    bool empty = false;
    uint64_t length = 0;
  };
  virtual Run RunAt(uint64_t offset, uint64_t length) { return {false, length}; }

  // This, if it is memory in pages that can be shared.
  virtual DeviceMemory* AsDevice() { return nullptr; }

  // Address of the object's first byte in this process, or nullptr if it can be
  // reached only through Read and Write.
  virtual uint8_t* HostPointer() { return nullptr; }
  // The file that a tracee may map at offset 0, or -1.
  virtual int MappableFd() { return -1; }

 protected:
  MemoryObject(MemoryKind kind, uint64_t size) : kind_(kind), size_(size) {}
  bool Contains(uint64_t offset, uint64_t length) const {
    return offset <= size_ && length <= size_ - offset;
  }

 private:
  const MemoryKind kind_;
  int gpu_ = -1;
  const uint64_t size_;
  std::unique_ptr<ByteSet> taint_, unwritten_;
};

// Memory that the supervisor owns, in a sparse memfd. Nothing is allocated
// before the first byte is written or mapped; pages that were never written, or
// were zeroed in bulk, cost nothing. The file is sealed against resizing, since
// tracees get descriptors of it and a shrunk file would kill its readers.
class OwnedMemory : public MemoryObject {
 public:
  // `size` is rounded up to 4 KiB.
  OwnedMemory(MemoryKind kind, uint64_t size);
  ~OwnedMemory() override;

  bool Read(uint64_t offset, void* out, uint64_t length) override;
  bool Write(uint64_t offset, const void* data, uint64_t length) override;
  bool Zero(uint64_t offset, uint64_t length) override;
  Run RunAt(uint64_t offset, uint64_t length) override;
  uint8_t* HostPointer() override;
  int MappableFd() override;

  // Bytes of the host's memory behind all of these that there are. May be called by any thread.
  static uint64_t ResidentBytes();

 private:
  bool Materialise();
  bool WriteBytes(uint64_t offset, const uint8_t* data, uint64_t length);

  int fd_ = -1;
  uint8_t* base_ = nullptr;
};

}  // namespace phantora

#endif  // PHANTORA_UVM_MODEL_MEMORY_OBJECT_H_
