// Instructions as text.
#ifndef PHANTORA_TRAP_GPU_SASS_PRINTER_H_
#define PHANTORA_TRAP_GPU_SASS_PRINTER_H_

#include <string>
#include <vector>

#include "trap/gpu/sass/decoder.h"

namespace phantora::sass {

// As nvdisasm has it, but for immediates: "#" and a letter for what it is (i, f, d, h) and its
// bits, and for what goes without saying: reuse flags and the base of branches. For tests and
// messages.
struct Text {
  std::string guard;  // "@!P0"; empty if there is none
  std::string name;   // with modifiers
  std::vector<std::string> operands;
  std::string Joined() const;
};
Text Print(const Decoded& decoded, Architecture architecture);

}  // namespace phantora::sass

#endif  // PHANTORA_TRAP_GPU_SASS_PRINTER_H_
