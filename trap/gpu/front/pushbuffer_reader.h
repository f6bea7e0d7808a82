// The methods that a pushbuffer segment holds, one after the other.
#ifndef PHANTORA_TRAP_GPU_FRONT_PUSHBUFFER_READER_H_
#define PHANTORA_TRAP_GPU_FRONT_PUSHBUFFER_READER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "trap/gpu/front/engine_object.h"

namespace phantora {

// Who executes methods. See EngineObject for what the answers mean.
class MethodSink {
 public:
  virtual ~MethodSink() = default;
  virtual Progress Method(ExecutionContext& context, uint32_t subchannel, uint32_t method,
                          uint32_t data) = 0;
  virtual size_t Bulk(ExecutionContext& context, uint32_t subchannel, uint32_t method,
                      bool increments, absl::Span<const uint32_t> words) = 0;
};

// Source: the method headers of NVIDIA's open-gpu-doc, clc56f.h (NVC56F_DMA_*).
class PushbufferReader {
 public:
  // Goes on with the segment of `words` words at the GPU virtual address `address`.
  void Begin(uint64_t address, uint64_t words);
  // Hands methods to `sink` until the segment is over (kDone), or as far as the sink and the
  // budget let it; then the same call goes on where this one ended.
  Progress Run(ExecutionContext& context, MethodSink& sink);

 private:
  // Reads the next part of the segment.
  Progress Refill(ExecutionContext& context);
  // A method header; immediate data is a method by itself.
  Progress Header(ExecutionContext& context, MethodSink& sink);
  // A run of words for the method under way, or for those that follow each other; returns whether
  // the sink took any.
  bool Bulk(ExecutionContext& context, MethodSink& sink);

  std::vector<uint32_t> segment_;  // a part of it, read once
  size_t position_ = 0;            // in segment_: the next header or data word
  uint64_t unread_ = 0;            // address of the segment's words behind segment_
  uint64_t unread_words_ = 0;

  // The method header under way.
  uint32_t left_ = 0;  // data words
  uint32_t subchannel_ = 0;
  uint32_t method_ = 0;
  enum class Increment { kAlways, kNever, kOnce } increment_ = Increment::kAlways;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_FRONT_PUSHBUFFER_READER_H_
