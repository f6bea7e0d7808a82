#include "trap/rm/tracee_memory.h"

#include <algorithm>

namespace phantora {

bool TraceeMemory::Zero(uint64_t offset, uint64_t length) {
  static constexpr uint8_t kZeros[64 << 10] = {};
  while (length > 0) {
    const uint64_t piece = std::min<uint64_t>(length, sizeof kZeros);
    if (!Write(offset, kZeros, piece)) return false;
    offset += piece, length -= piece;
  }
  return true;
}

}  // namespace phantora
