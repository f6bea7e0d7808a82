#include "trap/gpu/sass/printer.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "trap/gpu/sass/special_registers.h"

namespace phantora::sass {
namespace {

std::string Register(int index) { return index == kNoRegister ? "RZ" : absl::StrCat("R", index); }
std::string Uniform(int index) {
  return index == kNoUniformRegister ? "URZ" : absl::StrCat("UR", index);
}
std::string Predicate(const char* file, int index, bool inverted) {
  return absl::StrCat(inverted ? "!" : "", file, index == kTrue ? "T" : absl::StrCat(index));
}

class Printer {
 public:
  Printer(const Decoded& decoded, Architecture architecture)
      : instruction_(decoded.instruction),
        word_(decoded.instruction.word),
        encoding_(*decoded.encoding),
        architecture_(architecture) {}

  Text Run() {
    Text text;
    if (word_.Bits(12, 4) != kTrue) {
      text.guard = absl::StrCat("@", Predicate(instruction_.guard_is_uniform ? "UP" : "P",
                                               static_cast<int>(word_.Bits(12, 3)), word_.Bit(15)));
    }
    text.name = encoding_.row->name;
    for (const Modifier& modifier : encoding_.modifiers) {
      text.name += modifier.spellings[modifier.ValueIn(word_)];
    }
    for (const Operand& operand : encoding_.operands) Add(operand, text.operands);
    return text;
  }

 private:
  std::string Modified(const Operand& operand, const Source& source, std::string plain) const {
    if (operand.part) {
      const uint64_t part = word_.Bits(60, 2), size = word_.Bits(84, 2);
      if (part != 0) plain += absl::StrCat(size == 0 ? ".B" : ".H", part);
    }
    if (operand.upper && word_.Bit(UpperBit(word_, operand))) plain += ".H1";
    if (source.absolute) plain = absl::StrCat("|", plain, "|");
    if (operand.half) plain += Swizzle(operand, source);
    if (operand.conjugate) plain += ".H0_NH1";
    if (!source.negate) return plain;
    const bool bits = operand.invertible || (operand.negatable && !operand.absolutable &&
                                             !operand.half && HasX() && word_.Bit(74));
    return absl::StrCat(bits ? "~" : "-", plain);
  }
  bool HasX() const {
    for (const Modifier& modifier : encoding_.modifiers) {
      if (modifier.spellings.back() == ".X") return true;
    }
    return false;
  }
  std::string Swizzle(const Operand& operand, const Source& source) const {
    if (source.kind == Source::Kind::kImmediate) return "";
    int at = 74;
    if (operand.kind != OperandKind::kA) {
      const int form = word_.form();
      const bool third_is_free = form == 2 || form == 3 || form == 7;
      at = (operand.kind == OperandKind::kC) == third_is_free ? 60 : 81;
    }
    switch (word_.Bits(at, 2)) {
      case 1:
        return ".F32";
      case 2:
        return ".H0_H0";
      case 3:
        return ".H1_H1";
      default:
        return "";
    }
  }
  std::string Of(const Operand& operand, const Source& source) const {
    switch (source.kind) {
      case Source::Kind::kRegister:
        return Modified(operand, source, Register(source.index));
      case Source::Kind::kUniform:
        return Modified(operand, source, Uniform(source.index));
      case Source::Kind::kConstant:
        return Modified(operand, source,
                        absl::StrFormat("c[0x%x][0x%x]", source.index, source.value));
      default:
        break;
    }
    static constexpr char kLetters[] = {'i', 'f', 'd', 'h'};
    return absl::StrFormat("#%c%x", kLetters[static_cast<int>(encoding_.row->immediate)],
                           source.value);
  }
  static std::string Offset(int64_t offset, bool alone) {
    if (alone) return absl::StrFormat("0x%x", offset);
    if (offset == 0) return "";
    return offset < 0 ? absl::StrFormat("+-0x%x", -offset) : absl::StrFormat("+0x%x", offset);
  }
  std::string Bracketed(std::string base, int64_t offset) const {
    if (base.empty()) base = offset == 0 ? "RZ" : "";
    return absl::StrCat("[", base, Offset(offset, base.empty()), "]");
  }
  std::string Address(const Operand& operand) const {
    static constexpr const char* kScales[] = {"", ".X4", ".X8", ".X16"};
    const int reg = static_cast<int>(word_.Bits(24, 8));
    const std::string plain = reg == kNoRegister ? "" : Register(reg);
    const int64_t offset = instruction_.offset;
    switch (operand.address) {
      case 'r':
      case 'B':
        return Bracketed(plain, offset);
      case 'g':
      case 'G':
      case 'h':
      case 'H': {
        const std::string text =
            reg == kNoRegister ? Bracketed("", offset) : Bracketed(plain + ".64", offset);
        if (architecture_ < 90 && !word_.Bit(101)) return text;
        const int at = operand.address == 'g' ? 32 : 64;
        return absl::StrCat("desc[", Uniform(static_cast<int>(word_.Bits(at, 6))), "]", text);
      }
      case 's':
      case 'S':
      case 'l': {
        std::string base = plain;
        if (operand.scaled && !base.empty()) base += kScales[word_.Bits(78, 2)];
        if (operand.address != 'l' && word_.Bit(91)) {
          const int at = operand.address == 's' ? 32 : 64;
          base = absl::StrCat(base, base.empty() ? "" : "+",
                              Uniform(static_cast<int>(word_.Bits(at, 6))));
        }
        return Bracketed(base, offset);
      }
      case 'V':
        return Bracketed(Uniform(static_cast<int>(word_.Bits(24, 6))), offset);
      case 'W':
        return Bracketed(plain + ".64", offset);
      case 'i': {
        const uint16_t at = static_cast<uint16_t>(offset);
        if (plain.empty() && at != 0) {
          return absl::StrFormat("c[0x%x][0x%x]", instruction_.b.index, at);
        }
        return absl::StrFormat("c[0x%x]%s", instruction_.b.index, Bracketed(plain, offset));
      }
      case 'c':
        return absl::StrFormat("c[0x%x]%s", instruction_.b.index,
                               Bracketed(Uniform(instruction_.a.index), offset));
      case 'u':
      case 'U': {
        const int at = operand.address == 'u' ? 32 : 64;
        std::string base =
            plain.empty() ? "" : absl::StrCat(plain, word_.Bit(90) ? ".64+" : ".U32+");
        return Bracketed(absl::StrCat(base, Uniform(static_cast<int>(word_.Bits(at, 6)))), offset);
      }
      case 'P':
      case 'p': {
        const int to = static_cast<int>(word_.Bits(16, 8));
        std::string base = to == kNoRegister ? "" : Register(to);
        if (operand.address == 'P') {
          absl::StrAppend(&base, base.empty() ? "" : "+",
                          Uniform(static_cast<int>(word_.Bits(64, 6))));
        }
        return Bracketed(base, word_.Signed(44, 20));
      }
      case 'Q':
        if (word_.Bits(64, 6) == kNoUniformRegister) return Bracketed(plain + ".64", offset);
        return Bracketed(absl::StrCat(plain, ".64+", Uniform(static_cast<int>(word_.Bits(64, 6)))),
                         offset);
      case 'q': {
        const std::string text = Bracketed(plain + ".64", offset);
        if (architecture_ < 90 && !word_.Bit(101)) return text;
        return absl::StrCat("desc[", Uniform(static_cast<int>(word_.Bits(64, 6))), "]", text);
      }
      default:
        return "?";
    }
  }

  void Add(const Operand& operand, std::vector<std::string>& out) const {
    if (operand.when >= 0 && !word_.Bit(operand.when)) return;
    switch (operand.kind) {
      case OperandKind::kA:
        out.push_back(Of(operand, instruction_.a));
        return;
      case OperandKind::kB:
        out.push_back(Of(operand, instruction_.b));
        return;
      case OperandKind::kC:
        out.push_back(Of(operand, instruction_.c));
        return;
      case OperandKind::kDestination: {
        const int index = static_cast<int>(word_.Bits(16, 8));
        if (!operand.optional || index != kNoRegister) out.push_back(Register(index));
        return;
      }
      case OperandKind::kUniformDestination: {
        const int index = static_cast<int>(word_.Bits(16, 6));
        if (!operand.optional || index != kNoUniformRegister) out.push_back(Uniform(index));
        return;
      }
      case OperandKind::kRegister:
        out.push_back(Register(static_cast<int>(word_.Bits(operand.at, 8))));
        return;
      case OperandKind::kUniform: {
        const int inverted = operand.inverted != 0 ? operand.inverted : operand.at + 6;
        const bool is_inverted =
            (operand.invertible || operand.inverted != 0) && word_.Bit(inverted);
        out.push_back(absl::StrCat(is_inverted ? "~" : "",
                                   Uniform(static_cast<int>(word_.Bits(operand.at, 6)))));
        return;
      }
      case OperandKind::kUniformAddress:
        out.push_back(absl::StrCat("[", Uniform(static_cast<int>(word_.Bits(operand.at, 6))), "]"));
        return;
      case OperandKind::kDescriptor:
        out.push_back(
            absl::StrCat("desc[", Uniform(static_cast<int>(word_.Bits(operand.at, 6))), "]"));
        return;
      case OperandKind::kMatrixDescriptor:
        out.push_back(absl::StrCat("gdesc[", Uniform(static_cast<int>(word_.Bits(operand.at, 6))),
                                   "]", operand.at == 24 && word_.Bit(72) ? ".negA" : "",
                                   word_.Bit(63) ? ".negB" : "", word_.Bit(61) ? ".tnspA" : "",
                                   word_.Bit(62) ? ".tnspB" : ""));
        return;
      case OperandKind::kGroup:
        if (word_.Bits(operand.at, 3) != 7) {
          out.push_back(absl::StrCat("gsb", word_.Bits(operand.at, 3)));
        }
        return;
      case OperandKind::kReversedPredicate: {
        const bool inverted = word_.Bit(operand.inverted);
        const int index = kTrue - static_cast<int>(word_.Bits(operand.at, 3));
        if (index != kTrue || inverted) out.push_back(Predicate("UP", index, inverted));
        return;
      }
      case OperandKind::kPredicate:
      case OperandKind::kPredicateResult:
      case OperandKind::kUniformPredicate:
      case OperandKind::kUniformPredicateResult: {
        const bool uniform = operand.kind == OperandKind::kUniformPredicate ||
                             operand.kind == OperandKind::kUniformPredicateResult;
        const bool inverted = operand.inverted != 0 && word_.Bit(operand.inverted);
        const int index = static_cast<int>(word_.Bits(operand.at, 3));
        if (operand.optional && index == kTrue && !inverted) return;
        out.push_back(Predicate(uniform ? "UP" : "P", index, inverted));
        return;
      }
      case OperandKind::kUnsigned:
        if (operand.optional && word_.Bits(operand.at, operand.width) == 0) return;
        out.push_back(absl::StrFormat("#i%x", word_.Bits(operand.at, operand.width)));
        return;
      case OperandKind::kSigned:
        out.push_back(absl::StrFormat(
            "#i%x", static_cast<uint32_t>(word_.Signed(operand.at, operand.width))));
        return;
      case OperandKind::kSpecialRegister:
        out.push_back(SpecialRegisterName(static_cast<int>(word_.Bits(72, 8))));
        return;
      case OperandKind::kWarpState:
        out.push_back(WarpStateName(static_cast<int>(word_.Bits(operand.at, 8))));
        return;
      case OperandKind::kConvergence:
        out.push_back(absl::StrCat("B", word_.Bits(operand.at, 4)));
        return;
      case OperandKind::kConstant:
        out.push_back(absl::StrFormat("c[0x%x][0x%x]", instruction_.b.index, instruction_.b.value));
        return;
      case OperandKind::kLoaded:
        if (word_.Bits(64, 4) != 0) {
          out.push_back(Predicate("P", static_cast<int>(7 - word_.Bits(64, 3)), word_.Bit(67)));
        }
        return;
      case OperandKind::kTable:
        out.push_back(absl::StrFormat("#i%x", word_.Bits(64, 3) | word_.Bits(72, 5) << 3));
        return;
      case OperandKind::kPredicates:
        out.push_back(IsUniform(word_) ? "UPR" : "PR");
        return;
      case OperandKind::kAddress:
        out.push_back(Address(operand));
        return;
      case OperandKind::kTarget:
        out.push_back(absl::StrFormat("L%x", uint64_t{instruction_.target} * 16));
        return;
      case OperandKind::kAbsoluteTarget:
        out.push_back(absl::StrFormat("0x%x", AbsoluteTarget(word_, architecture_)));
        return;
      case OperandKind::kIgnored:
      case OperandKind::kExactly:
        return;
    }
  }

  const Instruction& instruction_;
  const Word& word_;
  const Encoding& encoding_;
  const Architecture architecture_;
};

}  // namespace

Text Print(const Decoded& decoded, Architecture architecture) {
  if (decoded.encoding == nullptr) return {"", "?", {}};
  return Printer(decoded, architecture).Run();
}

std::string Text::Joined() const {
  return absl::StrCat(guard, guard.empty() ? "" : " ", name, operands.empty() ? "" : " ",
                      absl::StrJoin(operands, ", "));
}

}  // namespace phantora::sass
