// Bytes, bits and predicates of integers.
#include "trap/gpu/sass/integer_math.h"
#include "trap/gpu/sass/lanes.h"
#include "trap/gpu/sass/operations.h"

namespace phantora::sass {
namespace {

constexpr Meaning kI = Meaning::kInteger;

}  // namespace

void PermuteBytes(Warp& warp, const Instruction& i) {
  const int mode = static_cast<int>(i.Bits(72, 3));
  const uint32_t* const a = warp.registers[i.a.index];
  With<kI>(warp, i.b, [&](auto b) {
    With<kI>(warp, i.c, [&](auto c) {
      Store(warp, i.destination,
            [&](int lane) { return Permute(mode, a[lane], b[lane], c[lane]); });
    });
  });
}

void SignExtend(Warp& warp, const Instruction& i) {
  const uint32_t* const a = warp.registers[i.a.index];
  With<kI>(warp, i.b, [&](auto b) {
    Store(warp, i.destination,
          [&](int lane) { return Extended(a[lane], b[lane], i.Bit(73), i.Bit(75)); });
  });
}

void BitMask(Warp& warp, const Instruction& i) {
  const uint32_t* const a = warp.registers[i.a.index];
  With<kI>(warp, i.b, [&](auto b) {
    Store(warp, i.destination, [&](int lane) { return MaskOfBits(a[lane], b[lane], i.Bit(75)); });
  });
}

void DotProduct4(Warp& warp, const Instruction& i) {
  const auto byte = [](uint32_t word, int at, bool is_signed) {
    const uint32_t value = word >> (8 * at) & 0xff;
    return is_signed ? static_cast<uint32_t>(static_cast<int32_t>(static_cast<int8_t>(value)))
                     : value;
  };
  const uint32_t* const a = warp.registers[i.a.index];
  With<kI>(warp, i.b, [&](auto b) {
    With<kI>(warp, i.c, [&](auto c) {
      Store(warp, i.destination, [&](int lane) {
        uint32_t sum = c[lane];
        for (int at = 0; at < 4; ++at) {
          sum += byte(a[lane], at, i.Bit(73)) * byte(b[lane], at, i.Bit(74));
        }
        return sum;
      });
    });
  });
}

void DotProduct2(Warp& warp, const Instruction& i) {
  const int first = i.Bit(77) ? 2 : 0;
  const uint32_t* const a = warp.registers[i.a.index];
  const auto half = [&](uint32_t word, int at) {
    const auto value = static_cast<uint16_t>(word >> (16 * at));
    return i.Bit(73) ? static_cast<uint32_t>(int32_t{static_cast<int16_t>(value)}) : value;
  };
  const auto byte = [&](uint32_t word, int at) {
    const auto value = static_cast<uint8_t>(word >> (8 * at));
    return i.Bit(74) ? static_cast<uint32_t>(int32_t{static_cast<int8_t>(value)}) : value;
  };
  With<kI>(warp, i.b, [&](auto b) {
    With<kI>(warp, i.c, [&](auto c) {
      Store(warp, i.destination, [&](int lane) {
        return c[lane] + half(a[lane], 0) * byte(b[lane], first) +
               half(a[lane], 1) * byte(b[lane], first + 1);
      });
    });
  });
}

void AbsoluteDifference(Warp& warp, const Instruction& i) {
  const bool is_signed = i.Bit(73);
  const uint32_t* const a = warp.registers[i.a.index];
  With<kI>(warp, i.b, [&](auto b) {
    With<kI>(warp, i.c, [&](auto c) {
      Store(warp, i.destination, [&](int lane) {
        const bool less = MinMax(is_signed, true, a[lane], b[lane]) == a[lane];
        return (less ? b[lane] - a[lane] : a[lane] - b[lane]) + c[lane];
      });
    });
  });
}

// Of four bytes each, or their sum.
void AbsoluteDifference4(Warp& warp, const Instruction& i) {
  const uint32_t* const a = warp.registers[i.a.index];
  With<kI>(warp, i.b, [&](auto b) {
    With<kI>(warp, i.c, [&](auto c) {
      Store(warp, i.destination, [&](int lane) {
        uint32_t sum = c[lane], bytes = 0;
        for (int at = 0; at < 32; at += 8) {
          const int x = a[lane] >> at & 0xff, y = b[lane] >> at & 0xff;
          const auto difference = static_cast<uint32_t>(x < y ? y - x : x - y);
          sum += difference;
          bytes |= difference << at;
        }
        return i.Bit(75) ? sum : bytes;
      });
    });
  });
}

// Two numbers in fewer bits, within their bounds; of bytes, before what is in the third source.
void PackSaturated(Warp& warp, const Instruction& i) {
  static constexpr int32_t kLeast[] = {0, -128, 0, -32768}, kMost[] = {255, 127, 65535, 32767};
  const uint32_t type = i.Bits(76, 2);
  const int bits = type < 2 ? 8 : 16;
  const uint32_t mask = (uint32_t{1} << bits) - 1;
  const auto within = [&](uint32_t value) {
    const auto number = static_cast<int32_t>(value);
    return static_cast<uint32_t>(std::clamp(number, kLeast[type], kMost[type])) & mask;
  };
  const uint32_t* const a = warp.registers[i.a.index];
  With<kI>(warp, i.b, [&](auto b) {
    With<kI>(warp, i.c, [&](auto c) {
      Store(warp, i.destination, [&](int lane) {
        const uint32_t above = bits == 8 ? c[lane] << 16 : 0;
        return above | within(a[lane]) << bits | within(b[lane]);
      });
    });
  });
}

void FindLeadingOne(Warp& warp, const Instruction& i) {
  alignas(64) uint32_t result[kLanes];
  With<Meaning::kBits>(warp, i.b, [&](auto b) {
    for (int lane = 0; lane < kLanes; ++lane) {
      result[lane] = LeadingOne(b[lane], i.Bit(73), i.Bit(74));
    }
  });
  Store(warp, i.destination, [&](int lane) { return result[lane]; });
  SetPredicate(warp, static_cast<int>(i.Bits(81, 3)),
               MaskOf([&](int lane) { return result[lane] != ~0u; }));
}

void ReverseBits(Warp& warp, const Instruction& i) {
  With<kI>(warp, i.b, [&](auto b) {
    Store(warp, i.destination, [&](int lane) { return Reversed(b[lane]); });
  });
}

void CountBits(Warp& warp, const Instruction& i) {
  With<Meaning::kBits>(warp, i.b, [&](auto b) {
    Store(warp, i.destination,
          [&](int lane) { return static_cast<uint32_t>(std::popcount(b[lane])); });
  });
}

void PredicatesToRegister(Warp& warp, const Instruction& i) {
  const uint32_t* const a = warp.registers[i.a.index];
  const int shift = 8 * static_cast<int>(i.Bits(76, 2));
  const uint32_t wanted = i.Bits(32, 32) << shift;
  Store(warp, i.destination, [&](int lane) {
    uint32_t bits = 0;
    for (int at = 0; at < kTrue; ++at) bits |= (warp.predicates[at] >> lane & 1) << at;
    return (a[lane] & ~wanted) | (bits << shift & wanted);
  });
}

void RegisterToPredicates(Warp& warp, const Instruction& i) {
  const uint32_t* const a = warp.registers[i.a.index];
  const int shift = 8 * static_cast<int>(i.Bits(76, 2));
  const uint32_t wanted = i.Bits(32, 32);
  for (int at = 0; at < kTrue; ++at) {
    if (!Has(wanted, at)) continue;
    SetPredicate(warp, at, MaskOf([&](int lane) { return Has(a[lane], at + shift); }));
  }
}

void LogicPredicates(Warp& warp, const Instruction& i) {
  const uint32_t a = PredicateAt(warp, i, 87, 90), b = PredicateAt(warp, i, 77, 80);
  const uint32_t c =
      i.Bit(67) ? (UniformPredicateAt(warp, i, 68, 71) ? ~0u : 0) : PredicateAt(warp, i, 68, 71);
  const int first = static_cast<int>(i.Bits(64, 3) | i.Bits(72, 5) << 3);
  const uint32_t results[2] = {Lookup3(a, b, c, first),
                               Lookup3(a, b, c, static_cast<int>(i.Bits(16, 8)))};
  SetPredicate(warp, static_cast<int>(i.Bits(81, 3)), results[0]);
  SetPredicate(warp, static_cast<int>(i.Bits(84, 3)), results[1]);
}

}  // namespace phantora::sass
