#include "trap/gpu/front/compute_object.h"

#include <algorithm>
#include <vector>

#include "trap/check/memory_check.h"

namespace phantora {
namespace {

namespace m = abi::compute;

constexpr uint32_t kInlineCompletionRelease = 2;  // LAUNCH_DMA_COMPLETION_TYPE

}  // namespace

Progress ComputeObject::Method(ExecutionContext& context, uint32_t method, uint32_t data) {
  if (!macro_resuming_) {
    if (method < m::kCallMmeMacro || method >= m::kMethodsEnd) {
      return Execute(context, method, data);
    }
    const uint32_t at = method - m::kCallMmeMacro;
    if (at % 8 == 0) {
      macros_.Call(at / 8, data);
    } else {
      macros_.AddParameter(data);
    }
  }
  const Progress progress = RunMacro(context);
  macro_resuming_ = progress == Progress::kBlocked || progress == Progress::kYield;
  return progress;
}

Progress ComputeObject::RunMacro(ExecutionContext& context) {
  for (;;) {
    if (macro_emitted_) {
      const MacroEngine::Emit& emit = macros_.emit();
      if (const Progress progress = Execute(context, emit.method, emit.data);
          progress != Progress::kDone) {
        return progress;
      }
      macro_emitted_ = false;
    }
    if (context.budget <= 0) return Progress::kYield;
    const auto state =
        macros_.Run([this](uint32_t method) { return method < m::kMethodsEnd ? reg(method) : 0; });
    context.budget -= static_cast<int64_t>(macros_.TakeWork());
    switch (state) {
      case MacroEngine::State::kWaits:
        return Progress::kDone;
      case MacroEngine::State::kEmits:
        macro_emitted_ = true;
        break;
      case MacroEngine::State::kReads:
        if (const Progress progress = ReadForMacro(context); progress != Progress::kDone) {
          return progress;
        }
        break;
      case MacroEngine::State::kRefuses:
        context.services.unknowns->Count("macro of methods", 0, macros_.refusal());
        return Progress::kDone;
    }
  }
}

Progress ComputeObject::ReadForMacro(ExecutionContext& context) {
  // What its store of such words holds.
  constexpr uint32_t kMostWords = 1024;
  const uint32_t count = reg(m::kMmeDmaReadFifoed);
  if (count > kMostWords) {
    return context.Fail(kGrClassError, count, "a macro reads more words than it can hold");
  }
  std::vector<uint32_t> words(count);
  const uint64_t address = Address(m::kMmeMemAddressA, m::kMmeMemAddressB) & 0x1ffffffffffffff;
  if (auto fault = context.memory().Read(address, words.data(), count * sizeof words[0])) {
    return context.Check(fault, "macro");
  }
  macros_.SetParameters(words);
  return Progress::kDone;
}

Progress ComputeObject::Execute(ExecutionContext& context, uint32_t method, uint32_t data) {
  if (method >= m::kMethodsEnd) {
    context.services.unknowns->Count("compute method", method, "beyond the class's methods");
    return Progress::kDone;
  }
  if (resuming_) {
    const Progress progress = queue_.Drain(context);
    resuming_ = progress == Progress::kBlocked || progress == Progress::kYield;
    return progress;
  }
  reg(method) = data;
  Progress progress = Progress::kDone;
  switch (method) {
    case m::kLoadMmeInstructionRamPointer:
      macros_.SetInstructionPointer(data);
      return Progress::kDone;
    case m::kLoadMmeInstructionRam:
      macros_.AddInstruction(data);
      return Progress::kDone;
    case m::kLoadMmeStartAddressRamPointer:
      macros_.SetStartPointer(data);
      return Progress::kDone;
    case m::kLoadMmeStartAddressRam:
      macros_.AddStart(data);
      return Progress::kDone;
    case m::kLaunchDma:
      StartInline(data);
      return Progress::kDone;
    case m::kLoadInlineData:
      return InlineData(context, absl::MakeConstSpan(reinterpret_cast<uint8_t*>(&data), 4));
    case m::kSetReportSemaphoreD:
      return ReportSemaphoreD(context, data);
    case m::kReportSemaphoreExecute:
      return ReportSemaphoreExecute(context, data);
    case m::kSendSignalingPcasB:
      // INVALIDATE bit 0, SCHEDULE bit 1
      if ((data & 2) != 0) {
        progress = queue_.Schedule(context, uint64_t{reg(m::kSendPcasA)} << 8, true);
      }
      break;
    case m::kSendSignalingPcas2B:
      progress = queue_.SendPcas(context, uint64_t{reg(m::kSendPcasA)} << 8, data & 15);
      break;
    case m::kSetSharedMemoryWindowA:
    case m::kSetSharedMemoryWindowB:
      context.gpu_context->windows.shared =
          Address(m::kSetSharedMemoryWindowA, m::kSetSharedMemoryWindowB);
      break;
    case m::kSetLocalMemoryWindowA:
    case m::kSetLocalMemoryWindowB:
      context.gpu_context->windows.local =
          Address(m::kSetLocalMemoryWindowA, m::kSetLocalMemoryWindowB);
      break;
    default:
      if (method >= m::kLoadInlineQmdData && method < m::kLoadInlineQmdData + kQmdBytes) {
        progress = LoadInlineQmd(context, method, data);
      }
      break;
  }
  if (progress == Progress::kDone && queue_.HasReady()) progress = queue_.Drain(context);
  resuming_ = progress == Progress::kBlocked || progress == Progress::kYield;
  return progress;
}

size_t ComputeObject::Bulk(ExecutionContext& context, uint32_t method, bool increments,
                           absl::Span<const uint32_t> words) {
  if (increments) return BulkQmd(context, method, words);
  if (method != m::kLoadInlineData || resuming_) return 0;
  const uint64_t left_words = (inline_total_ - inline_done_ + 3) / 4;
  // The last word completes the transfer and may fault: it goes through Method.
  if (left_words < 2) return 0;
  const size_t count = std::min<uint64_t>(words.size(), left_words - 1);
  const auto bytes = absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(words.data()), count * 4);
  // On a fault nothing is consumed, and the next single word reports it.
  return InlineData(context, bytes) == Progress::kDone ? count : 0;
}

void ComputeObject::StartInline(uint32_t flags) {
  inline_flags_ = flags;
  inline_done_ = 0;
  // The registers may be written again while the data arrives.
  inline_line_ = reg(m::kLineLengthIn);
  inline_total_ = inline_line_ * reg(m::kLineCount);
}

Progress ComputeObject::InlineData(ExecutionContext& context, absl::Span<const uint8_t> bytes) {
  const uint64_t base = Address(m::kOffsetOutUpper, m::kOffsetOut) & 0x1ffffffffffffff;
  if (inline_done_ >= inline_total_) {
    context.services.unknowns->Count("inline data", inline_flags_,
                                     "more than was announced is not written");
    return Progress::kDone;
  }
  if (inline_done_ == 0 && context.services.check != nullptr) {
    context.services.check->Transfer(
        context.process, context.memory(),
        {base, inline_line_, inline_total_ / inline_line_, reg(m::kPitchOut)},
        MemoryCheck::Transferred::kCopiedOrFilled);
  }
  uint64_t left = std::min<uint64_t>(bytes.size(), inline_total_ - inline_done_);
  const uint8_t* from = bytes.data();
  while (left > 0) {
    // Lines follow each other in the data without padding.
    const uint64_t line = inline_done_ / inline_line_, column = inline_done_ % inline_line_;
    const uint64_t piece = std::min(left, inline_line_ - column);
    --context.budget;
    const auto fault =
        context.memory().Write(base + line * reg(m::kPitchOut) + column, from, piece);
    if (fault) return context.Check(fault, "inline data");
    from += piece, left -= piece, inline_done_ += piece;
  }
  return inline_done_ == inline_total_ ? FinishInline(context) : Progress::kDone;
}

Progress ComputeObject::FinishInline(ExecutionContext& context) {
  inline_total_ = inline_done_ = 0;
  if ((inline_flags_ >> 4 & 3) != kInlineCompletionRelease) return Progress::kDone;
  const SemaphoreWrite write = {
      .address = Address(m::kI2mSemaphoreA, m::kI2mSemaphoreB) & 0x1ffffffffffffff,
      .payload = reg(m::kI2mSemaphoreC),
      .payload_64bit = false,
      .with_timestamp = (inline_flags_ >> 12 & 1) == 0};
  if ((inline_flags_ >> 1 & 1) != 0) {
    return ReduceSemaphore(context, write, FromComputeReduction(inline_flags_ >> 13 & 7),
                           (inline_flags_ >> 2 & 3) == 1);
  }
  return ReleaseSemaphore(context, write);
}

uint32_t ComputeObject::last_qmd_word() const {
  return (class_id_ >= 0xcb00 ? kQmdBytes : kQmdBytesBeforeHopper) / 4 - 1;
}

uint64_t ComputeObject::InlineQmdAddress() {
  return (uint64_t{reg(m::kInlineQmdAddressA) & 0x1ffff} << 32 | reg(m::kInlineQmdAddressB)) << 8;
}

size_t ComputeObject::BulkQmd(ExecutionContext& context, uint32_t method,
                              absl::Span<const uint32_t> words) {
  // The last word launches: it goes through Method.
  const uint32_t last = m::kLoadInlineQmdData + last_qmd_word() * 4;
  if (method < m::kLoadInlineQmdData || method >= last || resuming_) return 0;
  const size_t count = std::min<size_t>(words.size(), (last - method) / 4);
  const uint64_t address = InlineQmdAddress() + (method - m::kLoadInlineQmdData);
  // On a fault nothing is consumed, and the next single word reports it.
  return context.memory().Write(address, words.data(), count * 4) ? 0 : count;
}

Progress ComputeObject::LoadInlineQmd(ExecutionContext& context, uint32_t method, uint32_t data) {
  const uint64_t address = InlineQmdAddress();
  const uint32_t index = (method - m::kLoadInlineQmdData) / 4;
  const auto fault = context.memory().Write(address + index * 4, &data, 4);
  if (fault) return context.Check(fault, "inline QMD");
  return index == last_qmd_word() ? queue_.Schedule(context, address, true) : Progress::kDone;
}

Progress ComputeObject::ReportSemaphoreD(ExecutionContext& context, uint32_t data) {
  const uint32_t operation = data & 3;  // OPERATION: 0 release, 3 trap
  if (operation == 3) {
    Interrupt(context);
    return Progress::kDone;
  }
  if (operation != 0) {
    context.services.unknowns->Count("report semaphore operation", operation, "ignored");
    return Progress::kDone;
  }
  const SemaphoreWrite write = {
      .address = Address(m::kSetReportSemaphoreA, m::kSetReportSemaphoreB) & 0x1ffffffffffffff,
      .payload = reg(m::kSetReportSemaphoreC),
      .payload_64bit = false,
      .with_timestamp = (data >> 28 & 1) == 0};
  const Progress progress =
      (data >> 3 & 1) != 0 ? ReduceSemaphore(context, write, FromComputeReduction(data >> 9 & 7),
                                             (data >> 17 & 3) == 1)
                           : ReleaseSemaphore(context, write);
  if (progress == Progress::kDone && (data >> 20 & 1) != 0) Interrupt(context);  // AWAKEN_ENABLE
  return progress;
}

Progress ComputeObject::ReportSemaphoreExecute(ExecutionContext& context, uint32_t data) {
  if (class_id_ < 0xcb00) return Progress::kDone;  // a Hopper method
  const uint32_t operation = data & 3;
  if (operation == 3) {
    Interrupt(context);
    return Progress::kDone;
  }
  const bool wide = (data >> 12 & 1) != 0;
  const SemaphoreWrite write = {
      .address = Address(m::kReportAddressUpper, m::kReportAddressLower) & 0x1ffffffffffffff,
      .payload =
          reg(m::kReportPayloadLower) | (wide ? uint64_t{reg(m::kReportPayloadUpper)} << 32 : 0),
      .payload_64bit = wide,
      .with_timestamp = (data >> 3 & 3) == 0};
  const Progress progress =
      (data >> 6 & 1) != 0 ? ReduceSemaphore(context, write, FromComputeReduction(data >> 7 & 7),
                                             (data >> 10 & 3) == 1)
                           : ReleaseSemaphore(context, write);
  if (progress == Progress::kDone && ((data >> 2 & 1) != 0 || (data >> 13 & 3) != 0)) {
    Interrupt(context);
  }
  return progress;
}

void ComputeObject::Interrupt(ExecutionContext& context) {
  context.Interrupt(QmdQueue::kEngineGraphics);
}

}  // namespace phantora
