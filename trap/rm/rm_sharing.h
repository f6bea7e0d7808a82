// NV_ESC_RM_SHARE, and the question that it answers: who may duplicate an object. By default only
// clients of the same process; see share_list.h.
#ifndef PHANTORA_TRAP_RM_RM_SHARING_H_
#define PHANTORA_TRAP_RM_RM_SHARING_H_

#include <cstdint>

#include "trap/abi/generated/escapes.h"
#include "trap/rm/rm_objects.h"

namespace phantora {

// Applies `policy` to `object` of `owner`, as serverShareResourceAccess (rs_server.c) and
// clientShareResource (rs_client.c) do. NV_STATUS: NV_ERR_INVALID_ARGUMENT for an unknown type,
// NV_ERR_INVALID_OBJECT_HANDLE if it is for a client that does not exist, NV_ERR_OBJECT_NOT_FOUND
// without the object, NV_ERR_INSUFFICIENT_PERMISSIONS for a right that the owner does not have,
// NV_ERR_NO_MEMORY if there are too many policies.
uint32_t ShareObject(RmServer& server, RmClient& owner, uint32_t object,
                     const abi::RS_SHARE_POLICY& policy);

// May `client` duplicate `object` of `owner` below one of its own objects that is of GPU
// `parent_gpu` (-1: of none)? NV_OK or NV_ERR_INSUFFICIENT_PERMISSIONS (clientCopyResource in
// rs_client.c, rsAccessCheckRights in rs_access_map.c).
uint32_t CheckDuplication(RmServer& server, RmClient& owner, const RmObject& object,
                          const RmClient& client, int parent_gpu);

}  // namespace phantora

#endif  // PHANTORA_TRAP_RM_RM_SHARING_H_
