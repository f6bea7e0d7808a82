// Capacity of one GPU's video memory. Bytes are accounted, never placed: what a
// program can observe is how much is left and when an allocation fails.
#ifndef PHANTORA_UVM_MODEL_VIDMEM_HEAP_H_
#define PHANTORA_UVM_MODEL_VIDMEM_HEAP_H_

#include <cstdint>
#include <memory>
#include <utility>

namespace phantora {

class VidmemHeap {
 public:
  // Releases its bytes when destroyed.
  class Reservation {
   public:
    Reservation(std::shared_ptr<VidmemHeap> heap, uint64_t bytes)
        : heap_(std::move(heap)), bytes_(bytes) {}
    ~Reservation() { heap_->used_ -= bytes_; }
    Reservation(const Reservation&) = delete;
    Reservation& operator=(const Reservation&) = delete;

    uint64_t bytes() const { return bytes_; }

   private:
    std::shared_ptr<VidmemHeap> heap_;
    uint64_t bytes_;
  };

  explicit VidmemHeap(uint64_t capacity) : capacity_(capacity) {}

  uint64_t capacity() const { return capacity_; }
  uint64_t used() const { return used_; }
  uint64_t free() const { return capacity_ - used_; }
  uint64_t peak() const { return peak_; }

  // nullptr when fewer than `bytes` are left.
  static std::unique_ptr<Reservation> Reserve(const std::shared_ptr<VidmemHeap>& heap,
                                              uint64_t bytes) {
    if (bytes > heap->free()) return nullptr;
    heap->used_ += bytes;
    if (heap->used_ > heap->peak_) heap->peak_ = heap->used_;
    return std::make_unique<Reservation>(heap, bytes);
  }

 private:
  const uint64_t capacity_;
  uint64_t used_ = 0;
  uint64_t peak_ = 0;
};

}  // namespace phantora

#endif  // PHANTORA_UVM_MODEL_VIDMEM_HEAP_H_
