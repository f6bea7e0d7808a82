#include "trap/gpu/sass/program.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

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

Program::Program(absl::Span<const uint8_t> code, Architecture architecture,
                 std::vector<Piece> elsewhere)
    : architecture_(architecture),
      code_(code.begin(), code.end()),
      elsewhere_(std::move(elsewhere)) {
  Add(code_);
  for (const Piece& piece : elsewhere_) {
    // Nobody goes on from one to the next.
    Add(std::vector<uint8_t>(kWordBytes));
    begins_.push_back(size());
    Add(piece.code);
  }
}

void Program::Add(absl::Span<const uint8_t> code) {
  const size_t first = instructions_.size(), end = first + code.size() / kWordBytes;
  instructions_.reserve(end);
  understood_.reserve(end);
  for (size_t index = first; index < end; ++index) {
    Decoded decoded = Decode(ReadWord(&code[(index - first) * kWordBytes]), architecture_,
                             static_cast<uint32_t>(index));
    understood_.push_back(decoded.encoding != nullptr);
    if (decoded.encoding != nullptr) {
      registers_ = std::max(registers_, RegistersOf(decoded.instruction.word));
      convergence_registers_ =
          std::max(convergence_registers_, ConvergenceRegistersOf(decoded.instruction));
      // The indices of one piece say nothing of another.
      if (decoded.instruction.target < first || decoded.instruction.target >= end) {
        decoded.instruction.target = UINT32_MAX;
      }
    } else {
      const Word word = decoded.instruction.word;
      decoded.instruction = Instruction();
      decoded.instruction.word = word;
      decoded.instruction.handler = &Refuse;
    }
    instructions_.push_back(decoded.instruction);
  }
}

uint64_t Program::AddressOf(uint32_t index, uint64_t code_address) const {
  const auto after = std::upper_bound(begins_.begin(), begins_.end(), index);
  if (after == begins_.begin()) return code_address + uint64_t{index} * kWordBytes;
  const auto piece = static_cast<size_t>(after - begins_.begin()) - 1;
  return elsewhere_[piece].address + uint64_t{index - begins_[piece]} * kWordBytes;
}

std::optional<uint32_t> Program::IndexOf(uint64_t address, uint64_t code_address) const {
  const auto in = [&](uint64_t begin, size_t bytes) {
    return address - begin < bytes / kWordBytes * kWordBytes && (address - begin) % kWordBytes == 0;
  };
  if (in(code_address, code_.size())) {
    return static_cast<uint32_t>((address - code_address) / kWordBytes);
  }
  for (size_t i = 0; i < elsewhere_.size(); ++i) {
    if (!in(elsewhere_[i].address, elsewhere_[i].code.size())) continue;
    return begins_[i] + static_cast<uint32_t>((address - elsewhere_[i].address) / kWordBytes);
  }
  return std::nullopt;
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
