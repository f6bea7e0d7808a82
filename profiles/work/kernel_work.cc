#include "profiles/work/kernel_work.h"

#include <cstddef>

namespace phantora {

const char* Name(WorkFamily family) {
  constexpr const char* kNames[kWorkFamilies] = {
      "unknown",   "gemm",      "attention", "convolution", "elementwise", "reduction",
      "rows",      "optimizer", "index",     "scan",        "layout",      "image",
      "generated", "experts",   "peers",     "other"};
  return kNames[static_cast<size_t>(family)];
}

const char* Name(MathPrecision precision) {
  constexpr const char* kNames[kMathPrecisions] = {"fp64", "fp32", "tf32", "fp16",
                                                   "bf16", "fp8",  "int8"};
  return kNames[static_cast<size_t>(precision)];
}

}  // namespace phantora
