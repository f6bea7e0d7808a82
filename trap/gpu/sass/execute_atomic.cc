// Read, change, write. Threads are executed one after the other, so nothing comes between.
#include "trap/gpu/sass/float_math.h"
#include "trap/gpu/sass/memory_access.h"
#include "trap/gpu/sass/operations.h"

namespace phantora::sass {
namespace {

enum class Number : uint8_t { kU32, kS32, kU64, kS64, kF32, kF16x2, kBF16x2, kF64, kUnknown };
enum Operation { kAdd, kMin, kMax, kInc, kDec, kAnd, kOr, kXor, kExchange };

int BytesOf(Number number) {
  return number == Number::kU64 || number == Number::kS64 || number == Number::kF64 ? 8 : 4;
}

// The type at 73: before sm_90 one table, then one for integers and one for floats.
Number NumberOf(const Warp& warp, const Instruction& i) {
  if (warp.launch->architecture < 90) {
    static constexpr Number kNumbers[] = {Number::kU32, Number::kS32,    Number::kU64,
                                          Number::kF32, Number::kF16x2,  Number::kS64,
                                          Number::kF64, Number::kUnknown};
    return kNumbers[i.Bits(73, 3)];
  }
  const int operation = i.word.operation();
  if (operation == 0x1a2 || operation == 0x1a3 || operation == 0x1a6) {
    switch (i.Bits(73, 4)) {
      case 0:
        return Number::kF16x2;
      case 3:
        return Number::kBF16x2;
      case 9:
      case 12:
        return Number::kF32;
      case 15:
        return Number::kF64;
      default:
        return Number::kUnknown;
    }
  }
  static constexpr Number kIntegers[] = {Number::kU32, Number::kS32, Number::kU64, Number::kS64};
  return i.Bits(73, 4) < 4 ? kIntegers[i.Bits(73, 4)] : Number::kUnknown;
}

template <typename T>
T Changed(int operation, T old, T value) {
  switch (operation) {
    case kAdd:
      return static_cast<T>(static_cast<std::make_unsigned_t<T>>(old) +
                            static_cast<std::make_unsigned_t<T>>(value));
    case kMin:
      return old < value ? old : value;
    case kMax:
      return old > value ? old : value;
    case kInc:
      return old >= value ? 0 : old + 1;
    case kDec:
      return old == 0 || old > value ? value : old - 1;
    case kAnd:
      return old & value;
    case kOr:
      return old | value;
    case kXor:
      return old ^ value;
    default:
      return value;
  }
}

uint32_t AddHalfPair(uint32_t old, uint32_t value, bool bfloat) {
  uint32_t result = 0;
  for (const int at : {0, 16}) {
    const uint32_t a = old >> at & 0xffff, b = value >> at & 0xffff;
    const uint32_t sum = bfloat ? FloatToBfloat(BfloatToFloat(a) + BfloatToFloat(b))
                                : FloatToHalf(HalfToFloat(a) + HalfToFloat(b));
    result |= sum << at;
  }
  return result;
}

// nullopt-like: `known` false if nobody says what this is.
uint64_t Change(Number number, int operation, uint64_t old, uint64_t value, bool flush,
                bool& known) {
  known = true;
  switch (number) {
    case Number::kU32:
      return Changed(operation, static_cast<uint32_t>(old), static_cast<uint32_t>(value));
    case Number::kS32:
      return static_cast<uint32_t>(
          Changed(operation, static_cast<int32_t>(old), static_cast<int32_t>(value)));
    case Number::kU64:
      return Changed(operation, old, value);
    case Number::kS64:
      return static_cast<uint64_t>(
          Changed(operation, static_cast<int64_t>(old), static_cast<int64_t>(value)));
    default:
      break;
  }
  if (operation == kExchange) return value;
  known = operation == kAdd;
  switch (number) {
    case Number::kF32: {
      const float a = AsFloat(static_cast<uint32_t>(old)),
                  b = AsFloat(static_cast<uint32_t>(value));
      return Canonical(flush ? Flushed(Flushed(a) + Flushed(b)) : a + b);
    }
    case Number::kF64:
      return AsBits(AsDouble(old) + AsDouble(value));
    case Number::kF16x2:
    case Number::kBF16x2:
      return AddHalfPair(static_cast<uint32_t>(old), static_cast<uint32_t>(value),
                         number == Number::kBF16x2);
    default:
      known = false;
      return 0;
  }
}

uint64_t RegisterValue(const Warp& warp, int index, int lane, int bytes) {
  const uint64_t low = warp.registers[index][lane];
  return bytes == 8 ? low | uint64_t{warp.registers[index + 1][lane]} << 32 : low;
}
void SetRegister(Warp& warp, int index, int lane, int bytes, uint64_t value) {
  warp.registers[index][lane] = static_cast<uint32_t>(value);
  if (bytes == 8) warp.registers[index + 1][lane] = static_cast<uint32_t>(value >> 32);
}

// `change` of what is at each lane's address, and what was there into the destination.
template <typename At, typename Change>
void ForLanes(Warp& warp, const Instruction& i, int bytes, bool returns, At&& at, Change&& change) {
  for (uint32_t left = warp.active; left != 0; left &= left - 1) {
    const int lane = First(left);
    uint8_t* const place = at(lane, bytes);
    if (place == nullptr) return;
    uint64_t old = 0;
    std::memcpy(&old, place, static_cast<size_t>(bytes));
    bool known = true;
    const uint64_t result = change(lane, old, known);
    if (!known) {
      warp.Fail(Stop::Reason::kRefused, 0, "an atomic operation of this type");
      return;
    }
    std::memcpy(place, &result, static_cast<size_t>(bytes));
    if (returns) SetRegister(warp, i.destination, lane, bytes, old);
  }
}

template <typename At>
void Atomic(Warp& warp, const Instruction& i, bool returns, int operation, At&& at) {
  const Number number = NumberOf(warp, i);
  const int bytes = BytesOf(number);
  const bool flush = warp.launch->architecture < 90 || i.Bits(73, 4) == 9;
  ForLanes(warp, i, bytes, returns, at, [&](int lane, uint64_t old, bool& known) {
    return Change(number, operation, old, RegisterValue(warp, i.b.index, lane, bytes), flush,
                  known);
  });
  // Some tell whether they could reach the address; programs do it in another way if not.
  if (returns) SetPredicate(warp, static_cast<int>(i.Bits(81, 3)), ~0u);
}

template <typename At>
void Swap(Warp& warp, const Instruction& i, At&& at) {
  const int bytes = i.Bits(73, 3) == 2 ? 8 : 4;
  ForLanes(warp, i, bytes, true, at, [&](int lane, uint64_t old, bool&) {
    const uint64_t expected = RegisterValue(warp, i.b.index, lane, bytes);
    return old == expected ? RegisterValue(warp, i.c.index, lane, bytes) : old;
  });
  SetPredicate(warp, static_cast<int>(i.Bits(81, 3)), ~0u);
}

struct Global {
  Warp& warp;
  alignas(64) uint64_t addresses[kLanes];
  Global(Warp& the_warp, const Instruction& i) : warp(the_warp) {
    GlobalAddresses(warp, i, addresses);
  }
  uint8_t* operator()(int lane, int bytes) {
    warp.MeetOrder();
    // What is there matters, and may be tainted.
    if (GlobalAt<false>(warp, addresses[lane], bytes, 1, lane) == nullptr) return nullptr;
    return GlobalAt<true>(warp, addresses[lane], bytes, 1, lane);
  }
};
struct Generic : Global {
  using Global::Global;
  uint8_t* operator()(int lane, int bytes) {
    if (IsGlobal(warp, addresses[lane])) return Global::operator()(lane, bytes);
    return GenericAt<true>(warp, lane, addresses[lane], bytes);
  }
};

}  // namespace

void AtomicGlobal(Warp& warp, const Instruction& i) {
  Atomic(warp, i, true, static_cast<int>(i.Bits(87, 4)), Global(warp, i));
}
void AtomicGeneric(Warp& warp, const Instruction& i) {
  Atomic(warp, i, true, static_cast<int>(i.Bits(87, 4)), Generic(warp, i));
}
void ReduceGlobal(Warp& warp, const Instruction& i) {
  Atomic(warp, i, false, static_cast<int>(i.Bits(87, 3)), Global(warp, i));
}
void SwapGlobal(Warp& warp, const Instruction& i) { Swap(warp, i, Global(warp, i)); }
void SwapGeneric(Warp& warp, const Instruction& i) { Swap(warp, i, Generic(warp, i)); }

void AtomicShared(Warp& warp, const Instruction& i) {
  alignas(64) uint32_t addresses[kLanes];
  SharedAddresses(warp, i, true, i.c, addresses);
  static constexpr Number kNumbers[] = {Number::kU32, Number::kS32, Number::kU64};
  const Number number = kNumbers[i.Bits(73, 3)];
  const int bytes = BytesOf(number);
  ForLanes(
      warp, i, bytes, true,
      [&](int lane, int size) { return SharedAt(warp, addresses[lane], size); },
      [&](int lane, uint64_t old, bool& known) {
        return Change(number, static_cast<int>(i.Bits(87, 4)), old,
                      RegisterValue(warp, i.b.index, lane, bytes), false, known);
      });
}

// Each thread adds one.
void CountShared(Warp& warp, const Instruction& i) {
  alignas(64) uint32_t addresses[kLanes];
  SharedAddresses(warp, i, true, i.c, addresses);
  ForLanes(
      warp, i, 4, true, [&](int lane, int size) { return SharedAt(warp, addresses[lane], size); },
      [&](int, uint64_t old, bool&) { return static_cast<uint32_t>(old + 1); });
}

// Compare and swap in shared memory. CAST says whether it has been done, 1 or 0, and not what was
// there: compilers compare its result with 1 and try again.
void SwapShared(Warp& warp, const Instruction& i) {
  alignas(64) uint32_t addresses[kLanes];
  SharedAddresses(warp, i, false, Source(), addresses);
  const int bytes = i.Bits(73, 3) == 2 ? 8 : 4;
  const bool tells = i.Bits(87, 2) == 3;
  for (uint32_t left = warp.active; left != 0; left &= left - 1) {
    const int lane = First(left);
    uint8_t* const place = SharedAt(warp, addresses[lane], bytes);
    if (place == nullptr) return;
    uint64_t old = 0;
    std::memcpy(&old, place, static_cast<size_t>(bytes));
    const bool equal = old == RegisterValue(warp, i.b.index, lane, bytes);
    if (equal) {
      const uint64_t value = RegisterValue(warp, i.c.index, lane, bytes);
      std::memcpy(place, &value, static_cast<size_t>(bytes));
    }
    SetRegister(warp, i.destination, lane, bytes, tells ? (equal ? 1 : 0) : old);
  }
}

}  // namespace phantora::sass
