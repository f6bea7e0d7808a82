// Numbers of matrices as they lie in a GPU's memory.
#ifndef PHANTORA_TRAP_GPU_PRODUCTS_NUMBER_H_
#define PHANTORA_TRAP_GPU_PRODUCTS_NUMBER_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "profiles/work/kernel_work.h"

namespace phantora {

enum class Number : uint8_t {
  kHalf,
  kBfloat,
  kTf32,      // four bytes, of which tensor cores look at 19 bits: the others are cut off
  kTf32Even,  // kernels may round to those first: to the nearest, to even of two
  kTf32Away,  // or to the one with the larger magnitude of two
  kFloat,
  kDouble,
};

constexpr uint64_t BytesOf(Number number) {
  return number == Number::kDouble                              ? 8
         : number == Number::kHalf || number == Number::kBfloat ? 2
                                                                : 4;
}
// Of the factors of a product; nullopt: they are not computed with here.
std::optional<Number> FactorsOf(MathPrecision precision);

constexpr bool IsTf32(Number number) {
  return number == Number::kTf32 || number == Number::kTf32Even || number == Number::kTf32Away;
}

// How far a number of this kind may be off that is rounded to it, as a part of itself.
double RoundingOf(Number number);

double ToDouble(Number number, const uint8_t* from);
// `count` numbers; not kDouble.
void ToFloats(Number number, const uint8_t* from, size_t count, float* to);
// Rounded to the nearest, to even of two; NaNs as GPUs make them. Not kDouble.
void FromFloats(Number number, const float* from, size_t count, uint8_t* to);

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_PRODUCTS_NUMBER_H_
