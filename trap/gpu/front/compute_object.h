// The compute class (AMPERE_COMPUTE_A, HOPPER_COMPUTE_A): its methods, which hand launches to a
// QmdQueue, move inline data and write report semaphores.
#ifndef PHANTORA_TRAP_GPU_FRONT_COMPUTE_OBJECT_H_
#define PHANTORA_TRAP_GPU_FRONT_COMPUTE_OBJECT_H_

#include <array>
#include <cstdint>

#include "trap/abi/methods.h"
#include "trap/gpu/front/engine_object.h"
#include "trap/gpu/front/gpu_semaphore.h"
#include "trap/gpu/front/macro_engine.h"
#include "trap/gpu/front/qmd_queue.h"

namespace phantora {

class ComputeObject : public EngineObject {
 public:
  explicit ComputeObject(uint32_t class_id) : class_id_(class_id), queue_(class_id) {
    // One line of inline data, until a program says how many: libcuda 580 does not say it for one.
    reg(abi::compute::kLineCount) = 1;
  }

  Progress Method(ExecutionContext& context, uint32_t method, uint32_t data) override;
  bool Busy() const override { return queue_.Busy(); }
  VirtualTime BusyUntil() const override { return queue_.BusyUntil(); }
  bool HasOpenSharedWork() const override { return queue_.HasOpenSharedWork(); }
  size_t Bulk(ExecutionContext& context, uint32_t method, bool increments,
              absl::Span<const uint32_t> words) override;

 private:
  // Methods that are not macros'.
  Progress Execute(ExecutionContext& context, uint32_t method, uint32_t data);
  // The macro under way, as far as it can go.
  Progress RunMacro(ExecutionContext& context);
  Progress ReadForMacro(ExecutionContext& context);
  size_t BulkQmd(ExecutionContext& context, uint32_t method, absl::Span<const uint32_t> words);
  uint32_t last_qmd_word() const;
  uint64_t InlineQmdAddress();
  uint32_t& reg(uint32_t method) { return registers_[method / 4]; }
  uint64_t Address(uint32_t upper, uint32_t lower) {
    return uint64_t{reg(upper)} << 32 | reg(lower);
  }

  // Inline-to-memory.
  void StartInline(uint32_t flags);
  Progress InlineData(ExecutionContext& context, absl::Span<const uint8_t> bytes);
  Progress FinishInline(ExecutionContext& context);

  Progress LoadInlineQmd(ExecutionContext& context, uint32_t method, uint32_t data);

  Progress ReportSemaphoreD(ExecutionContext& context, uint32_t data);
  Progress ReportSemaphoreExecute(ExecutionContext& context, uint32_t data);
  void Interrupt(ExecutionContext& context);

  const uint32_t class_id_;
  std::array<uint32_t, abi::compute::kMethodsEnd / 4> registers_{};

  uint64_t inline_line_ = 0;   // bytes of each line
  uint64_t inline_total_ = 0;  // bytes of the transfer under way; 0 for none
  uint64_t inline_done_ = 0;
  uint32_t inline_flags_ = 0;

  MacroEngine macros_;
  // The method at hand goes on with the macro; with what that has emitted.
  bool macro_resuming_ = false, macro_emitted_ = false;

  // The method at hand was started and returned kBlocked or kYield.
  bool resuming_ = false;
  QmdQueue queue_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_FRONT_COMPUTE_OBJECT_H_
