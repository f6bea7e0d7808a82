// From machine words to instructions, and to text.
#ifndef PHANTORA_TRAP_GPU_SASS_DECODER_H_
#define PHANTORA_TRAP_GPU_SASS_DECODER_H_

#include <cstdint>
#include <string>
#include <vector>

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

// As nvdisasm has it, but for immediates: "#" and a letter for what it is (i, f, d, h) and its bits, and
// for what goes without saying: reuse flags and the base of branches. For tests and messages.
struct Text {
  std::string guard;  // "@!P0"; empty if there is none
  std::string name;   // with modifiers
  std::vector<std::string> operands;
  std::string Joined() const;
};
Text Print(const Decoded& decoded, Architecture architecture);

}  // namespace phantora::sass

#endif  // PHANTORA_TRAP_GPU_SASS_DECODER_H_
