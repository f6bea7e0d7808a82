#include "trap/gpu/front/transfer.h"

#include <algorithm>

#include "trap/check/memory_check.h"

namespace phantora {

double TransferQueue::Traffic() const {
  double bytes = 0;
  for (size_t i = next_; i < transfers_.size(); ++i) {
    const Transfer& transfer = transfers_[i];
    const double moved =
        static_cast<double>(transfer.line_bytes) * static_cast<double>(transfer.lines);
    bytes += transfer.pattern.empty() ? 2 * moved : moved;
  }
  return bytes;
}

void TransferQueue::Clear() {
  transfers_.clear();
  next_ = line_ = offset_ = 0;
}

Progress TransferQueue::Begin(ExecutionContext& context) {
  const Transfer& transfer = transfers_[next_];
  if (transfer.lines <= 1 || transfer.line_bytes == 0) return Progress::kDone;
  // Of lines in one place the last is left.
  if (transfer.destination_stride == 0) line_ = transfer.lines - 1;
  if (transfer.lines - line_ <= kMostLines) {
    const bool overlap = line_ == 0 && transfer.destination_stride < transfer.line_bytes;
    if (!overlap || transfer.line_bytes <= kMostOverlapping / transfer.lines) {
      return Progress::kDone;
    }
    const uint64_t to = transfer.destination;
    Clear();
    return context.Fail(kCopyEngineError, to, "a copy or fill of long lines upon each other");
  }
  // Most of them would find out that there is no such memory.
  const uint64_t last = transfer.lines - 1;
  const uint64_t to = transfer.destination + last * transfer.destination_stride;
  const uint64_t from = transfer.source + last * transfer.source_stride;
  Clear();
  if (!context.memory().RangeAround(to)) return context.Fail(kMmuFault, to, "copy");
  return context.Fail(kCopyEngineError, from, "a copy or fill of more than 67,108,864 lines");
}

void TransferQueue::Check(ExecutionContext& context, const Transfer& transfer) {
  MemoryCheck& check = *context.services.check;
  using Transferred = MemoryCheck::Transferred;
  AddressSpace& memory = context.memory();
  const auto look = [&](uint64_t address, uint64_t stride, Transferred what) {
    check.Transfer(context.process, memory, {address, transfer.line_bytes, transfer.lines, stride},
                   what);
  };
  const bool fills = !transfer.pattern.empty();
  look(transfer.destination, transfer.destination_stride,
       fills ? Transferred::kFilled : Transferred::kCopied);
  if (fills) return;
  const auto to = memory.Find(transfer.destination);
  const MemoryKind kind = to ? to->memory->kind() : MemoryKind::kVidmem;
  look(transfer.source, transfer.source_stride,
       kind == MemoryKind::kSysmem || kind == MemoryKind::kExternal ? Transferred::kReadByHost
                                                                    : Transferred::kRead);
}

Progress TransferQueue::Run(ExecutionContext& context) {
  while (next_ < transfers_.size()) {
    const Transfer& transfer = transfers_[next_];
    if (line_ >= transfer.lines || transfer.line_bytes == 0) {
      ++next_, line_ = 0, offset_ = 0;
      continue;
    }
    const bool begins = line_ == 0 && offset_ == 0;
    if (begins) {
      if (const Progress progress = Begin(context); progress != Progress::kDone) return progress;
    }
    if (context.budget <= 0) return Progress::kYield;
    if (begins && context.services.check != nullptr) Check(context, transfer);
    const uint64_t affordable = static_cast<uint64_t>(context.budget) * kBytesPerUnit;
    const uint64_t piece = std::min(affordable, transfer.line_bytes - offset_);
    // A line costs something even if it is one byte.
    context.budget -= 1 + static_cast<int64_t>(piece / kBytesPerUnit);
    const uint64_t to = transfer.destination + line_ * transfer.destination_stride + offset_;
    const uint64_t from = transfer.source + line_ * transfer.source_stride + offset_;
    const auto fault = transfer.pattern.empty()
                           ? context.memory().Copy(to, context.memory(), from, piece)
                           : context.memory().Fill(to, piece, transfer.pattern, offset_);
    if (fault) {
      const char* what = transfer.pattern.empty() ? "copy" : "fill";
      Clear();
      return context.Check(fault, what);
    }
    context.services.counters.copied_bytes += piece;
    offset_ += piece;
    if (offset_ == transfer.line_bytes) ++line_, offset_ = 0;
  }
  transfers_.clear();
  next_ = 0;
  return Progress::kDone;
}

}  // namespace phantora
