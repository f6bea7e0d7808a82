// Virtual addresses of GPUs, as objects: which address space is meant, and where in it is room.
#ifndef PHANTORA_TRAP_RM_VIRTUAL_MEMORY_H_
#define PHANTORA_TRAP_RM_VIRTUAL_MEMORY_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "trap/rm/rm_objects.h"
#include "trap/rm/rm_resources.h"

namespace phantora {

// The address space `handle`, or if that is 0 the one of the device that `object` is, or is below
// of (vaspaceGetByHandleOrDeviceDefault in mem_mgr/vaspace.c). nullptr: there is none.
std::shared_ptr<VaSpaceResource> VaSpaceOf(RmClient& client, uint32_t object, uint32_t handle);

// The first `length` bytes of [begin, end) that nothing is mapped at and nobody has reserved, at a
// multiple of `alignment`. nullopt: there are none, or too much lies before them to look on.
std::optional<uint64_t> FindRoom(VaSpaceResource& space, uint64_t begin, uint64_t end,
                                 uint64_t length, uint64_t alignment);

// Is any of it reserved?
bool IsReserved(const VaSpaceResource& space, uint64_t va, uint64_t length);

}  // namespace phantora

#endif  // PHANTORA_TRAP_RM_VIRTUAL_MEMORY_H_
