// What tests ask of memory that the supervisor owns.
#ifndef PHANTORA_UVM_MODEL_MEMORY_FOR_TEST_H_
#define PHANTORA_UVM_MODEL_MEMORY_FOR_TEST_H_

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>

#include "uvm_model/memory_object.h"

namespace phantora {

// Bytes of host memory behind the object's file, as the kernel counts them.
inline uint64_t ResidentBytes(OwnedMemory& memory) {
  struct stat status = {};
  EXPECT_EQ(fstat(memory.MappableFd(), &status), 0);
  return static_cast<uint64_t>(status.st_blocks) * 512;
}

}  // namespace phantora

#endif  // PHANTORA_UVM_MODEL_MEMORY_FOR_TEST_H_
