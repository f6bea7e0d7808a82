// A kernel's code, decoded; and those that have been.
#ifndef PHANTORA_TRAP_GPU_SASS_PROGRAM_H_
#define PHANTORA_TRAP_GPU_SASS_PROGRAM_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "trap/gpu/sass/decoder.h"

namespace phantora::sass {

class Program {
 public:
  // Code that lies elsewhere in memory, such as a function of the driver's that a kernel calls by
  // its address. `address` is a multiple of kWordBytes.
  struct Piece {
    uint64_t address = 0;
    std::vector<uint8_t> code;
  };

  // `code` is untrusted; what follows its last whole word is ignored.
  Program(absl::Span<const uint8_t> code, Architecture architecture,
          std::vector<Piece> elsewhere = {});

  Architecture architecture() const { return architecture_; }
  absl::Span<const uint8_t> code() const { return code_; }
  const std::vector<Piece>& elsewhere() const { return elsewhere_; }
  // Where an instruction lies, of a kernel at `code_address`, and which one lies there: nullopt if
  // none of the program does.
  uint64_t AddressOf(uint32_t index, uint64_t code_address) const;
  std::optional<uint32_t> IndexOf(uint64_t address, uint64_t code_address) const;
  uint32_t size() const { return static_cast<uint32_t>(instructions_.size()); }
  // Of words that are not understood, `encoding` is nullptr here and Refusal says why.
  const Instruction* data() const { return instructions_.data(); }
  bool IsUnderstood(uint32_t index) const { return understood_[index]; }
  const char* Refusal(uint32_t index) const;
  // More than the highest number of a register that the program can name, however wide.
  int registers() const { return registers_; }
  // The same of registers in which threads note whom to converge with (BSSY).
  int convergence_registers() const { return convergence_registers_; }

  // Whether blocks of a launch of it have seen each other. From any thread.
  bool needs_order() const { return needs_order_.load(std::memory_order_relaxed); }
  void NeedsOrder() const { needs_order_.store(true, std::memory_order_relaxed); }

 private:
  void Add(absl::Span<const uint8_t> code);

  const Architecture architecture_;
  const std::vector<uint8_t> code_;
  const std::vector<Piece> elsewhere_;
  std::vector<uint32_t> begins_;  // the index of each piece's first instruction
  std::vector<Instruction> instructions_;
  std::vector<bool> understood_;
  int registers_ = 0, convergence_registers_ = 0;
  mutable std::atomic<bool> needs_order_ = false;
};

// Not thread-safe.
class ProgramCache {
 public:
  std::shared_ptr<const Program> Of(absl::Span<const uint8_t> code, Architecture architecture);

 private:
  absl::flat_hash_map<uint64_t, std::vector<std::shared_ptr<const Program>>> programs_;
  uint64_t instructions_ = 0;
};

}  // namespace phantora::sass

#endif  // PHANTORA_TRAP_GPU_SASS_PROGRAM_H_
