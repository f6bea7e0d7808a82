#include "trap/rm/share_list.h"

#include <algorithm>

namespace phantora {

ShareList ShareList::Default() {
  ShareList list;
  list.Add({.type = abi::RS_SHARE_TYPE_PID, .rights = kDupRight});
  return list;
}

std::vector<SharePolicy>::iterator ShareList::Same(const SharePolicy& policy) {
  // rsSharePolicyEquals: the target counts for clients only.
  return std::find_if(policies_.begin(), policies_.end(), [&](const SharePolicy& other) {
    return other.type == policy.type && other.require == policy.require &&
           (policy.type != abi::RS_SHARE_TYPE_CLIENT ||
            (other.target == policy.target && other.target_serial == policy.target_serial));
  });
}

bool ShareList::Add(const SharePolicy& policy) {
  if (auto same = Same(policy); same != policies_.end()) {
    same->rights |= policy.rights;
    return true;
  }
  if (policies_.size() >= kMostPolicies) return false;
  policies_.push_back(policy);
  return true;
}

void ShareList::Remove(const SharePolicy& policy) {
  auto same = Same(policy);
  if (same == policies_.end()) return;
  same->rights &= ~policy.rights;
  if (same->rights == 0) policies_.erase(same);
}

}  // namespace phantora
