// What the name of a kernel says of its data.
#ifndef PHANTORA_PROFILES_WORK_KERNEL_SYMBOL_H_
#define PHANTORA_PROFILES_WORK_KERNEL_SYMBOL_H_

#include <cstdint>
#include <string_view>

#include "profiles/work/kernel_work.h"

namespace phantora {

inline bool Has(std::string_view text, std::string_view part) {
  return text.find(part) != text.npos;
}

// Does `text` have `part` at this place? There may be nothing there.
inline bool HasAt(std::string_view text, size_t at, std::string_view part) {
  return at <= text.size() && text.substr(at, part.size()) == part;
}

// Whether `text` has the parts of `pattern` between asterisks, in this order.
bool Matches(std::string_view text, std::string_view pattern);

// Bytes of the element type that follows `after` in a mangled name ("f", "N3c108BFloat16E",
// "NS0_10OpaqueTypeILi4EEE"); 4 if that cannot be told.
double ElementBytes(std::string_view symbol, std::string_view after);

// The number that follows `after` and an "L" with its type ("Li4E"); `otherwise` if none does.
int LiteralAfter(std::string_view symbol, std::string_view after, int otherwise);

// The first "<a>x<b>" behind `after` in the name, as cuBLAS and CUTLASS name their tiles.
bool FindTile(std::string_view name, std::string_view after, uint32_t* m, uint32_t* n);

// The precision in which a matrix product, attention or convolution multiplies.
MathPrecision PrecisionOf(std::string_view name);
// The precision of one element.
double Bytes(MathPrecision precision);

}  // namespace phantora

#endif  // PHANTORA_PROFILES_WORK_KERNEL_SYMBOL_H_
