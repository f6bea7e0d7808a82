// What becomes of a rank when this machine's memory is nearly used up.
#ifndef PHANTORA_TOOLS_RUN_OUT_OF_MEMORY_H_
#define PHANTORA_TOOLS_RUN_OUT_OF_MEMORY_H_

namespace phantora {

// Who needs a page that is not there is ended either way.
enum class OutOfMemory {
  kCuda,  // allocations of GPUs' memory fail with CUDA's out of memory
  kKill,  // they go on until memory is used up
};

}  // namespace phantora

#endif  // PHANTORA_TOOLS_RUN_OUT_OF_MEMORY_H_
