#include "trap/gpu/sass/program.h"

#include <algorithm>
#include <functional>
#include <string_view>

#include "trap/gpu/sass/warp.h"

namespace phantora::sass {
namespace {

// 64 MiB of decoded ones. A process that makes up programs has them decoded again.
constexpr uint64_t kMostInstructions = 1 << 20;

// More than the number of each register in the word. Fields of registers begin at 16, 24, 32 and
// 64; what else lies there makes it larger, which does no harm.
int RegistersOf(const Word& word) {
  constexpr int kWidest = 8;
  const int operation = word.operation();
  const bool is_branch = operation >= 0x140 && operation < 0x160 && word.form() != 1;
  const bool has_number_at_32 = operation < 0x100 && word.form() != 1;
  // Products by four warps have up to 128 in a row.
  if (operation >= 0x1f0 && operation <= 0x1f3) return kNoRegister;
  int most = 0;
  for (const int at : {16, 24, 32, 64}) {
    if (is_branch && at == 32) continue;
    if (has_number_at_32 && at == 32) continue;
    const auto field = static_cast<int>(word.Bits(at, 8));
    if (field != kNoRegister) most = std::max(most, field);
  }
  return std::min(most + kWidest, kNoRegister);
}

// More than the highest number of a convergence register in it.
int ConvergenceRegistersOf(const Instruction& instruction) {
  switch (instruction.flow) {
    case Flow::kSetConvergence:
    case Flow::kConverge:
    case Flow::kBreak:
      return static_cast<int>(instruction.Bits(16, 4)) + 1;
    default:
      break;
  }
  // BMOV has its number elsewhere.
  const int operation = instruction.word.operation();
  return operation == 0x155 || operation == 0x156 ? 16 : 0;
}

// Ends a warp that comes here: what is not understood cannot be gone on from.
void Refuse(Warp& warp, const Instruction&) {
  warp.Fail(Stop::Reason::kRefused, 0, "an instruction that is not known");
}

}  // namespace

Program::Program(absl::Span<const uint8_t> code, Architecture architecture)
    : architecture_(architecture), code_(code.begin(), code.end()) {
  const size_t count = code_.size() / kWordBytes;
  instructions_.reserve(count);
  understood_.reserve(count);
  for (size_t index = 0; index < count; ++index) {
    Decoded decoded =
        Decode(ReadWord(&code_[index * kWordBytes]), architecture, static_cast<uint32_t>(index));
    understood_.push_back(decoded.encoding != nullptr);
    if (decoded.encoding != nullptr) {
      registers_ = std::max(registers_, RegistersOf(decoded.instruction.word));
      convergence_registers_ =
          std::max(convergence_registers_, ConvergenceRegistersOf(decoded.instruction));
    }
    if (decoded.encoding == nullptr) {
      const Word word = decoded.instruction.word;
      decoded.instruction = Instruction();
      decoded.instruction.word = word;
      decoded.instruction.handler = &Refuse;
    }
    instructions_.push_back(decoded.instruction);
  }
}

const char* Program::Refusal(uint32_t index) const {
  return Decode(instructions_[index].word, architecture_, index).why;
}

std::shared_ptr<const Program> ProgramCache::Of(absl::Span<const uint8_t> code,
                                                Architecture architecture) {
  const std::string_view bytes(reinterpret_cast<const char*>(code.data()), code.size());
  auto& candidates = programs_[std::hash<std::string_view>()(bytes)];
  for (const auto& program : candidates) {
    if (program->architecture() == architecture && program->code() == code) return program;
  }
  auto program = std::make_shared<const Program>(code, architecture);
  if (instructions_ + program->size() > kMostInstructions) {
    programs_.clear();
    instructions_ = 0;
    programs_[std::hash<std::string_view>()(bytes)].push_back(program);
  } else {
    candidates.push_back(program);
  }
  instructions_ += program->size();
  return program;
}

}  // namespace phantora::sass
