// Controls that the driver always answers alike on a machine like the emulated one: a server
// without displays, bridges, virtual GPUs, MIG, confidential computing and fabric manager, and a
// client that is nobody special.
#ifndef PHANTORA_TRAP_RM_FIXED_ANSWERS_H_
#define PHANTORA_TRAP_RM_FIXED_ANSWERS_H_

#include <cstdint>

namespace phantora {

struct FixedAnswer {
  enum class Kind : uint8_t {
    kRefuses,  // with the status
    kAccepts,  // and writes nothing
    kZeros,    // says zero of everything
  };

  uint32_t command;
  Kind kind;
  uint32_t status;
  const char* why;
};

// nullptr: none is fixed.
const FixedAnswer* FindFixedAnswer(uint32_t command);

}  // namespace phantora

#endif  // PHANTORA_TRAP_RM_FIXED_ANSWERS_H_
