// /dev/nvidia-uvm: which memory lies where in the GPUs' address spaces.
#ifndef PHANTORA_TRAP_UVM_UVM_DEVICE_H_
#define PHANTORA_TRAP_UVM_UVM_DEVICE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "trap/files/device_file.h"
#include "trap/gpu/front/gpu_context.h"
#include "trap/rm/rm_alloc.h"
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

  template <typename Params>
  uint32_t Succeed(CallContext&, Block& block);
  template <typename Params>
  uint32_t NoPageableAccess(CallContext&, Block& block);
  uint32_t RegisterGpu(CallContext& call, Block& block);
  uint32_t UnregisterGpu(CallContext& call, Block& block);
  uint32_t RegisterGpuVaSpace(CallContext& call, Block& block);
  uint32_t UnregisterGpuVaSpace(CallContext& call, Block& block);
  uint32_t CreateRangeGroup(CallContext& call, Block& block);
  uint32_t CreateExternalRange(CallContext& call, Block& block);
  template <typename Params>
  uint32_t MapExternalAllocation(CallContext& call, Block& block);
  uint32_t MapExternalSparse(CallContext& call, Block& block);
  uint32_t UnmapExternal(CallContext& call, Block& block);
  template <typename Params>
  uint32_t AllocSemaphorePool(CallContext& call, Block& block);
  uint32_t MapDynamicParallelismRegion(CallContext& call, Block& block);
  uint32_t FreeRange(CallContext& call, Block& block);
  uint32_t ValidateRange(CallContext& call, Block& block);
  uint32_t Migrate(CallContext& call, Block& block);
  uint32_t Is8Supported(CallContext& call, Block& block);

  // Handlers return the NV_STATUS that goes into the block.
  using Handler = uint32_t (UvmDevice::*)(CallContext&, Block&);
  struct Row {
    uint32_t number;
    uint32_t size_535, size_550;      // bytes
    uint32_t status_535, status_550;  // offset of rmStatus
    Handler handle_535, handle_550;
  };
  static const std::vector<Row>& Rows();

  // NV_STATUS. Ranges do not overlap.
  uint32_t AddRange(uint64_t base, uint64_t length, VaRanges::Kind kind);
  // Maps the process's file at a managed range into one or all GPUs.
  void MapManaged(uint64_t base, uint64_t length, AddressSpace& space);
  AddressSpace* SpaceOf(const uint8_t* gpu_uuid);
  // Nothing of this file is mapped in the space any more, and others may register it.
  void Leave(GpuContext& space);

  ResourceManager* const rm_;
  const pid_t owner_;
  const std::shared_ptr<OwnedMemory> file_;
  std::map<int, std::shared_ptr<GpuContext>> spaces_;  // by GPU index
  VaRanges ranges_;
  uint64_t next_range_group_ = 1;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_UVM_UVM_DEVICE_H_
