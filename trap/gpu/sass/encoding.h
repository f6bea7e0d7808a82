// What the bits of a machine word mean: one row for each operation and form, from which words are
// decoded and printed. A bit that no row accounts for refuses the word.
//
// Sources: Mesa's NAK (src/nouveau/compiler/nak/sm70_encode.rs, MIT) states most fields; what it
// has not, or has otherwise, comes from comparing words with the text that nvdisasm prints for
// kernels of PyTorch, Triton and our own (test/sass_text_test.py compares again).
#ifndef PHANTORA_TRAP_GPU_SASS_ENCODING_H_
#define PHANTORA_TRAP_GPU_SASS_ENCODING_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trap/gpu/sass/instruction.h"

namespace phantora::sass {

// How an immediate in the place of a source is printed: what it is a number of.
enum class Immediate : uint8_t { kInteger, kFloat, kDouble, kHalves };

// Chooses what carries the instruction out. nullptr: nothing does, which refuses it.
using Selector = Handler (*)(const Instruction& instruction);

// A row as it is written down.
struct EncodingRow {
  int operation;      // bits 0 to 8
  const char* forms;  // digits: values of bits 9 to 11
  const char* name;
  // What follows the name, in the order in which it is printed: "80=.FTZ 78+2=,.RM,.RP,.RZ" has
  // .FTZ if bit 80 is set, and then a field of two bits; "75+2:72=" is one of three. A value
  // without a spelling, or whose spelling is "?", is refused. "'.X" is printed always.
  const char* modifiers;
  // Operands in the order in which they are printed; see OperandKind.
  const char* operands;
  Selector select;
  Immediate immediate = Immediate::kInteger;
  Flow flow = Flow::kPlain;
  int from = 80, until = 90;  // architectures
};

enum class OperandKind : uint8_t {
  kA,                       // a: register at 24
  kB,                       // b: the form's second source
  kC,                       // c: the form's third source
  kDestination,             // d: register at 16
  kRegister,                // r<at>
  kUniform,                 // u<at>
  kUniformDestination,      // ud: at 16
  kPredicate,               // p<at>/<not>
  kPredicateResult,         // P<at>
  kUniformPredicate,        // q<at>/<not>
  kUniformPredicateResult,  // Q<at>
  kUnsigned,                // i<at>+<width>
  kSigned,                  // s<at>+<width>
  kSpecialRegister,         // S: at 72
  kConvergence,             // B<at>
  kWarpState,               // W<at>: a register of the warp's
  kConstant,                // k: constant bank and offset at 38
  kAddress,                 // m...: see Address
  kTarget,                  // t: where a branch goes
  kAbsoluteTarget,          // T: the same as an address
  kIgnored,                 // ?<at>+<width>: anything, without effect, not printed
  kExactly,                 // =<at>+<width>:<value>, not printed
  kLoaded,                  // v: a predicate without which a load gives zeros
  kTable,                   // L: a table of three predicates, in two parts
  kPredicates,              // R: all predicates
  kUniformAddress,          // U<at>: a uniform register with an address, or the first of a block
  kDescriptor,              // D<at>: of cache policy
  kMatrixDescriptor,        // Gd<at>: of matrices in shared memory
  kGroup,                   // Gs<at>: of products that end together; 7: none
  kReversedPredicate,       // g<at>/<not>: a uniform one, counted from the last
};

// Operand::registers, where a field says how many there are.
inline constexpr uint8_t kRegistersByMemory = 100;       // *m: the size at 73
inline constexpr uint8_t kRegistersByAtomic = 101;       // *a: the type at 73
inline constexpr uint8_t kRegistersByResult = 102;       // *f: the size of the result at 75
inline constexpr uint8_t kRegistersByAccumulator = 103;  // *h: of a matrix product, at 76
inline constexpr uint8_t kRegistersByWarpgroup = 104;    // *w: of a product by four warps

struct Operand {
  OperandKind kind;
  uint8_t at = 0, width = 0;
  uint8_t inverted = 0;      // of predicates: the bit that says so
  bool negatable = false;    // '-'
  bool absolutable = false;  // '|'
  bool invertible = false;   // '~'
  bool optional = false;     // '?': not printed where it is the default
  bool half = false;         // 'h': of two halves, with a swizzle
  int16_t when = -1;         // '&<bit>': only if that bit is set
  uint8_t registers = 1;     // '*<n>': how many in a row
  bool part = false;         // 'y': a byte or half of the register, by 60
  bool upper = false;        // 'H': of halves, the upper one, see UpperBit()
  bool conjugate = false;    // 'n': of two halves, exchanged, one negated
  bool scaled = false;       // 'x': an address with a factor at 78
  char address = 0;          // of kAddress, see decoder.cc
  uint32_t value = 0;        // of kExactly
};

// Is it of the uniform datapath, whose registers are others?
inline bool IsUniform(const Word& word) {
  return word.operation() >= 0x080 && word.operation() < 0x0c0;
}

// The bit that chooses the upper half of a source.
inline int UpperBit(const Word& word, const Operand& operand) {
  if (operand.kind == OperandKind::kC) return 72;
  return word.operation() == 0x03e ? 88 : 60;
}

// A field, or several whose bits are put together, the first lowest.
struct Modifier {
  struct Part {
    uint8_t at, width;
  };
  std::vector<Part> parts;
  std::vector<std::string> spellings;

  uint32_t ValueIn(const Word& word) const;
};

struct Encoding {
  const EncodingRow* row;
  std::vector<Modifier> modifiers;
  std::vector<Operand> operands;
};

// All rows for an operation and form, in the order in which they are tried.
const std::vector<Encoding>& EncodingsOf(int operation, int form);

// Rows by kind; EncodingsOf has them all.
std::vector<EncodingRow> IntegerRows();
std::vector<EncodingRow> FloatRows();
std::vector<EncodingRow> UniformRows();
std::vector<EncodingRow> MemoryRows();
std::vector<EncodingRow> WarpRows();
std::vector<EncodingRow> ControlRows();
std::vector<EncodingRow> TensorRows();
std::vector<EncodingRow> HopperRows();

template <Handler H>
Handler Always(const Instruction&) {
  return H;
}

}  // namespace phantora::sass

#endif  // PHANTORA_TRAP_GPU_SASS_ENCODING_H_
