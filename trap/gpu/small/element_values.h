// Elements of tensors as small kernels read and write them.
#ifndef PHANTORA_TRAP_GPU_SMALL_ELEMENT_VALUES_H_
#define PHANTORA_TRAP_GPU_SMALL_ELEMENT_VALUES_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace phantora {

enum class ElementType : uint8_t { kBool, kUint8, kInt8, kInt16, kInt32, kInt64, kFloat, kDouble };

uint64_t BytesOf(ElementType type);
bool IsFloating(ElementType type);

// The type with which a part of a mangled name begins: "l", "f". nullopt: another, such as
// c10::BFloat16.
std::optional<ElementType> ParseMangledType(std::string_view name);

// c10::ScalarType (c10/core/ScalarType.h).
std::optional<ElementType> FromScalarType(uint8_t type);

// One element: an integer or a number with a fraction.
struct ElementValue {
  bool floating = false;
  int64_t integer = 0;
  double number = 0;

  static ElementValue Integer(int64_t value) { return {false, value, 0}; }
  static ElementValue Number(double value) { return {true, 0, value}; }
  double AsNumber() const { return floating ? number : static_cast<double>(integer); }
};

ElementValue LoadElement(ElementType type, const uint8_t* from);
// Converts as C++ does; what does not fit into an integer becomes 0.
void StoreElement(ElementType type, ElementValue value, uint8_t* to);
// As one of this type would be after it was stored and loaded.
ElementValue RoundTo(ElementType type, ElementValue value);

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_SMALL_ELEMENT_VALUES_H_
