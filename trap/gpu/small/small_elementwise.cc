// Kernels over the elements of dense tensors (ATen/native/cuda/Loops.cuh, CUDALoops.cuh).
#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <optional>
#include <vector>

#include "profiles/work/kernel_symbol.h"
#include "trap/gpu/small/element_values.h"
#include "trap/gpu/small/small_kernel.h"

namespace phantora {
namespace {

using Type = ElementType;
using Value = ElementValue;

// What stands behind `after` in the name; empty if that is not there.
std::string_view Behind(std::string_view symbol, std::string_view after) {
  const size_t at = symbol.find(after);
  return at == symbol.npos ? std::string_view() : symbol.substr(at + after.size());
}

// The first parameter's type of a lambda's call operator: "EUllE_" has one long.
std::string_view LambdaArgument(std::string_view symbol, std::string_view of) {
  return Behind(Behind(symbol, of), "EUl");
}

Value Compare(int operation, Value a, Value b) {
  // OpType of CompareKernels.cu: GE, GT, LE, LT.
  const bool floating = a.floating || b.floating;
  const double x = a.AsNumber(), y = b.AsNumber();
  switch (operation) {
    case 0:
      return Value::Integer(floating ? x >= y : a.integer >= b.integer);
    case 1:
      return Value::Integer(floating ? x > y : a.integer > b.integer);
    case 2:
      return Value::Integer(floating ? x <= y : a.integer <= b.integer);
    default:
      return Value::Integer(floating ? x < y : a.integer < b.integer);
  }
}

// EqOpType of CompareEQKernel.cu: EQ, NE.
Value CompareEqual(int operation, Value a, Value b) {
  const bool floating = a.floating || b.floating;
  const bool equal = floating ? a.AsNumber() == b.AsNumber() : a.integer == b.integer;
  return Value::Integer(equal == (operation == 0));
}

// Integers wrap around, as on a GPU.
int64_t Wrapped(uint64_t value) { return static_cast<int64_t>(value); }
Value Add(Value a, Value b, Value factor) {
  if (a.floating) return Value::Number(a.number + factor.AsNumber() * b.AsNumber());
  return Value::Integer(
      Wrapped(static_cast<uint64_t>(a.integer) +
              static_cast<uint64_t>(factor.integer) * static_cast<uint64_t>(b.integer)));
}
Value Multiply(Value a, Value b) {
  if (a.floating) return Value::Number(a.number * b.AsNumber());
  return Value::Integer(
      Wrapped(static_cast<uint64_t>(a.integer) * static_cast<uint64_t>(b.integer)));
}

// The functor's own members.
struct Members {
  const LaunchShape& launch;
  uint64_t at;  // of the functor among the parameters

  int Operation() const { return launch.At<int32_t>(at); }
  // A scalar behind `offset` bytes of others, where its type is aligned.
  Value Scalar(Type type, uint64_t offset) const {
    const uint64_t bytes = BytesOf(type);
    const auto raw = launch.At<uint64_t>(at + (offset + bytes - 1) / bytes * bytes);
    uint8_t storage[8];
    std::memcpy(storage, &raw, sizeof raw);
    return LoadElement(type, storage);
  }
};

struct Functor {
  Type input = Type::kInt64, output = Type::kInt64;
  int inputs = 1;
  std::function<Value(const Members&, Value a, Value b)> result;
};

// Functors of two operands, of which one may be a scalar in the functor (AUnaryFunctor,
// BUnaryFunctor of Loops.cuh: the inner functor, then the scalar).
std::optional<Functor> FindBinary(std::string_view symbol) {
  struct Inner {
    const char* name;
    bool gives_bool;
    uint64_t bytes;  // of the inner functor; an empty class has one
    Value (*result)(int operation, Value a, Value b);
  };
  static constexpr Inner kInner[] = {
      {"14CompareFunctorI", true, 4, Compare},
      {"16CompareEqFunctorI", true, 4, CompareEqual},
      {"10MulFunctorI", false, 1, [](int, Value a, Value b) { return Multiply(a, b); }},
      {"17BitwiseAndFunctorI", false, 1,
       [](int, Value a, Value b) { return Value::Integer(a.integer & b.integer); }},
      {"16BitwiseOrFunctorI", false, 1,
       [](int, Value a, Value b) { return Value::Integer(a.integer | b.integer); }},
      {"17BitwiseXorFunctorI", false, 1,
       [](int, Value a, Value b) { return Value::Integer(a.integer ^ b.integer); }},
  };
  for (const Inner& inner : kInner) {
    const auto type = ParseMangledType(Behind(symbol, inner.name));
    if (!type) continue;
    Functor functor;
    functor.input = *type;
    functor.output = inner.gives_bool ? Type::kBool : *type;
    const auto result = inner.result;
    const uint64_t bytes = inner.bytes;
    if (Has(symbol, "13AUnaryFunctorI") || Has(symbol, "13BUnaryFunctorI")) {
      const bool first = Has(symbol, "13AUnaryFunctorI");
      functor.result = [=, scalar = *type](const Members& members, Value a, Value) {
        const Value b = members.Scalar(scalar, bytes);
        return result(members.Operation(), first ? b : a, first ? a : b);
      };
    } else {
      functor.inputs = 2;
      functor.result = [=](const Members& members, Value a, Value b) {
        return result(members.Operation(), a, b);
      };
    }
    return functor;
  }
  return std::nullopt;
}

std::optional<Functor> FindFunctor(std::string_view symbol) {
  if (auto binary = FindBinary(symbol)) return binary;
  Functor functor;
  const auto typed = [&](std::string_view name) {
    const auto type = ParseMangledType(name);
    if (type) functor.input = functor.output = *type;
    return type.has_value();
  };
  if (typed(Behind(symbol, "21compare_scalar_kernelI"))) {
    functor.output = Type::kBool;
    functor.result = [type = functor.input](const Members& members, Value a, Value) {
      return Compare(members.Operation(), a, members.Scalar(type, 4));
    };
    return functor;
  }
  if (typed(Behind(symbol, "15CUDAFunctor_addI"))) {
    functor.inputs = 2;
    functor.result = [type = functor.input](const Members& members, Value a, Value b) {
      return Add(a, b, members.Scalar(type, 0));
    };
    return functor;
  }
  if (typed(Behind(symbol, "21CUDAFunctorOnSelf_addI"))) {
    functor.result = [type = functor.input](const Members& members, Value a, Value) {
      return Add(a, members.Scalar(type, 0), members.Scalar(type, BytesOf(type)));
    };
    return functor;
  }
  if (typed(Behind(symbol, "22CUDAFunctorOnOther_addI"))) {
    functor.result = [type = functor.input](const Members& members, Value a, Value) {
      return Add(members.Scalar(type, 0), a, members.Scalar(type, BytesOf(type)));
    };
    return functor;
  }
  if (typed(LambdaArgument(symbol, "15neg_kernel_cuda"))) {
    functor.result = [](const Members&, Value a, Value) {
      return a.floating ? Value::Number(-a.number)
                        : Value::Integer(Wrapped(0 - static_cast<uint64_t>(a.integer)));
    };
    return functor;
  }
  if (typed(LambdaArgument(symbol, "23bitwise_not_kernel_cuda"))) {
    if (IsFloating(functor.input)) return std::nullopt;
    functor.result = [is_bool = functor.input == Type::kBool](const Members&, Value a, Value) {
      return Value::Integer(is_bool ? (a.integer == 0 ? 1 : 0) : ~a.integer);
    };
    return functor;
  }
  if (typed(LambdaArgument(symbol, "23logical_not_kernel_cuda"))) {
    functor.output = Type::kBool;
    functor.result = [](const Members&, Value a, Value) {
      return Value::Integer(a.AsNumber() == 0 ? 1 : 0);
    };
    return functor;
  }
  if (typed(LambdaArgument(symbol, "23direct_copy_kernel_cuda"))) {
    functor.result = [](const Members&, Value a, Value) { return a; };
    return functor;
  }
  return std::nullopt;
}

class Elementwise : public SmallKernel {
 public:
  // Converting: where LoadWithCast and StoreWithCast are, each a type per tensor
  // (MemoryAccess.cuh); 0 if nothing is converted.
  Elementwise(Functor functor, uint32_t functor_at, uint32_t data_at, uint32_t load_at,
              uint32_t store_at)
      : functor_(std::move(functor)),
        functor_at_(functor_at),
        data_at_(data_at),
        load_at_(load_at),
        store_at_(store_at) {}

  bool CarryOut(const LaunchShape& launch, AddressSpace& memory, TransferQueue&) const override {
    const auto count = launch.At<int32_t>(0);
    if (count < 1 || count > kMostSmallElements) return false;
    Type output = functor_.output;
    std::array<Type, 2> input = {functor_.input, functor_.input};
    if (store_at_ != 0) {
      const auto stored = FromScalarType(launch.At<uint8_t>(store_at_));
      if (!stored) return false;
      output = *stored;
      for (int i = 0; i < functor_.inputs; ++i) {
        const auto loaded = FromScalarType(launch.At<uint8_t>(load_at_ + static_cast<uint32_t>(i)));
        if (!loaded) return false;
        input[static_cast<size_t>(i)] = *loaded;
      }
    }
    const auto elements = static_cast<uint64_t>(count);
    std::array<std::vector<uint8_t>, 2> operands;
    for (int i = 0; i < functor_.inputs; ++i) {
      auto& bytes = operands[static_cast<size_t>(i)];
      bytes.resize(elements * BytesOf(input[static_cast<size_t>(i)]));
      const auto from = launch.At<uint64_t>(data_at_ + 8 * (1 + static_cast<uint32_t>(i)));
      if (memory.Read(from, bytes.data(), bytes.size())) return false;
    }
    const Members members = {launch, functor_at_};
    std::vector<uint8_t> results(elements * BytesOf(output));
    for (uint64_t i = 0; i < elements; ++i) {
      const Value a =
          RoundTo(functor_.input, LoadElement(input[0], &operands[0][i * BytesOf(input[0])]));
      const Value b =
          functor_.inputs < 2
              ? Value()
              : RoundTo(functor_.input, LoadElement(input[1], &operands[1][i * BytesOf(input[1])]));
      const Value result = RoundTo(functor_.output, functor_.result(members, a, b));
      StoreElement(output, result, &results[i * BytesOf(output)]);
    }
    return !memory.Write(launch.At<uint64_t>(data_at_), results.data(), results.size());
  }

 private:
  const Functor functor_;
  const uint32_t functor_at_, data_at_, load_at_, store_at_;
};

// Any type that a fill's pattern can hold: the value is the functor.
class Fill : public SmallKernel {
 public:
  Fill(uint32_t value_at, uint32_t bytes, uint32_t data_at)
      : value_at_(value_at), bytes_(bytes), data_at_(data_at) {}

  bool CarryOut(const LaunchShape& launch, AddressSpace& memory,
                TransferQueue& transfers) const override {
    const auto count = launch.At<int32_t>(0);
    const uint64_t bytes = static_cast<uint64_t>(std::max(count, 0)) * bytes_;
    if (count < 1 || bytes > kMostSmallBytes) return false;
    const auto to = launch.At<uint64_t>(data_at_);
    uint8_t probe;
    if (memory.Read(to, &probe, 1) || memory.Read(to + bytes - 1, &probe, 1)) return false;
    std::vector<uint8_t> pattern(bytes_);
    for (uint32_t i = 0; i < bytes_; ++i) pattern[i] = launch.At<uint8_t>(value_at_ + i);
    transfers.Add({.destination = to, .line_bytes = bytes, .pattern = std::move(pattern)});
    return true;
  }

 private:
  const uint32_t value_at_, bytes_, data_at_;
};

}  // namespace

std::shared_ptr<const SmallKernel> FindSmallElementwise(std::string_view symbol,
                                                        KernelParameters parameters) {
  const bool vectorized = Has(symbol, "29vectorized_elementwise_kernelILi");
  if (!vectorized && !Has(symbol, "27unrolled_elementwise_kernelI")) return nullptr;
  if (parameters.size() < 3 || parameters[0].size != 4) return nullptr;
  const auto &functor_at = parameters[1], &data = parameters[2];
  if (Has(symbol, "11FillFunctorI")) {
    const uint32_t bytes = functor_at.size;
    const bool dense = data.size == 8 && bytes >= 1 && bytes <= 16 && (bytes & (bytes - 1)) == 0;
    if (!dense) return nullptr;
    return std::make_shared<Fill>(functor_at.offset, bytes, data.offset);
  }
  auto functor = FindFunctor(symbol);
  if (!functor || data.size != 8u * (1u + static_cast<uint32_t>(functor->inputs))) return nullptr;
  uint32_t load_at = 0, store_at = 0;
  if (Has(symbol, "LoadWithCastI")) {
    if (parameters.size() != 7) return nullptr;
    load_at = parameters[5].offset;
    store_at = parameters[6].offset;
  }
  return std::make_shared<Elementwise>(*std::move(functor), functor_at.offset, data.offset, load_at,
                                       store_at);
}

std::shared_ptr<const SmallKernel> FindSmallKernel(std::string_view symbol,
                                                   KernelParameters parameters) {
  for (const auto find : {FindSmallElementwise, FindSmallReduction, FindSmallConcatenation}) {
    if (auto found = find(symbol, parameters)) return found;
  }
  return nullptr;
}

}  // namespace phantora
