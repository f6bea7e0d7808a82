// Moving and filling bytes, in bounded steps.
#ifndef PHANTORA_TRAP_GPU_FRONT_TRANSFER_H_
#define PHANTORA_TRAP_GPU_FRONT_TRANSFER_H_

#include <cstdint>
#include <vector>

#include "trap/gpu/front/engine_object.h"

namespace phantora {

// `lines` lines of `line_bytes`; strides are in bytes.
struct Transfer {
  uint64_t destination = 0;
  uint64_t source = 0;  // copies only
  uint64_t line_bytes = 0;
  uint64_t lines = 1;
  uint64_t destination_stride = 0;
  uint64_t source_stride = 0;
  // A fill repeats `pattern` (1 to 16 bytes, dividing line_bytes) instead.
  std::vector<uint8_t> pattern;
};

// Runs transfers one after another, as far as the step's budget goes, so that one
// rank's gigabyte does not keep the others from being served.
class TransferQueue {
 public:
  // Of a transfer. Each costs this machine up to a microsecond, and simulated time stands still
  // meanwhile: programs' matrices have fewer rows, and a rank that asks for more loses its channel.
  static constexpr uint64_t kMostLines = uint64_t{1} << 26;
  // And of lines that lie upon each other, which the GPU's memory does not bound: some seconds.
  static constexpr uint64_t kMostOverlapping = uint64_t{1} << 36;

  bool empty() const { return next_ == transfers_.size(); }
  void Add(Transfer transfer) { transfers_.push_back(std::move(transfer)); }
  // Bytes that all of them together read and write in memory, of those not begun yet.
  double Traffic() const;
  // kDone when the queue is empty; kYield while there is more; kFault.
  Progress Run(ExecutionContext& context);

 private:
  // Looks at the transfer that is next, before its first line.
  Progress Begin(ExecutionContext& context);
  // Whether the program may do that, if somebody wants to know.
  static void Check(ExecutionContext& context, const Transfer& transfer);
  void Clear();

  std::vector<Transfer> transfers_;
  size_t next_ = 0;
  uint64_t line_ = 0;    // of transfers_[next_]
  uint64_t offset_ = 0;  // in that line
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_FRONT_TRANSFER_H_
