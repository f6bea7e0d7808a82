// A parameter block of an escape, as the structure that its row says it is.
#ifndef PHANTORA_TRAP_RM_ESCAPE_BLOCK_H_
#define PHANTORA_TRAP_RM_ESCAPE_BLOCK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "trap/abi/generated/nv_status.h"

namespace phantora {

// The row's size is that of T, or the handler has compared them.
template <typename T>
T& As(std::vector<uint8_t>& block) {
  return *reinterpret_cast<T*>(block.data());
}

// For the log of calls.
inline std::string StatusText(uint32_t status) {
  const char* name = abi::NvStatusName(status);
  return name != nullptr ? name : absl::StrFormat("0x%x", status);
}

}  // namespace phantora

#endif  // PHANTORA_TRAP_RM_ESCAPE_BLOCK_H_
