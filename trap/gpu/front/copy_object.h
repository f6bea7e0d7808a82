// The DMA copy class (AMPERE_DMA_COPY_A, HOPPER_DMA_COPY_A).
#ifndef PHANTORA_TRAP_GPU_FRONT_COPY_OBJECT_H_
#define PHANTORA_TRAP_GPU_FRONT_COPY_OBJECT_H_

#include <array>
#include <optional>

#include "trap/abi/methods.h"
#include "trap/gpu/front/engine_object.h"
#include "trap/gpu/front/transfer.h"
#include "trap/gpu/timeline/engine_share.h"

namespace phantora {

class CopyObject : public EngineObject {
 public:
  // `engine` is the NV2080_ENGINE_TYPE_COPYn whose interrupts it raises.
  explicit CopyObject(uint32_t engine) : engine_(engine) {}

  Progress Method(ExecutionContext& context, uint32_t method, uint32_t data) override;
  bool Busy() const override { return resuming_ && work_; }
  VirtualTime BusyUntil() const override {
    return Busy() ? work_->ends() : VirtualTime::Infinity();
  }

 private:
  uint32_t reg(uint32_t method) const { return registers_[method / 4]; }
  uint64_t Address(uint32_t upper, uint32_t lower) const {
    return (uint64_t{reg(upper)} << 32 | reg(lower)) & 0x1ffffffffffffff;
  }

  Progress Launch(ExecutionContext& context, uint32_t flags);
  Progress StartTransfer(ExecutionContext& context, uint32_t flags);
  // Has the copy engine work on a transfer of `bytes`.
  void Start(ExecutionContext& context, uint64_t line_bytes, uint64_t lines, bool reads_source);
  // `fills_host`: a fill of host memory, which is one like others but goes over PCIe.
  CopyKind KindOf(ExecutionContext& context, bool reads_source, bool* fills_host);
  // Goes on with a component remap that takes values from the source or leaves holes.
  Progress Swizzle(ExecutionContext& context);
  void ReportCopy(ExecutionContext& context);
  Progress Finish(ExecutionContext& context, uint32_t flags);

  const uint32_t engine_;
  std::array<uint32_t, abi::copy::kMethodsEnd / 4> registers_{};
  TransferQueue transfers_;
  // The component remap under way, and how far it has come.
  uint64_t swizzle_lines_ = 0, swizzle_line_ = 0, swizzle_element_ = 0;
  // The launch at hand was started and returned kBlocked or kYield.
  bool resuming_ = false;
  // The launch at hand: how the engine gets on with it, and what it is.
  std::optional<EngineWork> work_;
  uint64_t order_ = 0;  // see OrderObserver
  uint64_t bytes_ = 0;
  CopyKind kind_ = CopyKind::kFill;
  PriceSource source_ = PriceSource::kPlaceholder;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_FRONT_COPY_OBJECT_H_
