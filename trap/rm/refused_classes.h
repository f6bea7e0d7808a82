// Classes that the driver knows and refuses to a client that is nobody special, on a server with
// A100 or H100 without displays, virtual GPUs, MIG and a fabric manager.
#ifndef PHANTORA_TRAP_RM_REFUSED_CLASSES_H_
#define PHANTORA_TRAP_RM_REFUSED_CLASSES_H_

#include <cstdint>

namespace phantora {

struct RefusedClass {
  uint32_t class_id;
  uint32_t status;  // NV_STATUS
  const char* why;
};

// nullptr: it is not refused, or nobody knows it.
const RefusedClass* FindRefusedClass(uint32_t class_id);

}  // namespace phantora

#endif  // PHANTORA_TRAP_RM_REFUSED_CLASSES_H_
