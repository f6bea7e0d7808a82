// Launches on a real GPU, in the place of executing them on the processor.
#ifndef PHANTORA_TRAP_GPU_REAL_REAL_EXECUTION_H_
#define PHANTORA_TRAP_GPU_REAL_REAL_EXECUTION_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "trap/gpu/kernels/kernel_image.h"
#include "trap/gpu/real/real_memory.h"
#include "trap/gpu/real/remote_gpu.h"
#include "uvm_model/address_space.h"
#include "uvm_model/page_store.h"

namespace phantora {

struct RealLaunch {
  std::shared_ptr<const KernelImage> image;  // nullptr: nobody has its code
  const std::string* symbol = nullptr;       // mangled
  RemoteLaunch launch;                       // but for its kernel
  // Where the driver keeps what it launches by: the parameters' bank of constants, the code.
  std::vector<uint64_t> own_addresses;
  // The bank of __constant__ variables; no bytes: there is none.
  uint64_t constants = 0, constants_bytes = 0;
};

class RealExecution {
 public:
  // At most `most` bytes of the GPU's memory; what has to make room lies in pages of `store`. `gpu`
  // must outlive this.
  RealExecution(RemoteGpu* gpu, uint64_t most, std::shared_ptr<PageStore> store)
      : gpu_(gpu), memory_(gpu, most, std::move(store)) {}

  // Begins a launch; it is over for whoever looks at its results. Errors: UNAVAILABLE: what the
  // context had there is lost, as it is on a GPU after a fault; all others: it is not for that GPU,
  // in words, and nothing has happened.
  absl::Status Run(AddressSpace& space, const RealLaunch& launch);

  bool IsLost(AddressSpace& space) const { return memory_.IsLost(space); }

  const RealMemory::Counters& memory() const { return memory_.counters(); }
  const std::string& gpu_name() const { return gpu_->name(); }

 private:
  // Why launches of a kernel are not for another address space than the one that it was loaded
  // into; empty: they are, if its constants are as they were loaded.
  struct Kernel {
    std::shared_ptr<const KernelImage> image;  // or its place could be another's, one day
    std::string why_not;
    std::vector<uint8_t> constants;
  };
  const Kernel& KernelOf(const std::shared_ptr<const KernelImage>& image,
                         const std::string& symbol);

  RemoteGpu* const gpu_;
  RealMemory memory_;
  using Place = std::pair<const void*, uint64_t>;
  std::map<std::pair<Place, std::string>, Kernel> kernels_;  // by place and symbol
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_REAL_REAL_EXECUTION_H_
