#include "tools/replay/step_roles.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

namespace phantora {
namespace {

using Deed = std::tuple<int, int, int64_t, uint32_t, uint32_t, uint32_t>;
// What each channel did, in an order that does not depend on which was used first.
using Deeds = std::vector<std::vector<Deed>>;

Deeds DeedsOf(const StepRecord::Role& work) {
  std::map<uint32_t, std::vector<Deed>> channels;
  for (const StepRecord::Node& node : work.nodes) {
    channels[node.channel].emplace_back(node.name, node.operation, node.alone.picoseconds(),
                                        node.demand, node.level, node.memory);
  }
  Deeds deeds;
  for (auto& [channel, of_channel] : channels) deeds.push_back(std::move(of_channel));
  std::sort(deeds.begin(), deeds.end());
  return deeds;
}

}  // namespace

std::vector<StepRecord::Role> FindRoles(std::vector<StepRecord::Role> works,
                                        std::vector<StepRecord::Rank>& ranks) {
  std::vector<StepRecord::Role> roles;
  std::map<Deeds, uint32_t> known;
  for (size_t i = 0; i < works.size(); ++i) {
    const auto [role, fresh] =
        known.try_emplace(DeedsOf(works[i]), static_cast<uint32_t>(roles.size()));
    if (fresh) roles.push_back(std::move(works[i]));
    ranks[i].role = role->second;
    roles[role->second].truncated |= works[i].truncated;
    roles[role->second].lost_releases =
        std::max(roles[role->second].lost_releases, works[i].lost_releases);
  }
  return roles;
}

}  // namespace phantora
