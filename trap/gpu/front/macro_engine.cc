#include "trap/gpu/front/macro_engine.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace phantora {
namespace {

constexpr uint32_t kWordsOfInstruction = 3;
// What one macro may execute; libcuda's take a few thousand at most.
constexpr uint64_t kMostInstructions = 1 << 20;
// Parameters that may wait for it.
constexpr size_t kMostParameters = 1 << 16;

enum Register : uint32_t {
  kZero = 24,
  kImmediate = 25,
  kOtherImmediate = 26,
  kBothImmediates = 27,
  kLoad0 = 28,
  kLoad1 = 29,
};
enum Operation : uint32_t {
  kAdd,
  kAddWithCarry,
  kSubtract,
  kSubtractWithBorrow,
  kMultiply,
  kMultiplyHigh,
  kMultiplyUnsigned,
  kExtended,
  kLeadingZeros,
  kShiftLeft,
  kShiftRight,
  kShiftRightSigned,
  kAnd,
  kNand,
  kOr,
  kXor,
  kMerge,
  kLess,
  kLessUnsigned,
  kAtMost,
  kAtMostUnsigned,
  kEqual,
  kState,
  kLoop,
  kJump,
  kBranchLess,
  kBranchLessUnsigned,
  kBranchAtMost,
  kBranchAtMostUnsigned,
  kBranchEqual,
  kReadMemory,
  kWriteMemory,
};
enum OutputSource : uint32_t {
  kNothing,
  kAlu0,
  kAlu1,
  kOutLoad0,
  kOutLoad1,
  kImmediate0,
  kImmediate1,
  kReserved,
  kHigh0,
  kHigh1,
  kBoth,
};
// The one extended operation that is known, with READ_FIFOED.
constexpr uint32_t kBarrier = 0x1000;

// Which of ALU 0, ALU 1, output 0 and output 1 happen: always (U), or if the predicate is not zero
// (T), or if it is (F). By mode.
constexpr char kModes[16][5] = {"UUUU", "TTTT", "FFFF", "TTUU", "FFUU", "TFUU", "TUUU", "FUUU",
                                "UUTT", "UUTF", "UUTU", "UUFT", "UUFF", "UUFU", "UUUT", "UUUF"};

void Store(std::vector<uint32_t>& store, uint32_t at, uint32_t word) {
  if (store.size() <= at) store.resize(at + 1);
  store[at] = word;
}

bool Compares(uint32_t operation, uint32_t x, uint32_t y) {
  switch (operation) {
    case kLess:
    case kBranchLess:
      return static_cast<int32_t>(x) < static_cast<int32_t>(y);
    case kLessUnsigned:
    case kBranchLessUnsigned:
      return x < y;
    case kAtMost:
    case kBranchAtMost:
      return static_cast<int32_t>(x) <= static_cast<int32_t>(y);
    case kAtMostUnsigned:
    case kBranchAtMostUnsigned:
      return x <= y;
    default:
      return x == y;
  }
}

}  // namespace

void MacroEngine::AddInstruction(uint32_t word) {
  if (instruction_pointer_ < kInstructionWords) Store(instructions_, instruction_pointer_, word);
  ++instruction_pointer_;
}

void MacroEngine::AddStart(uint32_t word) {
  if (start_pointer_ < kMacros) Store(starts_, start_pointer_, word);
  ++start_pointer_;
}

void MacroEngine::Call(uint32_t macro, uint32_t parameter) {
  runs_ = macro < starts_.size();
  is_missing_ = !runs_;
  parameters_ = {parameter};
  registers_ = {};
  begin_ = runs_ ? starts_[macro] : 0;
  at_ = 0;
  loop_count_ = 0;
  ends_ = stops_ = computed_ = wants_read_ = false;
  method_ = increment_ = carry_ = 0;
  executed_ = 0;
}

std::optional<MacroEngine::Instruction> MacroEngine::Fetch() const {
  const uint64_t word = begin_ + uint64_t{at_} * kWordsOfInstruction;
  if (word + kWordsOfInstruction > instructions_.size()) return std::nullopt;
  // The highest of its 96 bits come first.
  const uint64_t low = uint64_t{instructions_[word + 1]} << 32 | instructions_[word + 2];
  const uint64_t high = instructions_[word];
  const auto bits = [&](int at, int width) {
    uint64_t value = at >= 64 ? high >> (at - 64) : low >> at;
    if (at < 64 && at + width > 64) value |= high << (64 - at);
    return static_cast<uint32_t>(value & ((uint64_t{1} << width) - 1));
  };
  const auto alu = [&](int at) {
    return Alu{bits(at, 5), bits(at + 5, 5), {bits(at + 10, 5), bits(at + 15, 5)}};
  };
  const auto output = [&](int at) { return Instruction::Output{bits(at, 3), bits(at + 3, 4)}; };
  return Instruction{
      .ends_next = bits(0, 1) != 0,
      .predicate_mode = bits(1, 4),
      .predicate = bits(5, 5),
      .immediate = {static_cast<uint16_t>(bits(30, 16)), static_cast<uint16_t>(bits(66, 16))},
      .alu = {alu(10), alu(46)},
      .output = {output(82), output(89)}};
}

MacroEngine::State MacroEngine::Refuse(const char* why) {
  runs_ = false;
  refusal_ = why;
  return State::kRefuses;
}

bool MacroEngine::Read(const Instruction& instruction, uint32_t which, size_t alu,
                       uint32_t& value) const {
  const auto sign_extended = [](uint16_t immediate) {
    return static_cast<uint32_t>(static_cast<int32_t>(static_cast<int16_t>(immediate)));
  };
  if (which < registers_.size()) {
    value = registers_[which];
    return true;
  }
  switch (which) {
    case kZero:
      value = 0;
      return true;
    case kImmediate:
      value = sign_extended(instruction.immediate[alu]);
      return true;
    case kOtherImmediate:
      value = sign_extended(instruction.immediate[1 - alu]);
      return true;
    case kBothImmediates:
      value = uint32_t{instruction.immediate[0]} << 16 | instruction.immediate[1];
      return true;
    case kLoad0:
    case kLoad1:
      value = loaded_[which - kLoad0];
      return true;
    default:
      return false;
  }
}

bool MacroEngine::ReadOutput(const Instruction& instruction, uint32_t which,
                             uint32_t& value) const {
  switch (which) {
    case kAlu0:
    case kAlu1:
      value = results_[which - kAlu0];
      return true;
    case kOutLoad0:
    case kOutLoad1:
      value = loaded_[which - kOutLoad0];
      return true;
    case kImmediate0:
    case kImmediate1:
      value = instruction.immediate[which - kImmediate0];
      return true;
    case kHigh0:
    case kHigh1:
      value = instruction.immediate[which - kHigh0] >> 12;
      return true;
    case kBoth:
      value = uint32_t{instruction.immediate[0]} << 16 | instruction.immediate[1];
      return true;
    default:
      return false;
  }
}

bool MacroEngine::Compute(const Instruction& instruction, size_t alu, uint32_t x, uint32_t y,
                          const std::function<uint32_t(uint32_t)>& state) {
  const Alu& of = instruction.alu[alu];
  const uint16_t immediate = instruction.immediate[alu];
  uint32_t result = 0;
  switch (of.operation) {
    case kAdd:
      result = x + y;
      carry_ = result < x;
      break;
    case kAddWithCarry:
      result = x + y + carry_;
      break;
    case kSubtract:
      result = x - y;
      carry_ = result > x;
      break;
    case kSubtractWithBorrow:
      result = x - y - carry_;
      break;
    case kMultiply:
    case kMultiplyUnsigned: {
      const uint64_t product =
          of.operation == kMultiplyUnsigned
              ? uint64_t{x} * y
              : static_cast<uint64_t>(int64_t{static_cast<int32_t>(x)} * static_cast<int32_t>(y));
      result = static_cast<uint32_t>(product);
      carry_ = static_cast<uint32_t>(product >> 32);
      break;
    }
    case kMultiplyHigh:
      result = carry_;
      break;
    case kExtended:
      if (x != kBarrier || y != 1) return false;
      wants_read_ = true;
      break;
    case kLeadingZeros:
      result = static_cast<uint32_t>(std::countl_zero(x));
      break;
    case kShiftLeft:
      result = x << (y & 31);
      break;
    case kShiftRight:
      result = x >> (y & 31);
      break;
    case kShiftRightSigned:
      result = static_cast<uint32_t>(static_cast<int32_t>(x) >> (y & 31));
      break;
    case kAnd:
      result = x & y;
      break;
    case kNand:
      result = ~(x & y);
      break;
    case kOr:
      result = x | y;
      break;
    case kXor:
      result = x ^ y;
      break;
    case kMerge: {
      const uint64_t mask = ((uint64_t{1} << (immediate >> 5 & 31)) - 1);
      const uint32_t to = immediate >> 10 & 63;
      result = static_cast<uint32_t>((x & ~(mask << to)) | ((y >> (immediate & 31)) & mask) << to);
      break;
    }
    case kLess:
    case kLessUnsigned:
    case kAtMost:
    case kAtMostUnsigned:
    case kEqual:
      result = Compares(of.operation, x, y) ? ~uint32_t{0} : 0;
      break;
    case kState:
      result = state(((x + y) & 0xffff) * 4);
      break;
    case kLoop:
      if (loop_count_ != 0 || immediate < 2) return false;
      loop_count_ = std::max<uint32_t>(x, 1) - 1;
      loop_begin_ = at_;
      loop_end_ = at_ + immediate - 1;
      break;
    case kJump:
      next_ = at_ + (immediate & 0x7fff);
      break;
    case kBranchLess:
    case kBranchLessUnsigned:
    case kBranchAtMost:
    case kBranchAtMostUnsigned:
    case kBranchEqual: {
      const bool expected = (immediate >> 15 & 1) != 0;
      if (Compares(of.operation, x, y) != expected) break;
      const int32_t offset = static_cast<int32_t>(uint32_t{immediate} << 19) >> 19;
      if (offset == -0x1000) {
        stops_ = true;
      } else if (static_cast<int32_t>(at_) + offset < 0) {
        return false;
      } else {
        next_ = static_cast<uint32_t>(static_cast<int32_t>(at_) + offset);
      }
      break;
    }
    case kReadMemory:
      if (x >= kMemoryWords) return false;
      result = x < memory_.size() ? memory_[x] : 0;
      break;
    case kWriteMemory:
      if (x >= kMemoryWords) return false;
      Store(memory_, x, y);
      break;
    default:
      return false;
  }
  results_[alu] = result;
  if (of.destination < registers_.size()) {
    registers_[of.destination] = result;
  } else if (of.destination != kZero) {
    return false;
  }
  return true;
}

std::optional<MacroEngine::State> MacroEngine::Output(const Instruction& instruction) {
  for (; outputs_done_ < 2; ++outputs_done_) {
    const auto& output = instruction.output[outputs_done_];
    if ((enabled_ >> (2 + outputs_done_) & 1) == 0) continue;
    uint32_t value = 0;
    if (output.method != kNothing) {
      if (!ReadOutput(instruction, output.method, value)) return Refuse("an output");
      method_ = (value & 0xfff) * 4;
      increment_ = value >> 12 & 15;
    }
    if (output.emit == kNothing) continue;
    if (!ReadOutput(instruction, output.emit, value)) return Refuse("an output");
    emit_ = {method_, value};
    method_ = (method_ + increment_ * 4) & 0x3fff;
    ++outputs_done_;
    return State::kEmits;
  }
  return std::nullopt;
}

void MacroEngine::Next() {
  computed_ = false;
  if (loop_count_ > 0 && at_ == loop_end_) {
    --loop_count_;
    next_ = loop_begin_ + 1;
  }
  at_ = next_;
}

MacroEngine::State MacroEngine::Run(const std::function<uint32_t(uint32_t method)>& state) {
  if (std::exchange(is_missing_, false)) return Refuse("a macro that was not loaded");
  if (parameters_.size() > kMostParameters) return Refuse("more parameters than it takes");
  while (runs_) {
    const auto instruction = Fetch();
    if (!instruction) return Refuse("code beyond the store");
    if (!computed_) {
      const auto loads = [&](uint32_t from, uint32_t out) {
        bool any = instruction->predicate == from;
        for (const Alu& alu : instruction->alu) {
          any = any || alu.sources[0] == from || alu.sources[1] == from;
        }
        for (const auto& output : instruction->output) {
          any = any || output.method == out || output.emit == out;
        }
        return any;
      };
      const bool first = loads(kLoad0, kOutLoad0), second = loads(kLoad1, kOutLoad1);
      if (parameters_.size() < size_t{first} + size_t{second}) return State::kWaits;
      if (++executed_ > kMostInstructions) return Refuse("more instructions than any macro has");
      ++work_;
      for (const size_t which : {0, 1}) {
        if (!(which == 0 ? first : second)) continue;
        loaded_[which] = parameters_.front();
        parameters_.pop_front();
      }
      next_ = at_ + 1;
      uint32_t predicate = 0;
      if (!Read(*instruction, instruction->predicate, 0, predicate)) return Refuse("a predicate");
      enabled_ = 0;
      for (int i = 0; i < 4; ++i) {
        const char mode = kModes[instruction->predicate_mode][i];
        if (mode == 'U' || (mode == 'T') == (predicate != 0)) {
          enabled_ = static_cast<uint8_t>(enabled_ | 1 << i);
        }
      }
      // Both read before either writes.
      uint32_t values[2][2];
      for (const size_t alu : {0, 1}) {
        for (const size_t source : {0, 1}) {
          if (!Read(*instruction, instruction->alu[alu].sources[source], alu,
                    values[alu][source])) {
            return Refuse("a source");
          }
        }
      }
      wants_read_ = false;
      for (const size_t alu : {0, 1}) {
        if ((enabled_ >> alu & 1) == 0) continue;
        if (!Compute(*instruction, alu, values[alu][0], values[alu][1], state)) {
          return Refuse("an operation");
        }
      }
      computed_ = true;
      outputs_done_ = 0;
      if (wants_read_) return State::kReads;
    }
    if (const auto stop = Output(*instruction)) return *stop;
    if (ends_ || stops_) {
      runs_ = false;
      break;
    }
    ends_ = instruction->ends_next;
    Next();
  }
  return State::kWaits;
}

}  // namespace phantora
