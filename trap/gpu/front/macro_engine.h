// The macro method expander (MME): small programs of the driver's that make methods of methods.
#ifndef PHANTORA_TRAP_GPU_FRONT_MACRO_ENGINE_H_
#define PHANTORA_TRAP_GPU_FRONT_MACRO_ENGINE_H_

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace phantora {

// As from Turing on (TU104): an instruction has 96 bits, two ALUs, two immediates and two outputs;
// what its fields mean is published with Mesa (src/nouveau/mme). libcuda 580 fills and copies a few
// bytes by macros that load inline data. A macro is begun by a method, whose data is its first
// parameter, and takes more by another method; without one that it needs it waits.
class MacroEngine {
 public:
  // Instructions, and words of its own memory.
  static constexpr uint32_t kInstructionWords = 0x1000, kMemoryWords = 0xc00;
  static constexpr uint32_t kMacros = 256;

  struct Emit {
    uint32_t method, data;
  };
  // Why it stops.
  enum class State {
    kEmits,    // a method, see emit()
    kReads,    // words of memory that become its parameters, see Parameters(): READ_FIFOED
    kWaits,    // for a parameter, or has ended
    kRefuses,  // an instruction that is not understood, or too many: refusal(); it has ended
  };

  // The program store, in words; what lies beyond is not stored.
  void SetInstructionPointer(uint32_t word) { instruction_pointer_ = word; }
  void AddInstruction(uint32_t word);
  // Which macro begins where.
  void SetStartPointer(uint32_t macro) { start_pointer_ = macro; }
  void AddStart(uint32_t word);

  void Call(uint32_t macro, uint32_t parameter);
  void AddParameter(uint32_t parameter) { parameters_.push_back(parameter); }
  // In the place of all that it has.
  void SetParameters(absl::Span<const uint32_t> parameters) {
    parameters_.assign(parameters.begin(), parameters.end());
  }

  // Goes on until something is wanted of the caller. `state` is the value of a method.
  State Run(const std::function<uint32_t(uint32_t method)>& state);
  const Emit& emit() const { return emit_; }
  const char* refusal() const { return refusal_; }
  // Instructions that it has executed since this was asked.
  uint64_t TakeWork() { return std::exchange(work_, 0); }

 private:
  struct Alu {
    uint32_t operation, destination, sources[2];
  };
  struct Instruction {
    bool ends_next;
    uint32_t predicate_mode, predicate;
    std::array<uint16_t, 2> immediate;
    std::array<Alu, 2> alu;
    struct Output {
      uint32_t method, emit;
    };
    std::array<Output, 2> output;
  };

  std::optional<Instruction> Fetch() const;
  State Refuse(const char* why);
  // Registers, immediates and loaded parameters. False: there is no such.
  bool Read(const Instruction& instruction, uint32_t which, size_t alu, uint32_t& value) const;
  bool ReadOutput(const Instruction& instruction, uint32_t which, uint32_t& value) const;
  bool Compute(const Instruction& instruction, size_t alu, uint32_t x, uint32_t y,
               const std::function<uint32_t(uint32_t)>& state);
  // The outputs that are left of the instruction at hand. nullopt: all are done.
  std::optional<State> Output(const Instruction& instruction);
  void Next();

  // As far as they were ever written: every channel has an engine, and most have two macros.
  std::vector<uint32_t> instructions_, memory_, starts_;  // starts: in words
  uint32_t instruction_pointer_ = 0, start_pointer_ = 0;

  // Of the macro under way.
  bool runs_ = false, is_missing_ = false;  // missing: nobody said where it begins
  std::deque<uint32_t> parameters_;
  std::array<uint32_t, 24> registers_{};
  std::array<uint32_t, 2> loaded_{}, results_{};
  uint32_t carry_ = 0;
  uint32_t at_ = 0, next_ = 0;  // instructions, from the program's first word on
  uint32_t begin_ = 0;          // its first word
  uint32_t loop_count_ = 0, loop_begin_ = 0, loop_end_ = 0;
  bool ends_ = false, stops_ = false;
  uint32_t method_ = 0, increment_ = 0;
  // Of the instruction under way: whether its ALUs are done, how many of its outputs are.
  bool computed_ = false, wants_read_ = false;
  uint8_t enabled_ = 0;
  size_t outputs_done_ = 0;
  uint64_t executed_ = 0, work_ = 0;

  Emit emit_ = {};
  const char* refusal_ = "";
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_FRONT_MACRO_ENGINE_H_
