#include "trap/gpu/sass/decoder.h"

#include "trap/gpu/sass/special_registers.h"
#include "trap/gpu/sass/warpgroup_shape.h"

namespace phantora::sass {
namespace {

constexpr int kScheduling = 105;  // 21 bits that change nothing but when
constexpr int kSchedulingBits = 21;

// Is its guard a uniform predicate?
bool HasUniformGuard(const Word& word) {
  const int operation = word.operation();
  if (IsUniform(word)) return operation != 0x086;
  // What copies without threads, and SYNCS.EXCH.
  return operation == 0x1b2 || operation == 0x1b4 || operation == 0x1b5 || operation == 0x1b6 ||
         operation == 0x1b8 || operation == 0x1b9 || operation == 0x1ba || operation == 0x1bc;
}

// Which bits of a word have been accounted for.
class Account {
 public:
  explicit Account(const Word& word) : word_(word) {
    Take(0, 16);  // operation, form, guard
    Take(kScheduling, kSchedulingBits);
  }
  void Take(int at, int width) {
    for (int bit = at; bit < at + width; ++bit) {
      (bit < 64 ? taken_.low : taken_.high) |= uint64_t{1} << bit % 64;
    }
  }
  bool IsTaken(int at, int width) const { return taken_.Bits(at, width) != 0; }
  // Registers that an operation does not have are RZ, or nothing at all.
  void TakeUnusedRegisters(bool uniform) {
    for (const int at : {16, 24, 32, 64}) {
      const uint64_t value = word_.Bits(at, 8);
      const uint64_t none = uniform ? kNoUniformRegister : kNoRegister;
      if (!IsTaken(at, 8) && (value == none || value == 0)) Take(at, 8);
    }
  }
  Word Rest() const { return {word_.low & ~taken_.low, word_.high & ~taken_.high}; }

 private:
  const Word& word_;
  Word taken_;
};

// Takes a word apart by one row.
class ByRow {
 public:
  ByRow(const Word& word, const Encoding& encoding, Architecture architecture, uint32_t index)
      : word_(word), encoding_(encoding), architecture_(architecture), account_(word) {
    instruction_.word = word;
    instruction_.guard = static_cast<uint8_t>(word.Bits(12, 3));
    instruction_.guard_inverted = word.Bit(15);
    instruction_.guard_is_uniform = HasUniformGuard(word);
    instruction_.flow = encoding.row->flow;
    index_ = index;
  }

  // "" if all of it is understood.
  const char* Run() {
    for (const Modifier& modifier : encoding_.modifiers) {
      for (const auto& part : modifier.parts) account_.Take(part.at, part.width);
      const uint32_t value = modifier.ValueIn(word_);
      if (value >= modifier.spellings.size() || modifier.spellings[value] == "?") {
        return "a modifier that is not known";
      }
    }
    for (const Operand& operand : encoding_.operands) {
      if (const char* why = Take(operand); *why != '\0') return why;
    }
    if (IsUniform(word_) && word_.operation() != 0x082 && word_.operation() != 0x086 &&
        word_.operation() != 0x0b9 && word_.operation() != 0x09c && word_.operation() != 0x0bb) {
      account_.Take(91, 1);
      if (!word_.Bit(91) && word_.operation() != 0x0ca) return "a uniform operation without bit 91";
    }
    if (word_.operation() == 0x09c) account_.Take(91, 1);
    account_.TakeUnusedRegisters(IsUniform(word_));
    const Word rest = account_.Rest();
    if ((rest.low | rest.high) != 0) return "bits that are not known";
    return "";
  }

  Word Rest() const { return account_.Rest(); }
  const Instruction& instruction() const { return instruction_; }

 private:
  // Does the form have its free-form operand (register, constant, ...) in the third place?
  bool ThirdIsFree() const {
    const int form = word_.form();
    return form == 2 || form == 3 || form == 7;
  }

  const char* TakeSource(const Operand& operand, Source& source) {
    const bool first = operand.kind == OperandKind::kA;
    const bool free = !first && (operand.kind == OperandKind::kC) == ThirdIsFree();
    if (!free) return TakeRegister(operand, source, first ? 24 : 64);
    switch (word_.form()) {
      case 2:
      case 4:
        account_.Take(32, 32);
        source.kind = Source::Kind::kImmediate;
        source.value = static_cast<uint32_t>(word_.Bits(32, 32));
        return "";
      case 3:
      case 5:
        account_.Take(38, 21);
        source.kind = Source::Kind::kConstant;
        source.value = static_cast<uint32_t>(word_.Bits(38, 16));
        source.index = static_cast<uint8_t>(word_.Bits(54, 5));
        TakeSourceModifiers(operand, source, 63, 62, 60);
        return "";
      case 6:
      case 7:
        if (!word_.Bit(91)) return "a uniform register without bit 91";
        account_.Take(32, 6);
        account_.Take(91, 1);
        source.kind = Source::Kind::kUniform;
        source.index = static_cast<uint8_t>(word_.Bits(32, 6));
        TakeSourceModifiers(operand, source, 63, 62, 60);
        return "";
      default:
        return TakeRegister(operand, source, 32);
    }
  }

  const char* TakeRegister(const Operand& operand, Source& source, int at) {
    const bool uniform = IsUniform(word_) && word_.operation() != 0x0ca;
    account_.Take(at, uniform ? 6 : 8);
    source.kind = uniform ? Source::Kind::kUniform : Source::Kind::kRegister;
    source.index = static_cast<uint8_t>(word_.Bits(at, uniform ? 6 : 8));
    if (at == 24) {
      TakeSourceModifiers(operand, source, 72, 73, 74);
    } else if (at == 32) {
      TakeSourceModifiers(operand, source, 63, 62, 60);
    } else if (operand.half) {
      TakeSourceModifiers(operand, source, 84, 83, 81);
    } else {
      TakeSourceModifiers(operand, source, 75, 74, 0);
    }
    return "";
  }

  void TakeSourceModifiers(const Operand& operand, Source& source, int negate, int absolute,
                           int swizzle) {
    if (operand.negatable || operand.invertible) {
      account_.Take(negate, 1);
      source.negate = word_.Bit(negate);
    }
    if (operand.absolutable) {
      account_.Take(absolute, 1);
      source.absolute = word_.Bit(absolute);
    }
    if (operand.half || operand.part) account_.Take(swizzle, 2);
    if (operand.upper) account_.Take(UpperBit(word_, operand), 1);
  }

  const char* TakePredicate(const Operand& operand) {
    const bool has_not = operand.inverted != 0;
    account_.Take(operand.at, 3);
    if (has_not) account_.Take(operand.inverted, 1);
    if (operand.when >= 0 && !word_.Bit(operand.when)) {
      if (word_.Bits(operand.at, 3) != kTrue && word_.Bits(operand.at, 3) != 0) {
        return "a predicate where there is none";
      }
    }
    return "";
  }

  // How many registers in a row.
  int Count(const Operand& operand) const {
    switch (operand.registers) {
      case kRegistersByMemory: {
        const uint64_t size = word_.Bits(73, 3);
        return size == 6 ? 4 : size == 5 ? 2 : 1;
      }
      case kRegistersByAtomic: {
        const uint64_t type = word_.Bits(73, architecture_ >= 90 ? 4 : 3);
        const bool floats = word_.operation() == 0x1a2 || word_.operation() == 0x1a3;
        if (architecture_ >= 90) return (floats ? type == 15 : type == 2 || type == 3) ? 2 : 1;
        return type == 2 || type == 5 || type == 6 ? 2 : 1;
      }
      case kRegistersByResult:
        return word_.Bits(75, 3) == 3 ? 2 : 1;
      case kRegistersByAccumulator:
        return word_.Bit(76) ? 4 : 2;
      case kRegistersByWarpgroup:
        return WarpgroupRegisters(word_);
      default:
        return operand.registers;
    }
  }

  const char* Take(const Operand& operand) {
    switch (operand.kind) {
      case OperandKind::kA:
        return TakeSource(operand, instruction_.a);
      case OperandKind::kB:
        return TakeSource(operand, instruction_.b);
      case OperandKind::kC:
        return TakeSource(operand, instruction_.c);
      case OperandKind::kDestination: {
        account_.Take(16, 8);
        const int index = static_cast<int>(word_.Bits(16, 8));
        instruction_.destination = index == kNoRegister ? kDiscard : static_cast<uint16_t>(index);
        if (index != kNoRegister && index + Count(operand) > kNoRegister)
          return "registers beyond the last";
        return "";
      }
      case OperandKind::kUniformDestination: {
        account_.Take(16, 6);
        const int index = static_cast<int>(word_.Bits(16, 6));
        instruction_.destination = static_cast<uint16_t>(index);
        if (index != kNoUniformRegister && index + Count(operand) > kNoUniformRegister) {
          return "registers beyond the last";
        }
        return "";
      }
      case OperandKind::kRegister: {
        account_.Take(operand.at, 8);
        Source& source = SourceAt(operand.at);
        source.kind = Source::Kind::kRegister;
        source.index = static_cast<uint8_t>(word_.Bits(operand.at, 8));
        return "";
      }
      case OperandKind::kUniform: {
        account_.Take(operand.at, 6);
        Source& source = SourceAt(operand.at);
        source.kind = Source::Kind::kUniform;
        source.index = static_cast<uint8_t>(word_.Bits(operand.at, 6));
        const int inverted = operand.inverted != 0 ? operand.inverted : operand.at + 6;
        if (operand.invertible || operand.inverted != 0) {
          account_.Take(inverted, 1);
          source.negate = word_.Bit(inverted);
        }
        return "";
      }
      case OperandKind::kDescriptor:
        if (word_.Bit(operand.when)) account_.Take(operand.at, 6);
        account_.Take(operand.when, 1);
        return "";
      case OperandKind::kMatrixDescriptor:
        // Four registers, which begin at a multiple of two.
        account_.Take(61, 3);
        if (operand.at == 24) account_.Take(72, 1);
        [[fallthrough]];
      case OperandKind::kUniformAddress: {
        account_.Take(operand.at, 6);
        Source& source = SourceAt(operand.at);
        source.kind = Source::Kind::kUniform;
        source.index = static_cast<uint8_t>(word_.Bits(operand.at, 6));
        return "";
      }
      case OperandKind::kGroup:
        account_.Take(operand.at, 3);
        return word_.Bits(operand.at, 3) == 0 || word_.Bits(operand.at, 3) == 7
                   ? ""
                   : "a group that is not known";
      case OperandKind::kReversedPredicate:
        account_.Take(operand.at, 3);
        account_.Take(operand.inverted, 1);
        return "";
      case OperandKind::kPredicate:
      case OperandKind::kUniformPredicate:
      case OperandKind::kPredicateResult:
      case OperandKind::kUniformPredicateResult:
        return TakePredicate(operand);
      case OperandKind::kUnsigned:
      case OperandKind::kSigned:
      case OperandKind::kIgnored:
        account_.Take(operand.at, operand.width);
        return "";
      case OperandKind::kExactly:
        account_.Take(operand.at, operand.width);
        return word_.Bits(operand.at, operand.width) == operand.value ? ""
                                                                      : "a field that is not known";
      case OperandKind::kSpecialRegister:
        account_.Take(72, 8);
        return SpecialRegisterName(static_cast<int>(word_.Bits(72, 8))) != nullptr
                   ? ""
                   : "a special register that is not known";
      case OperandKind::kWarpState:
        account_.Take(operand.at, 8);
        return WarpStateName(static_cast<int>(word_.Bits(operand.at, 8))) != nullptr
                   ? ""
                   : "a register of the warp that is not known";
      case OperandKind::kConvergence:
        account_.Take(operand.at, 4);
        return "";
      case OperandKind::kConstant:
        account_.Take(38, 21);
        instruction_.b.kind = Source::Kind::kConstant;
        instruction_.b.value = static_cast<uint32_t>(word_.Bits(38, 16));
        instruction_.b.index = static_cast<uint8_t>(word_.Bits(54, 5));
        return "";
      case OperandKind::kLoaded:
        account_.Take(64, 4);
        return "";
      case OperandKind::kTable:
        account_.Take(64, 3);
        account_.Take(72, 5);
        return "";
      case OperandKind::kPredicates:
        return "";
      case OperandKind::kAddress:
        return TakeAddress(operand);
      case OperandKind::kTarget:
        return TakeTarget();
      case OperandKind::kAbsoluteTarget:
        account_.Take(34, 48);
        if (architecture_ >= 90) account_.Take(16, 8);
        return AbsoluteTarget(word_, architecture_) % kWordBytes == 0
                   ? ""
                   : "a target between instructions";
    }
    return "";
  }

  Source& SourceAt(int at) {
    return at == 24 ? instruction_.a : at == 32 ? instruction_.b : instruction_.c;
  }

  void TakeOffset() {
    account_.Take(40, 24);
    instruction_.offset = static_cast<int32_t>(word_.Signed(40, 24));
  }
  void TakeAddressRegister(int at) {
    account_.Take(at, 8);
    instruction_.a.kind = Source::Kind::kRegister;
    instruction_.a.index = static_cast<uint8_t>(word_.Bits(at, 8));
  }

  // Addresses by letter. r: a register, of 64 bits with .E; g, G, h, H: one of 64 bits and a
  // descriptor in uniform registers, that says nothing of interest, of loads, stores, reductions
  // and atomics; s, S: of 32 bits and a uniform register at 32 or 64 if bit 91 says so; l: without
  // one; V: of a uniform register; B: with the offset at 32; W: of a register, and after it that of
  // a barrier; i, c: in a constant bank, by a register or a uniform one; p, q: the two of LDGSTS.
  const char* TakeAddress(const Operand& operand) {
    if (operand.scaled) account_.Take(78, 2);
    switch (operand.address) {
      case 'r':
        TakeAddressRegister(24), TakeOffset();
        return "";
      case 'g':
      case 'G':
        TakeAddressRegister(24), TakeOffset();
        account_.Take(operand.address == 'g' ? 32 : 64, 6);
        account_.Take(76, 1);
        account_.Take(90, 2);
        account_.Take(101, 1);  // whether the descriptor is one of cache policy
        return word_.Bit(76) && word_.Bits(90, 2) == 3 ? "" : "an address that is not known";
      case 'u':
      case 'U': {
        TakeAddressRegister(24), TakeOffset();
        const int at = operand.address == 'u' ? 32 : 64;
        account_.Take(at, 6);
        account_.Take(76, 1);
        account_.Take(90, 2);
        Source& uniform = operand.address == 'u' ? instruction_.b : instruction_.c;
        uniform.kind = Source::Kind::kUniform;
        uniform.index = static_cast<uint8_t>(word_.Bits(at, 6));
        return !word_.Bit(76) && word_.Bit(91) && word_.Bit(72) ? ""
                                                                : "an address that is not known";
      }
      case 'h':
        TakeAddressRegister(24), TakeOffset();
        account_.Take(64, 6);
        account_.Take(71, 1);
        account_.Take(90, 2);
        return word_.Bit(71) && word_.Bits(90, 2) == 3 ? "" : "an address that is not known";
      case 'H':
        TakeAddressRegister(24), TakeOffset();
        account_.Take(64, 8);
        account_.Take(91, 1);
        return word_.Bits(70, 2) == 3 && word_.Bit(91) ? "" : "an address that is not known";
      case 's':
      case 'S': {
        TakeAddressRegister(24), TakeOffset();
        const int at = operand.address == 's' ? 32 : 64;
        account_.Take(91, 1);
        if (word_.Bit(91)) {
          account_.Take(at, 6);
          Source& uniform = operand.address == 's' ? instruction_.b : instruction_.c;
          uniform.kind = Source::Kind::kUniform;
          uniform.index = static_cast<uint8_t>(word_.Bits(at, 6));
        }
        return "";
      }
      case 'l':
        TakeAddressRegister(24), TakeOffset();
        return "";
      case 'B':
        TakeAddressRegister(24);
        account_.Take(32, 32);
        instruction_.offset = static_cast<int32_t>(word_.Signed(32, 32));
        return "";
      case 'V':
        account_.Take(24, 6);
        TakeOffset();
        instruction_.a.kind = Source::Kind::kUniform;
        instruction_.a.index = static_cast<uint8_t>(word_.Bits(24, 6));
        return "";
      case 'W':
        TakeAddressRegister(24), TakeOffset();
        account_.Take(64, 6);
        return word_.Bits(64, 6) == kNoUniformRegister ? "" : "an address that is not known";
      case 'i':
        TakeAddressRegister(24);
        account_.Take(38, 21);
        instruction_.b.kind = Source::Kind::kConstant;
        instruction_.b.index = static_cast<uint8_t>(word_.Bits(54, 5));
        instruction_.offset = static_cast<int32_t>(word_.Signed(38, 16));
        return "";
      case 'c':
        account_.Take(24, 6);
        account_.Take(38, 21);
        instruction_.a.kind = Source::Kind::kUniform;
        instruction_.a.index = static_cast<uint8_t>(word_.Bits(24, 6));
        instruction_.b.kind = Source::Kind::kConstant;
        instruction_.b.index = static_cast<uint8_t>(word_.Bits(54, 5));
        instruction_.offset = static_cast<int32_t>(word_.Signed(38, 16));
        return "";
      case 'P':
        account_.Take(64, 6);
        [[fallthrough]];
      case 'p':
        account_.Take(16, 8);
        account_.Take(44, 20);
        instruction_.destination = static_cast<uint16_t>(word_.Bits(16, 8));
        return "";
      case 'Q':
      case 'q':
        TakeAddressRegister(24);
        account_.Take(32, 12);
        account_.Take(64, 6);
        account_.Take(91, 1);
        instruction_.offset = static_cast<int32_t>(word_.Signed(32, 12));
        return word_.Bit(91) ? "" : "an address that is not known";
      default:
        return "an address that is not known";
    }
  }

  // Distances are in bytes from the next instruction; since sm_90 their lowest byte, in words of
  // four bytes, lies apart for all but BSSY.
  const char* TakeTarget() {
    int64_t words;
    if (word_.operation() == 0x145) {
      account_.Take(34, 30);
      words = word_.Signed(34, 30);
    } else {
      account_.Take(34, 48);
      words = word_.Signed(34, 48);
      if (architecture_ >= 90) {
        account_.Take(16, 8);
        words = words * 256 + static_cast<int64_t>(word_.Bits(16, 8));
      }
    }
    const int64_t target = (int64_t{index_} + 1) * kWordBytes + words * 4;
    if (target % kWordBytes != 0) return "a target between instructions";
    // What is not in the program is found out when it is reached.
    instruction_.target = target < 0 || target / kWordBytes > UINT32_MAX
                              ? UINT32_MAX
                              : static_cast<uint32_t>(target / kWordBytes);
    return "";
  }

  const Word& word_;
  const Encoding& encoding_;
  const Architecture architecture_;
  uint32_t index_ = 0;
  Account account_;
  Instruction instruction_;
};

}  // namespace

uint64_t AbsoluteTarget(const Word& word, Architecture architecture) {
  int64_t words = word.Signed(34, 48);
  if (architecture >= 90) words = words * 256 + static_cast<int64_t>(word.Bits(16, 8));
  return static_cast<uint64_t>(words) * 4;
}

Decoded Decode(const Word& word, Architecture architecture, uint32_t index) {
  Decoded result;
  result.why = "an operation that is not known";
  result.instruction.word = word;
  for (const Encoding& encoding : EncodingsOf(word.operation(), word.form())) {
    if (architecture < encoding.row->from || architecture > encoding.row->until) continue;
    ByRow by_row(word, encoding, architecture, index);
    const char* const why = by_row.Run();
    if (*why != '\0') {
      result.why = why;
      result.unknown = by_row.Rest();
      continue;
    }
    result.instruction = by_row.instruction();
    if (encoding.row->select != nullptr) {
      result.instruction.handler = encoding.row->select(result.instruction);
      if (result.instruction.handler == nullptr) {
        result.why = "an operation that is not carried out in this way";
        continue;
      }
    }
    result.encoding = &encoding;
    result.why = "";
    return result;
  }
  return result;
}

}  // namespace phantora::sass
