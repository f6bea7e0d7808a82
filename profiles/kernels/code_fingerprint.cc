#include "profiles/kernels/code_fingerprint.h"

#include <cstring>

namespace phantora {
namespace {

constexpr uint32_t kOpcodeMask = 0xfff;
// CALL.ABS: relocation type 75 patches it from bit 16 on.
constexpr uint32_t kCallMask = 0x1ff, kCall = 0x143;

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash ^= value;
  hash *= 0x9e3779b97f4a7c15;  // 2^64 / golden ratio
  return hash ^ hash >> 29;
}

template <typename T>
T Load(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

}  // namespace

uint64_t PrefixFingerprint(absl::Span<const uint8_t> code) {
  return WindowFingerprint(code.subspan(0, kPrefixBytes));
}

uint64_t WindowFingerprint(absl::Span<const uint8_t> code) {
  uint64_t hash = code.size();
  for (uint64_t at = 0; at + kInstructionBytes <= code.size(); at += kInstructionBytes) {
    const uint32_t low = Load<uint32_t>(code.data() + at);
    if ((low & kCallMask) == kCall) {
      hash = Mix(hash, low & kOpcodeMask);
    } else {
      // Bits 0..31 and 96..104: none of them is ever relocated elsewhere.
      const uint64_t high = Load<uint32_t>(code.data() + at + 12) & 0x1ff;
      hash = Mix(hash, low | high << 32);
    }
  }
  return hash;
}

uint64_t FullFingerprint(absl::Span<const uint8_t> code, absl::Span<const uint32_t> relocated) {
  uint64_t hash = code.size();
  auto next = relocated.begin();
  for (uint64_t at = 0; at + kInstructionBytes <= code.size(); at += kInstructionBytes) {
    if (next != relocated.end() && *next == at / kInstructionBytes) {
      ++next;
      hash = Mix(hash, Load<uint16_t>(code.data() + at) & kOpcodeMask);
      continue;
    }
    hash = Mix(hash, Load<uint64_t>(code.data() + at));
    hash = Mix(hash, Load<uint64_t>(code.data() + at + 8) & 0x1ffffffffff);
  }
  return hash;
}

}  // namespace phantora
