// Small programs for tests, in machine code of sm_80 that NVRTC makes.
#ifndef PHANTORA_TRAP_GPU_SASS_PROGRAMS_FOR_TEST_H_
#define PHANTORA_TRAP_GPU_SASS_PROGRAMS_FOR_TEST_H_

#include <cstdint>
#include <cstring>
#include <vector>

#include "trap/gpu/sass/instruction.h"

namespace phantora::sass {

inline std::vector<uint8_t> CodeOf(const std::vector<Word>& words) {
  std::vector<uint8_t> code(words.size() * kWordBytes);
  for (size_t i = 0; i < words.size(); ++i) {
    std::memcpy(&code[i * kWordBytes], &words[i].low, 8);
    std::memcpy(&code[i * kWordBytes + 8], &words[i].high, 8);
  }
  return code;
}

inline bool NeverInterrupted() { return false; }

// Instructions; `guard` is P0 to P6, 7 for none, plus 8 for "not".
inline Word Guarded(Word word, int guard) {
  word.low = (word.low & ~uint64_t{0xf000}) | static_cast<uint64_t>(guard) << 12;
  return word;
}
inline Word Exit() { return {0x000000000000794d, 0x03800000}; }
// MOV R<d>, immediate
inline Word MoveImmediate(int d, uint32_t value) {
  return {0x7802 | static_cast<uint64_t>(d) << 16 | static_cast<uint64_t>(value) << 32, 0x0f00};
}
// MOV R<d>, c[0][offset]
inline Word MoveConstant(int d, uint32_t offset) {
  return {0x7a02 | static_cast<uint64_t>(d) << 16 | static_cast<uint64_t>(offset) << 38, 0x0f00};
}
// S2R R<d>, special register
inline Word ReadSpecialRegister(int d, int number) {
  return {0x7919 | static_cast<uint64_t>(d) << 16, static_cast<uint64_t>(number) << 8};
}
// IMAD R<d>, R<a>, immediate, R<c>
inline Word MultiplyAddImmediate(int d, int a, uint32_t value, int c) {
  return {0x7824 | static_cast<uint64_t>(d) << 16 | static_cast<uint64_t>(a) << 24 |
              static_cast<uint64_t>(value) << 32,
          0x078e0200 | static_cast<uint64_t>(c)};
}
// IMAD.WIDE.U32 R<d>, R<a>, immediate, R<c>
inline Word MultiplyAddWideImmediate(int d, int a, uint32_t value, int c) {
  return {0x7825 | static_cast<uint64_t>(d) << 16 | static_cast<uint64_t>(a) << 24 |
              static_cast<uint64_t>(value) << 32,
          0x078e0000 | static_cast<uint64_t>(c)};
}
// ISETP.<compare>.U32.AND P<p>, PT, R<a>, immediate, PT
inline Word CompareImmediate(int p, int comparison, int a, uint32_t value) {
  return {0x780c | static_cast<uint64_t>(a) << 24 | static_cast<uint64_t>(value) << 32,
          0x03f00070 | static_cast<uint64_t>(comparison) << 12 | static_cast<uint64_t>(p) << 17};
}
// STG.E [R<a>.64], R<b>; LDG.E R<d>, [R<a>.64]
inline Word StoreWord(int a, int b) {
  return {0x7986 | static_cast<uint64_t>(a) << 24 | static_cast<uint64_t>(b) << 32, 0x0c101904};
}
inline Word LoadWord(int d, int a) {
  return {0x0000000400007981 | static_cast<uint64_t>(d) << 16 | static_cast<uint64_t>(a) << 24,
          0x0c1e1900};
}
// BRA by instructions from the next one.
inline Word BranchBy(int instructions) {
  const int64_t words = int64_t{instructions} * 4;
  return {0x7947 | static_cast<uint64_t>(words) << 34,
          0x03800000 | (static_cast<uint64_t>(words) >> 30 & 0x3ffff)};
}
inline Word SetConvergence(int barrier, int instructions) {
  return {0x7945 | static_cast<uint64_t>(barrier) << 16 |
              (static_cast<uint64_t>(instructions) * 4 & 0x3fffffff) << 34,
          0x03800000};
}
inline Word Converge(int barrier) {
  return {0x7941 | static_cast<uint64_t>(barrier) << 16, 0x03800000};
}
// JMP, CALL.ABS.NOINC; RET.ABS.NODEC R<a>
inline Word JumpTo(uint64_t address) {
  return {0x794a | address / 4 << 34, 0x03800000 | address / 4 >> 30};
}
inline Word CallAt(uint64_t address) {
  return {0x7943 | address / 4 << 34, 0x03c00000 | address / 4 >> 30};
}
inline Word ReturnTo(int a) { return {0x7950 | static_cast<uint64_t>(a) << 24, 0x03e00000}; }
// VOTE.ANY R<d>, PT, PT: who is together here
inline Word WhoIsHere(int d) { return {0x7806 | static_cast<uint64_t>(d) << 16, 0x038e0100}; }

}  // namespace phantora::sass

#endif  // PHANTORA_TRAP_GPU_SASS_PROGRAMS_FOR_TEST_H_
