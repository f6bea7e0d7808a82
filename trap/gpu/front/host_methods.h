// The methods that a channel executes itself, whatever class is bound: semaphores, above all.
#ifndef PHANTORA_TRAP_GPU_FRONT_HOST_METHODS_H_
#define PHANTORA_TRAP_GPU_FRONT_HOST_METHODS_H_

#include <array>
#include <cstdint>
#include <functional>

#include "trap/abi/methods.h"
#include "trap/gpu/front/engine_object.h"
#include "trap/gpu/front/gpu_semaphore.h"

namespace phantora {

class HostMethods {
 public:
  // `engine`: NV2080_ENGINE_TYPE_* of the channel, whose interrupt NON_STALL_INTERRUPT raises.
  explicit HostMethods(uint32_t engine) : engine_(engine) {}

  // `method` is below abi::host::kMethodsEnd, and not SET_OBJECT. kBlocked: a semaphore has not
  // the value that is waited for.
  Progress Method(ExecutionContext& context, uint32_t method, uint32_t data);

 private:
  // Whether a semaphore's value ends the wait for it.
  using Condition = std::function<bool(uint64_t value)>;

  Progress SemExecute(ExecutionContext& context, uint32_t data);
  Progress SemaphoreD(ExecutionContext& context, uint32_t data);
  static Progress Reduce(ExecutionContext& context, const SemaphoreWrite& write, uint32_t data);
  // Null for an operation there is not.
  static Condition SemCondition(uint32_t operation, uint64_t payload, bool wide);
  static Condition ConditionD(uint32_t operation, uint32_t payload);
  void LogWait(ExecutionContext& context, const SemaphoreWrite& write, uint32_t operation,
               uint64_t value);
  static void TellAcquired(ExecutionContext& context, uint64_t address, const Condition& satisfies);

  const uint32_t engine_;
  std::array<uint32_t, abi::host::kMethodsEnd / 4> registers_{};
  bool waiting_logged_ = false;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_FRONT_HOST_METHODS_H_
