#include "profiles/work/kernel_symbol.h"

#include <algorithm>
#include <cctype>
#include <string>

namespace phantora {
namespace {

// At most four digits, as a number; -1 if there are none, or more.
int Number(std::string_view text, size_t at, size_t* end) {
  int value = 0;
  for (*end = at; *end < text.size() && std::isdigit(static_cast<unsigned char>(text[*end])) != 0;
       ++*end) {
    if (*end - at >= 4) return -1;
    value = value * 10 + (text[*end] - '0');
  }
  return *end == at ? -1 : value;
}

}  // namespace

bool Matches(std::string_view text, std::string_view pattern) {
  for (;;) {
    const size_t star = pattern.find('*');
    const std::string_view part = pattern.substr(0, star);
    const size_t at = text.find(part);
    if (at == text.npos) return false;
    if (star == pattern.npos) return true;
    text.remove_prefix(at + part.size());
    pattern.remove_prefix(star + 1);
  }
}

double ElementBytes(std::string_view symbol, std::string_view after) {
  const size_t at = symbol.find(after);
  if (at == symbol.npos) return 4;
  std::string_view rest = symbol.substr(at + after.size(), 48);
  // Numbers may come first: "Li8ELi32EN3c108BFloat16E".
  while (!rest.empty() && rest[0] == 'L') {
    rest.remove_prefix(std::min(rest.size(), rest.find('E')));
    if (!rest.empty()) rest.remove_prefix(1);
  }
  if (rest.empty()) return 4;
  switch (rest[0]) {
    case 'd':
    case 'l':
    case 'm':
    case 'x':
    case 'y':
      return 8;
    case 'h':
    case 'a':
    case 'b':
      return 1;
    case 's':
    case 't':
      return 2;
    case 'N':
    case '1':
    case '6': {
      if (Has(rest, "OpaqueTypeIL")) return std::clamp(LiteralAfter(rest, "OpaqueTypeI", 4), 1, 16);
      const size_t first_end = rest.find('E');
      const std::string_view first = rest.substr(0, first_end);
      return Has(first, "BFloat16") || Has(first, "Half") || Has(first, "half") ||
                     Has(first, "bfloat16")
                 ? 2
             : Has(first, "Float8") || Has(first, "fp8") ? 1
                                                         : 4;
    }
    default:
      return 4;
  }
}

int LiteralAfter(std::string_view symbol, std::string_view after, int otherwise) {
  const size_t at = symbol.find(after);
  const size_t literal = at == symbol.npos ? at : at + after.size();
  if (literal == symbol.npos || literal + 2 >= symbol.size() || symbol[literal] != 'L') {
    return otherwise;
  }
  size_t end;
  const int value = Number(symbol, literal + 2, &end);
  return value < 0 ? otherwise : value;
}

bool FindTile(std::string_view name, std::string_view after, uint32_t* m, uint32_t* n) {
  size_t at = after.empty() ? 0 : name.find(after);
  for (at = at == name.npos ? 0 : at + after.size(); at < name.size(); ++at) {
    size_t end;
    const int first = Number(name, at, &end);
    if (first < 0 || end + 1 >= name.size() || name[end] != 'x') {
      at = std::max(at, end);
      continue;
    }
    const int second = Number(name, end + 1, &end);
    if (second < 0) continue;
    *m = static_cast<uint32_t>(first);
    *n = static_cast<uint32_t>(second);
    return *m >= 8 && *n >= 8;
  }
  return false;
}

MathPrecision PrecisionOf(std::string_view name) {
  if (Has(name, "e4m3") || Has(name, "e5m2")) return MathPrecision::kFp8;
  if (Has(name, "i8816") || Has(name, "i16832") || Has(name, "i8i8") || Has(name, "_s8_") ||
      Has(name, "imma")) {
    return MathPrecision::kInt8;
  }
  if (Has(name, "f64f64") || Has(name, "dgemm") || Has(name, "d884")) return MathPrecision::kFp64;
  if (Has(name, "bf16") || Has(name, "bfloat16")) return MathPrecision::kBf16;
  if (Has(name, "f16f16") || Has(name, "f16_s16816") || Has(name, "h16816") || Has(name, "hgemm") ||
      Has(name, "fp16") || Has(name, "h1688") || Has(name, "s884") || Has(name, "half_t") ||
      Has(name, "f16_s1688") || Has(name, "gemm_f16")) {
    return MathPrecision::kFp16;
  }
  if (Has(name, "tf32") || Has(name, "tfloat32") || Has(name, "s1688")) return MathPrecision::kTf32;
  return MathPrecision::kFp32;
}

double Bytes(MathPrecision precision) {
  switch (precision) {
    case MathPrecision::kFp64:
      return 8;
    case MathPrecision::kFp32:
    case MathPrecision::kTf32:
      return 4;
    case MathPrecision::kFp16:
    case MathPrecision::kBf16:
      return 2;
    case MathPrecision::kFp8:
    case MathPrecision::kInt8:
      return 1;
  }
  return 4;
}

}  // namespace phantora
