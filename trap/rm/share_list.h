// The share policies of one object: who beside its owner has which rights on it. A port of the
// rules of the driver's resource server (rs_access.h, rs_access_map.c).
#ifndef PHANTORA_TRAP_RM_SHARE_LIST_H_
#define PHANTORA_TRAP_RM_SHARE_LIST_H_

#include <cstdint>
#include <vector>

#include "trap/abi/generated/escapes.h"

namespace phantora {

// Rights are bits, as in the first (and only) limb of an RS_ACCESS_MASK.
inline constexpr uint32_t kDupRight = 1u << abi::RS_ACCESS_DUP_OBJECT;
inline constexpr uint32_t kNiceRight = 1u << abi::RS_ACCESS_NICE;
inline constexpr uint32_t kDebugRight = 1u << abi::RS_ACCESS_DEBUG;
// The bits above RS_ACCESS_COUNT are undefined and mean nothing.
inline constexpr uint32_t kAllRights = kDupRight | kNiceRight | kDebugRight;
// What the owner of a client has on it (RS_ACCESS_FLAG_ALLOW_OWNER in rs_access_rights.c). The
// right to set priorities is for the privileged, and no client here is.
inline constexpr uint32_t kOwnerRights = kDupRight | kDebugRight;

struct SharePolicy {
  uint16_t type;               // RS_SHARE_TYPE_*
  bool require = false;        // must match, rather than may
  uint32_t target = 0;         // RS_SHARE_TYPE_CLIENT: the client's handle
  uint64_t target_serial = 0;  // and its serial number, since handles are used anew
  uint32_t rights = 0;
};

class ShareList {
 public:
  // The driver sets no bound. This one keeps what a process can make the supervisor hold small.
  static constexpr size_t kMostPolicies = 64;

  // What holds for objects that have no list, and whose ancestors have none: clients of the same
  // process may duplicate (serverInitGlobalSharePolicies in sharing.c).
  static ShareList Default();

  // Adds the rights to the policy for the same ones if there is one (rsShareListInsert). False if
  // the list is full.
  bool Add(const SharePolicy& policy);
  // Takes the rights away from the policy for the same ones (rsShareListRemove).
  void Remove(const SharePolicy& policy);
  void Clear() { policies_.clear(); }

  // The rights that one has of whom `matches(const SharePolicy&)` tells which policies speak of
  // them: at least one that allows must match, and all that require (_rsAccessGetSharedRights).
  template <typename Matches>
  uint32_t RightsOf(Matches matches) const {
    uint32_t granted = 0, denied = 0;
    for (const SharePolicy& policy : policies_) {
      const bool match = matches(policy);
      if (match && !policy.require) granted |= policy.rights;
      if (!match && policy.require) denied |= policy.rights;
    }
    return granted & ~denied;
  }

  size_t size() const { return policies_.size(); }

 private:
  std::vector<SharePolicy>::iterator Same(const SharePolicy& policy);

  std::vector<SharePolicy> policies_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_RM_SHARE_LIST_H_
