// /dev/nvidia-uvm: which memory lies where in the GPUs' address spaces.
#ifndef PHANTORA_TRAP_UVM_UVM_DEVICE_H_
#define PHANTORA_TRAP_UVM_UVM_DEVICE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "trap/abi/generated/uvm_ioctl.h"
#include "trap/files/device_file.h"
#include "trap/gpu/front/gpu_context.h"
#include "trap/rm/rm_alloc.h"
#include "trap/rm/typed_handler.h"
#include "trap/uvm/va_ranges.h"
#include "uvm_model/memory_object.h"

namespace phantora {

// One open file is one VA space of one process. Its file is as large as the
// address space, and what a process maps of it lies at the offset that equals the
// address: managed memory needs no copying between processor and GPUs.
class UvmDevice : public DeviceFile {
 public:
  UvmDevice(ResourceManager* rm, pid_t owner);
  ~UvmDevice() override;

  // Is the ioctl one that is answered?
  static bool Knows(uint32_t command);

  std::string name() const override { return "/dev/nvidia-uvm"; }
  int Ioctl(CallContext& call, uint32_t command, RemoteAddress argument) override;
  int Mmap(CallContext& call, const MmapRequest& request) override;
  // The process's file. It may be mapped after it is closed, so that it lives as
  // long as the process.
  Handle MakeHandle() override;

 private:
  using Block = std::vector<uint8_t>;

  // Each returns the NV_STATUS that goes into its parameters.
  template <typename Params>
  uint32_t Succeed(CallContext& call, Params& params);
  template <typename Params>
  uint32_t NoPageableAccess(CallContext& call, Params& params);
  uint32_t RegisterGpu(CallContext& call, abi::UVM_REGISTER_GPU_PARAMS& params);
  uint32_t UnregisterGpu(CallContext& call, abi::UVM_UNREGISTER_GPU_PARAMS& params);
  uint32_t RegisterGpuVaSpace(CallContext& call, abi::UVM_REGISTER_GPU_VASPACE_PARAMS& params);
  uint32_t UnregisterGpuVaSpace(CallContext& call, abi::UVM_UNREGISTER_GPU_VASPACE_PARAMS& params);
  uint32_t CreateRangeGroup(CallContext& call, abi::UVM_CREATE_RANGE_GROUP_PARAMS& params);
  uint32_t CreateExternalRange(CallContext& call, abi::UVM_CREATE_EXTERNAL_RANGE_PARAMS& params);
  template <typename Params>
  uint32_t MapExternalAllocation(CallContext& call, Params& params);
  uint32_t MapExternalSparse(CallContext& call, abi::UVM_MAP_EXTERNAL_SPARSE_PARAMS& params);
  uint32_t UnmapExternal(CallContext& call, abi::UVM_UNMAP_EXTERNAL_PARAMS& params);
  template <typename Params>
  uint32_t AllocSemaphorePool(CallContext& call, Params& params);
  uint32_t MapDynamicParallelismRegion(CallContext& call,
                                       abi::UVM_MAP_DYNAMIC_PARALLELISM_REGION_PARAMS& params);
  template <typename Params>
  uint32_t FreeRange(CallContext& call, Params& params);
  uint32_t ValidateRange(CallContext& call, abi::UVM_VALIDATE_VA_RANGE_PARAMS& params);
  uint32_t Migrate(CallContext& call, abi::UVM_MIGRATE_PARAMS& params);
  uint32_t Is8Supported(CallContext& call, abi::UVM_IS_8_SUPPORTED_PARAMS& params);

  using Handler = uint32_t (*)(UvmDevice&, CallContext&, Block&);
  struct Row {
    uint32_t number;
    HandlerVersions<Handler> versions;
    // Of a call that is answered with success and for which nothing is done: why it need not.
    const char* quiet = nullptr;
  };
  template <auto kServe>
  static uint32_t Serve(UvmDevice& device, CallContext& call, Block& block);
  template <auto kServe, bool kDiffersWhereNobodyLooks = false>
  static constexpr Row Typed(uint32_t number, const char* quiet = nullptr);
  template <typename Block>
  static constexpr Row Accepted(uint32_t number, const char* why);
  static absl::Span<const Row> Rows();

  // NV_STATUS. Ranges do not overlap.
  uint32_t AddRange(uint64_t base, uint64_t length, VaRanges::Kind kind);
  // Maps the process's file at a managed range into one GPU's space, or all. False, and nothing is
  // mapped there any more, if one holds too many mappings.
  bool MapManaged(uint64_t base, uint64_t length, AddressSpace& space);
  bool MapEverywhere(uint64_t base, uint64_t length);
  AddressSpace* SpaceOf(const uint8_t* gpu_uuid);
  // Nothing of this file is mapped in the GPU's space any more, and others may register it. False
  // if it has none.
  bool Leave(int gpu);

  ResourceManager* const rm_;
  const pid_t owner_;
  const std::shared_ptr<OwnedMemory> file_;
  std::map<int, std::shared_ptr<GpuContext>> spaces_;  // by GPU index
  VaRanges ranges_;
  uint64_t next_range_group_ = 1;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_UVM_UVM_DEVICE_H_
