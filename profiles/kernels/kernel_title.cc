#include "profiles/kernels/kernel_title.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

namespace phantora {
namespace {

constexpr size_t kLongest = 200, kMostArguments = 4;

// Namespaces, containers and helpers that say nothing about what is computed.
constexpr std::array<std::string_view, 56> kCommon = {"at",
                                                      "native",
                                                      "std",
                                                      "array",
                                                      "c10",
                                                      "cuda",
                                                      "detail",
                                                      "internal",
                                                      "memory",
                                                      "cutlass",
                                                      "cute",
                                                      "gemm",
                                                      "kernel",
                                                      "threadblock",
                                                      "warp",
                                                      "thread",
                                                      "layout",
                                                      "epilogue",
                                                      "arch",
                                                      "transform",
                                                      "conv",
                                                      "device",
                                                      "fusion",
                                                      "collective",
                                                      "integral_constant",
                                                      "constant",
                                                      "tuple",
                                                      "pair",
                                                      "tag",
                                                      "C",
                                                      "Shape",
                                                      "Stride",
                                                      "Layout",
                                                      "GemmUniversal",
                                                      "type",
                                                      "TensorIteratorBase",
                                                      "TensorIterator",
                                                      "Tensor",
                                                      "Scalar",
                                                      "OffsetCalculator",
                                                      "TrivialOffsetCalculator",
                                                      "LoadWithoutCast",
                                                      "StoreWithoutCast",
                                                      "ScalarType",
                                                      "lambda",
                                                      "function_traits",
                                                      "IntDivider",
                                                      "AccumulateType",
                                                      "thrust",
                                                      "cub",
                                                      "cuda_cub",
                                                      "PackedTensorAccessor",
                                                      "GenericPackedTensorAccessor",
                                                      "TensorListMetadata",
                                                      "Params",
                                                      "cublasSplitKParams"};

bool IsIdentifier(std::string_view text) {
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) == 0 &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '_' || c == '$' || c == '.';
         });
}

bool IsTelling(std::string_view name) {
  return name.size() > 1 && name.rfind("_GLOBAL__N", 0) != 0 &&
         std::find(kCommon.begin(), kCommon.end(), name) == kCommon.end();
}

// The position behind a literal such as Li4E, Lb1E or Lin1E at `at`, or `at`.
size_t SkipLiteral(std::string_view symbol, size_t at) {
  size_t end = at + 2;  // L and a builtin type
  if (end < symbol.size() && symbol[end] == 'n') ++end;
  const size_t digits = end;
  while (end < symbol.size() && std::isdigit(static_cast<unsigned char>(symbol[end])) != 0) ++end;
  const bool is_literal = end > digits && end < symbol.size() && symbol[end] == 'E';
  return is_literal ? end + 1 : at;
}

// The position behind a substitution or template parameter (S_, S1_, T_, T0_) at `at`.
size_t SkipReference(std::string_view symbol, size_t at) {
  size_t end = at + 1;
  while (end < symbol.size() && (std::isdigit(static_cast<unsigned char>(symbol[end])) != 0 ||
                                 std::isupper(static_cast<unsigned char>(symbol[end])) != 0)) {
    ++end;
  }
  return end < symbol.size() && symbol[end] == '_' ? end + 1 : at + 1;
}

std::string Printable(std::string_view text) {
  std::string out(text.substr(0, kLongest));
  for (char& c : out) {
    if (c < ' ' || c > '~' || c == '"' || c == '\\') c = '?';
  }
  return out;
}

}  // namespace

std::string KernelTitle(std::string_view symbol) {
  if (symbol.substr(0, 2) != "_Z") {
    // Then follow a version's own words, tiles and numbers.
    constexpr std::string_view kCudnnAttention = "cudnn_generated_fort_native_sdpa";
    return Printable(symbol.substr(0, kCudnnAttention.size()) == kCudnnAttention ? kCudnnAttention
                                                                                 : symbol);
  }
  std::string_view own;
  std::vector<std::string_view> arguments;
  bool in_arguments = false;
  for (size_t at = 2; at < symbol.size();) {
    const char c = symbol[at];
    if (c == 'L' && SkipLiteral(symbol, at) != at) {
      at = SkipLiteral(symbol, at);
    } else if (c == 'S' || c == 'T') {
      at = SkipReference(symbol, at);
    } else if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      size_t length = 0;
      while (at < symbol.size() && std::isdigit(static_cast<unsigned char>(symbol[at])) != 0) {
        length = std::min<size_t>(length * 10 + static_cast<size_t>(symbol[at++] - '0'), 1 << 20);
      }
      const std::string_view name = symbol.substr(at, length);
      if (name.size() != length || !IsIdentifier(name)) continue;
      at += length;
      if (!in_arguments) {
        own = name;
      } else if (IsTelling(name) && arguments.size() < kMostArguments &&
                 std::find(arguments.begin(), arguments.end(), name) == arguments.end()) {
        arguments.push_back(name);
      }
    } else {
      // Template arguments follow the name, or the types of the function's parameters.
      if (!own.empty() && symbol[at] == 'I') in_arguments = true;
      if (!own.empty() && !in_arguments && symbol[at] != 'L') break;
      ++at;
    }
  }
  if (own.empty()) return Printable(symbol);
  std::string title(own);
  for (size_t i = 0; i < arguments.size(); ++i) {
    title += i == 0 ? "<" : ", ";
    title += arguments[i];
  }
  if (!arguments.empty()) title += ">";
  return Printable(title);
}

}  // namespace phantora
