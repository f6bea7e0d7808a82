// Constructors of RM objects, one row per class.
#ifndef PHANTORA_TRAP_RM_RM_ALLOC_H_
#define PHANTORA_TRAP_RM_RM_ALLOC_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "trap/files/device_file.h"
#include "trap/rm/machine.h"
#include "trap/rm/rm_objects.h"
#include "trap/rm/rm_resources.h"
#include "trap/rm/tracee_memory.h"

namespace phantora {

// The resource manager: what all opens of the driver's devices share.
struct ResourceManager {
  Machine* machine;
  RmServer server;
  TraceeAddressSpaces address_spaces = {};  // of processes that registered memory
  uint64_t next_group = 1;
  uint32_t next_channel = 1;

  void ProcessDied(pid_t process);
  // Calls `use` with each GPU address space of the process's own.
  void EachSpace(pid_t process, const std::function<void(AddressSpace&)>& use) const;
};

struct AllocRequest {
  ResourceManager& rm;
  CallContext& call;
  RmClient& client;
  RmObject object;  // handle (0: choose), parent, class; gpu from the parent
  const RmObject* parent;
  std::vector<uint8_t> params;  // copied in; copied out again on success

  Gpu* gpu() { return object.gpu < 0 ? nullptr : &rm.machine->gpus[object.gpu]; }
};

// NV_ESC_RM_ALLOC for everything but clients. `handle` is in and out. Returns an
// NV_STATUS.
uint32_t AllocObject(ResourceManager& rm, CallContext& call, RmClient& client, uint32_t parent,
                     uint32_t* handle, uint32_t class_id, RemoteAddress params,
                     uint32_t params_size);

// Can objects of the class be allocated? Clients can.
bool KnowsClass(uint32_t class_id);

// Video or system memory of `bytes` (page-rounded by the caller). NV_STATUS.
uint32_t AllocMemory(ResourceManager& rm, CallContext& call, int gpu, bool vidmem, uint64_t bytes,
                     std::shared_ptr<RmResource>* result);

// A range of virtual addresses (NV50_MEMORY_VIRTUAL): at `va` if NVOS32_ALLOC_FLAGS_* say so, else
// `va` is set to where there is room. NV_STATUS.
uint32_t ReserveRange(std::shared_ptr<VaSpaceResource> space, uint32_t flags, uint64_t alignment,
                      uint64_t* size, uint64_t* va, std::shared_ptr<RmResource>* result);

// Memory of the calling process, pinned. NV_STATUS.
uint32_t AllocOsDescriptor(ResourceManager& rm, CallContext& call, int gpu, RemoteAddress address,
                           uint64_t bytes, std::shared_ptr<RmResource>* result);

// The page size that an allocation with these NVOS32_ATTR_* attributes gets, in
// bytes (mem_mgr.c memmgrDeterminePageSize).
uint64_t PageSizeFor(uint32_t attributes, bool vidmem, uint64_t bytes);

// Of 49 bits, as on Ampere; Hopper's 57 are for address spaces that are asked for with them.
inline constexpr uint64_t kLastVirtualAddress = (uint64_t{1} << 49) - 1;

// The classes that a GPU offers, for GET_CLASSLIST.
const std::vector<uint32_t>& ClassesOf(GpuProfile::Architecture architecture);

}  // namespace phantora

#endif  // PHANTORA_TRAP_RM_RM_ALLOC_H_
