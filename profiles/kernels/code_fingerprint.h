// Recognises machine code in GPU memory as the code of an image on disk.
//
// The driver's loader changes code in two ways: it patches relocated
// instructions, and it rewrites scheduling bits around MEMBAR. So bits 105 to
// 127 of an instruction never count, relocated instructions count by their
// opcode only, and neither do the operands of CALL.ABS.
#ifndef PHANTORA_PROFILES_KERNELS_CODE_FINGERPRINT_H_
#define PHANTORA_PROFILES_KERNELS_CODE_FINGERPRINT_H_

#include <cstdint>

#include "absl/types/span.h"

namespace phantora {

inline constexpr uint64_t kInstructionBytes = 16;
inline constexpr uint64_t kPrefixBytes = 128;

// A key over all of `code` that needs no knowledge of relocations.
uint64_t WindowFingerprint(absl::Span<const uint8_t> code);

// The same over its first 128 bytes; `code` has at least that many.
uint64_t PrefixFingerprint(absl::Span<const uint8_t> code);

// Over all of `code`. `relocated` are ascending instruction numbers.
uint64_t FullFingerprint(absl::Span<const uint8_t> code, absl::Span<const uint32_t> relocated);

}  // namespace phantora

#endif  // PHANTORA_PROFILES_KERNELS_CODE_FINGERPRINT_H_
