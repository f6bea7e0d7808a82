#include "trap/rm/rm_sharing.h"

#include <memory>

#include "trap/abi/generated/nv_status.h"
#include "trap/rm/share_list.h"

namespace phantora {
namespace {

using namespace abi;  // NOLINT: NVIDIA's names

// The list that holds for `object`: its own or the nearest ancestor's; nullptr if none has one
// (rsAccessGetActiveShareList). A parent is always older than its children, so this ends.
const ShareList* ActiveList(RmClient& owner, const RmObject& object) {
  for (const RmObject* at = &object; at != nullptr; at = owner.Find(at->parent)) {
    if (at->shares != nullptr) return at->shares.get();
  }
  return nullptr;
}

// Does the policy of `object` of `owner` speak of `client`? As the driver's share callbacks for
// GPU objects, other objects and clients say (gpuresShareCallback in gpu_resource.c,
// rmresShareCallback in resource.c, cliresShareCallback in client_resource.c).
bool Matches(RmServer& server, const RmClient& owner, const RmObject& object,
             const RmClient& client, int parent_gpu, const SharePolicy& policy) {
  switch (policy.type) {
    case RS_SHARE_TYPE_ALL:
      return true;
    case RS_SHARE_TYPE_CLIENT:
      if (policy.target_serial == client.serial()) return true;
      // A policy dies with its client (clientFreeAccessBackRefs): it neither allows nor refuses.
      return policy.require && !server.IsAlive(policy.target, policy.target_serial);
    case RS_SHARE_TYPE_PID:
      return owner.process() == client.process();
    case RS_SHARE_TYPE_OS_SECURITY_TOKEN:
      // osValidateClientTokens (os.c): the same effective user, or the same process.
      return owner.process() == client.process() ||
             (owner.user().has_value() && owner.user() == client.user());
    case RS_SHARE_TYPE_SMC_PARTITION:
      // No GPU here has partitions: nothing is required, and the GPU decides.
      if (policy.require) return true;
      [[fallthrough]];
    case RS_SHARE_TYPE_GPU:
      if (object.gpu < 0) return policy.require;
      return parent_gpu == object.gpu;
    case RS_SHARE_TYPE_FM_CLIENT:  // needs the fabric manager's capability, which nobody has
    default:
      return false;
  }
}

// Gives the owner back the rights of `wanted` that it may have: all on the client itself, on
// another object those that it has on the parent (rsAccessGrantRights). False if any is missing.
bool Regain(RmClient& owner, RmObject& object, uint32_t wanted) {
  const RmObject* parent = owner.Find(object.parent);
  uint32_t available = object.owner_rights;
  if (object.handle == owner.handle()) available |= kOwnerRights;
  if (parent != nullptr) available |= parent->owner_rights;
  object.owner_rights |= wanted & available;
  return (wanted & ~available) == 0;
}

}  // namespace

uint32_t ShareObject(RmServer& server, RmClient& owner, uint32_t handle,
                     const RS_SHARE_POLICY& policy) {
  if (policy.type >= RS_SHARE_TYPE_MAX) return NV_ERR_INVALID_ARGUMENT;
  const RmClient* target =
      policy.type == RS_SHARE_TYPE_CLIENT ? server.FindAny(policy.target) : nullptr;
  if (policy.type == RS_SHARE_TYPE_CLIENT && target == nullptr) return NV_ERR_INVALID_OBJECT_HANDLE;
  RmObject* object = owner.Find(handle);
  if (object == nullptr) return NV_ERR_OBJECT_NOT_FOUND;

  const bool revoke = (policy.action & RS_SHARE_ACTION_FLAG_REVOKE) != 0;
  const bool compose = (policy.action & RS_SHARE_ACTION_FLAG_COMPOSE) != 0;
  const SharePolicy change = {
      .type = policy.type,
      .require = (policy.action & RS_SHARE_ACTION_FLAG_REQUIRE) != 0,
      .target = policy.target,
      .target_serial = target == nullptr ? 0 : target->serial(),
      .rights = policy.accessMask.limbs[0] & kAllRights,
  };
  if (!revoke && !Regain(owner, *object, change.rights)) return NV_ERR_INSUFFICIENT_PERMISSIONS;
  if (target == &owner) {
    // The owner's own rights on its object (clientShareResourceTargetClient).
    if (revoke) object->owner_rights &= ~change.rights;
  }
  if (object->shares == nullptr) {
    const ShareList* active = compose ? ActiveList(owner, *object) : nullptr;
    object->shares = std::make_unique<ShareList>(active != nullptr ? *active
                                                 : compose         ? ShareList::Default()
                                                                   : ShareList());
  }
  if (!compose) object->shares->Clear();
  if (revoke) {
    object->shares->Remove(change);
  } else if (!object->shares->Add(change)) {
    return NV_ERR_NO_MEMORY;
  }
  return NV_OK;
}

uint32_t CheckDuplication(RmServer& server, RmClient& owner, const RmObject& object,
                          const RmClient& client, int parent_gpu) {
  uint32_t rights = object.owner_rights;
  if (&owner != &client) {
    const ShareList* active = ActiveList(owner, object);
    rights = (active != nullptr ? *active : ShareList::Default())
                 .RightsOf([&](const SharePolicy& policy) {
                   return Matches(server, owner, object, client, parent_gpu, policy);
                 });
  }
  return (rights & kDupRight) != 0 ? NV_OK : NV_ERR_INSUFFICIENT_PERMISSIONS;
}

}  // namespace phantora
