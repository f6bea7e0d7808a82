#include "trap/gpu/sass/encoding.h"

#include <array>
#include <cctype>
#include <cstdlib>

namespace phantora::sass {
namespace {

// Reads the rows' little language. Rows are ours: a mistake in one ends the program, in every test.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}
  bool Done() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ == text_.size();
  }
  char Peek() const { return at_ < text_.size() ? text_[at_] : ' '; }
  bool Take(char wanted) {
    if (Peek() != wanted) return false;
    ++at_;
    return true;
  }
  char Next() { return text_[at_++]; }
  int Number() {
    if (std::isdigit(static_cast<unsigned char>(Peek())) == 0) std::abort();
    int value = 0;
    while (std::isdigit(static_cast<unsigned char>(Peek())) != 0)
      value = value * 10 + (Next() - '0');
    return value;
  }
  std::string Until(char a, char b) {
    std::string result;
    while (at_ < text_.size() && Peek() != a && Peek() != b) result += Next();
    return result;
  }

 private:
  std::string_view text_;
  size_t at_ = 0;
};

std::vector<Modifier> ReadModifiers(const char* text) {
  std::vector<Modifier> modifiers;
  for (Reader reader(text); !reader.Done();) {
    Modifier modifier;
    if (reader.Take('\'')) {
      modifier.spellings.push_back(reader.Until(' ', ' '));
      modifiers.push_back(std::move(modifier));
      continue;
    }
    do {
      Modifier::Part part = {static_cast<uint8_t>(reader.Number()), 1};
      if (reader.Take('+')) part.width = static_cast<uint8_t>(reader.Number());
      modifier.parts.push_back(part);
    } while (reader.Take(':'));
    if (!reader.Take('=')) std::abort();
    do {
      modifier.spellings.push_back(reader.Until(',', ' '));
    } while (reader.Take(','));
    // One spelling is that of a bit that is set.
    if (modifier.spellings.size() == 1) modifier.spellings.insert(modifier.spellings.begin(), "");
    modifiers.push_back(std::move(modifier));
  }
  return modifiers;
}

Operand ReadOperand(Reader& reader) {
  Operand operand = {};
  const char letter = reader.Next();
  const auto at = [&] { operand.at = static_cast<uint8_t>(reader.Number()); };
  const auto inverted = [&] {
    if (reader.Take('/')) operand.inverted = static_cast<uint8_t>(reader.Number());
  };
  const auto width = [&] {
    if (!reader.Take('+')) std::abort();
    operand.width = static_cast<uint8_t>(reader.Number());
  };
  switch (letter) {
    case 'a':
      operand.kind = OperandKind::kA;
      break;
    case 'b':
      operand.kind = OperandKind::kB;
      break;
    case 'c':
      operand.kind = OperandKind::kC;
      break;
    case 'd':
      operand.kind = OperandKind::kDestination;
      operand.at = 16;
      break;
    case 'r':
      operand.kind = OperandKind::kRegister;
      at();
      break;
    case 'u':
      if (reader.Take('d')) {
        operand.kind = OperandKind::kUniformDestination, operand.at = 16;
      } else {
        operand.kind = OperandKind::kUniform, at(), inverted();
      }
      break;
    case 'p':
      operand.kind = OperandKind::kPredicate;
      at(), inverted();
      break;
    case 'P':
      operand.kind = OperandKind::kPredicateResult;
      at();
      break;
    case 'q':
      operand.kind = OperandKind::kUniformPredicate;
      at(), inverted();
      break;
    case 'Q':
      operand.kind = OperandKind::kUniformPredicateResult;
      at();
      break;
    case 'i':
      operand.kind = OperandKind::kUnsigned;
      at(), width();
      break;
    case 's':
      operand.kind = OperandKind::kSigned;
      at(), width();
      break;
    case 'S':
      operand.kind = OperandKind::kSpecialRegister;
      break;
    case 'W':
      operand.kind = OperandKind::kWarpState;
      at();
      break;
    case 'B':
      operand.kind = OperandKind::kConvergence;
      at();
      break;
    case 'k':
      operand.kind = OperandKind::kConstant;
      break;
    case 'T':
      operand.kind = OperandKind::kAbsoluteTarget;
      break;
    case 't':
      operand.kind = OperandKind::kTarget;
      break;
    case '?':
      operand.kind = OperandKind::kIgnored;
      at(), width();
      break;
    case '=':
      operand.kind = OperandKind::kExactly;
      at(), width();
      if (!reader.Take(':')) std::abort();
      operand.value = reader.Number();
      break;
    case 'v':
      operand.kind = OperandKind::kLoaded;
      break;
    case 'L':
      operand.kind = OperandKind::kTable;
      break;
    case 'R':
      operand.kind = OperandKind::kPredicates;
      break;
    case 'U':
      operand.kind = OperandKind::kUniformAddress;
      at();
      break;
    case 'D':
      operand.kind = OperandKind::kDescriptor;
      at();
      break;
    case 'G':
      operand.kind = reader.Next() == 'd' ? OperandKind::kMatrixDescriptor : OperandKind::kGroup;
      at();
      break;
    case 'g':
      operand.kind = OperandKind::kReversedPredicate;
      at(), inverted();
      break;
    case 'm':
      operand.kind = OperandKind::kAddress;
      operand.address = reader.Next();
      break;
    default:
      std::abort();
  }
  for (;;) {
    if (reader.Take('-')) {
      operand.negatable = true;
    } else if (reader.Take('|')) {
      operand.absolutable = true;
    } else if (reader.Take('~')) {
      operand.invertible = true;
    } else if (reader.Take('?')) {
      operand.optional = true;
    } else if (reader.Take('h')) {
      operand.half = true;
    } else if (reader.Take('y')) {
      operand.part = true;
    } else if (reader.Take('H')) {
      operand.upper = true;
    } else if (reader.Take('n')) {
      operand.conjugate = true;
    } else if (reader.Take('x')) {
      operand.scaled = true;
    } else if (reader.Take('&')) {
      operand.when = static_cast<int16_t>(reader.Number());
    } else if (reader.Take('*')) {
      const char by = reader.Next();
      if (by == 'm') {
        operand.registers = kRegistersByMemory;
      } else if (by == 'a') {
        operand.registers = kRegistersByAtomic;
      } else if (by == 'f') {
        operand.registers = kRegistersByResult;
      } else if (by == 'h') {
        operand.registers = kRegistersByAccumulator;
      } else if (by == 'w') {
        operand.registers = kRegistersByWarpgroup;
      } else {
        operand.registers = static_cast<uint8_t>(by - '0');
      }
    } else {
      return operand;
    }
  }
}

struct Table {
  std::vector<EncodingRow> rows;
  std::array<std::vector<Encoding>, 4096> by_code;

  Table() {
    for (auto* make : {&IntegerRows, &FloatRows, &UniformRows, &MemoryRows, &WarpRows, &ControlRows,
                       &TensorRows, &HopperRows}) {
      for (const EncodingRow& row : make()) rows.push_back(row);
    }
    for (const EncodingRow& row : rows) {
      Encoding encoding = {&row, ReadModifiers(row.modifiers), {}};
      for (Reader reader(row.operands); !reader.Done();) {
        encoding.operands.push_back(ReadOperand(reader));
      }
      for (const char* form = row.forms; *form != '\0'; ++form) {
        by_code[row.operation | (*form - '0') << 9].push_back(encoding);
      }
    }
  }
};

}  // namespace

uint32_t Modifier::ValueIn(const Word& word) const {
  uint32_t value = 0;
  int shift = 0;
  for (const Part& part : parts) {
    value |= static_cast<uint32_t>(word.Bits(part.at, part.width)) << shift;
    shift += part.width;
  }
  return value;
}

const std::vector<Encoding>& EncodingsOf(int operation, int form) {
  static const Table* const table = new Table;
  return table->by_code[operation | form << 9];
}

}  // namespace phantora::sass
