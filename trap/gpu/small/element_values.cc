#include "trap/gpu/small/element_values.h"

#include <cmath>
#include <cstring>

namespace phantora {
namespace {

template <typename T>
T Get(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <typename T>
void Put(uint8_t* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

int64_t ToInteger(ElementValue value) {
  if (!value.floating) return value.integer;
  constexpr double kLimit = 9223372036854775808.0;  // 2^63
  const bool fits = value.number >= -kLimit && value.number < kLimit;
  return fits ? static_cast<int64_t>(value.number) : 0;
}

}  // namespace

uint64_t BytesOf(ElementType type) {
  switch (type) {
    case ElementType::kBool:
    case ElementType::kUint8:
    case ElementType::kInt8:
      return 1;
    case ElementType::kInt16:
      return 2;
    case ElementType::kInt32:
    case ElementType::kFloat:
      return 4;
    case ElementType::kInt64:
    case ElementType::kDouble:
      return 8;
  }
  return 1;
}

bool IsFloating(ElementType type) {
  return type == ElementType::kFloat || type == ElementType::kDouble;
}

std::optional<ElementType> ParseMangledType(std::string_view name) {
  switch (name.empty() ? '\0' : name[0]) {
    case 'b':
      return ElementType::kBool;
    case 'h':
      return ElementType::kUint8;
    case 'a':
      return ElementType::kInt8;
    case 's':
      return ElementType::kInt16;
    case 'i':
      return ElementType::kInt32;
    case 'l':
      return ElementType::kInt64;
    case 'f':
      return ElementType::kFloat;
    case 'd':
      return ElementType::kDouble;
    default:
      return std::nullopt;
  }
}

std::optional<ElementType> FromScalarType(uint8_t type) {
  switch (type) {
    case 0:
      return ElementType::kUint8;
    case 1:
      return ElementType::kInt8;
    case 2:
      return ElementType::kInt16;
    case 3:
      return ElementType::kInt32;
    case 4:
      return ElementType::kInt64;
    case 6:
      return ElementType::kFloat;
    case 7:
      return ElementType::kDouble;
    case 11:
      return ElementType::kBool;
    default:
      return std::nullopt;
  }
}

ElementValue LoadElement(ElementType type, const uint8_t* from) {
  switch (type) {
    case ElementType::kBool:
      return ElementValue::Integer(Get<uint8_t>(from) != 0 ? 1 : 0);
    case ElementType::kUint8:
      return ElementValue::Integer(Get<uint8_t>(from));
    case ElementType::kInt8:
      return ElementValue::Integer(Get<int8_t>(from));
    case ElementType::kInt16:
      return ElementValue::Integer(Get<int16_t>(from));
    case ElementType::kInt32:
      return ElementValue::Integer(Get<int32_t>(from));
    case ElementType::kInt64:
      return ElementValue::Integer(Get<int64_t>(from));
    case ElementType::kFloat:
      return ElementValue::Number(Get<float>(from));
    case ElementType::kDouble:
      return ElementValue::Number(Get<double>(from));
  }
  return {};
}

void StoreElement(ElementType type, ElementValue value, uint8_t* to) {
  switch (type) {
    case ElementType::kBool:
      // A NaN is true.
      Put<uint8_t>(to, value.floating ? !(value.number == 0) : value.integer != 0);
      break;
    case ElementType::kUint8:
    case ElementType::kInt8:
      Put<uint8_t>(to, static_cast<uint8_t>(ToInteger(value)));
      break;
    case ElementType::kInt16:
      Put<uint16_t>(to, static_cast<uint16_t>(ToInteger(value)));
      break;
    case ElementType::kInt32:
      Put<uint32_t>(to, static_cast<uint32_t>(ToInteger(value)));
      break;
    case ElementType::kInt64:
      Put<int64_t>(to, ToInteger(value));
      break;
    case ElementType::kFloat: {
      // A conversion that overflows is undefined in C++; GPUs round to infinity.
      const double number = value.AsNumber();
      const bool fits = !std::isfinite(number) || std::abs(number) <= 3.4028235677973366e38;
      Put<float>(to, fits ? static_cast<float>(number)
                          : std::copysign(static_cast<float>(INFINITY),
                                          static_cast<float>(std::copysign(1.0, number))));
      break;
    }
    case ElementType::kDouble:
      Put<double>(to, value.AsNumber());
      break;
  }
}

ElementValue RoundTo(ElementType type, ElementValue value) {
  uint8_t bytes[8];
  StoreElement(type, value, bytes);
  return LoadElement(type, bytes);
}

}  // namespace phantora
