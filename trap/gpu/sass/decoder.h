// From machine words to instructions.
#ifndef PHANTORA_TRAP_GPU_SASS_DECODER_H_
#define PHANTORA_TRAP_GPU_SASS_DECODER_H_

#include <cstdint>

#include "trap/gpu/sass/encoding.h"

namespace phantora::sass {

struct Decoded {
  // nullptr: the word is not understood, for `why`.
  const Encoding* encoding = nullptr;
  Instruction instruction;
  const char* why = "";
  // Bits that nothing accounts for, of the row that came nearest.
  Word unknown;
};

// The word that is instruction `index` of a program. Its bytes are untrusted.
Decoded Decode(const Word& word, Architecture architecture, uint32_t index);

// Of words with such an operand: an address, or what is added to one.
uint64_t AbsoluteTarget(const Word& word, Architecture architecture);

}  // namespace phantora::sass

#endif  // PHANTORA_TRAP_GPU_SASS_DECODER_H_
