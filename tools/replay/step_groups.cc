#include "tools/replay/step_groups.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"

namespace phantora {
namespace {

// How far other communicators of a host are from this one, so that all GPUs have one: of GPUs 0
// and 1 of eight 0, 2, 4, 6; of 0 and 4 of eight 0, 1, 2, 3.
std::vector<int> Shifts(std::vector<int> of_host, int gpus) {
  std::sort(of_host.begin(), of_host.end());
  std::set<int> covered;
  std::vector<int> shifts;
  for (int shift = -of_host[0]; shift < gpus; ++shift) {
    const bool fits = std::all_of(of_host.begin(), of_host.end(), [&](int gpu) {
      return gpu + shift >= 0 && gpu + shift < gpus && !covered.contains(gpu + shift);
    });
    if (!fits) continue;
    for (const int gpu : of_host) covered.insert(gpu + shift);
    if (shift != 0) shifts.push_back(shift);
  }
  shifts.insert(shifts.begin(), 0);
  return shifts;
}

}  // namespace

absl::StatusOr<std::vector<std::vector<GpuPlace>>> GroupsLike(absl::Span<const GpuPlace> places,
                                                              int gpus, int hosts, int new_hosts) {
  if (places.empty()) return absl::InvalidArgumentError("a communicator has no ranks");
  std::vector<int> of_host;  // GPUs of the first rank's host, by rank
  std::set<int> on_hosts;
  for (const GpuPlace& place : places) {
    if (place.host == places[0].host) of_host.push_back(place.gpu);
    on_hosts.insert(place.host);
  }
  const std::set<GpuPlace> all(places.begin(), places.end());
  bool same = all.size() == places.size() && places.size() == of_host.size() * on_hosts.size();
  for (const int host : on_hosts) {
    for (const int gpu : of_host) same = same && all.contains({host, gpu});
  }
  const bool everywhere = static_cast<int>(on_hosts.size()) == hosts &&
                          (hosts > 1 || static_cast<int>(of_host.size()) == gpus);
  if (!same || (!everywhere && on_hosts.size() > 1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a communicator of ", places.size(),
        " ranks is neither within a host nor the same on all hosts: it cannot be scaled"));
  }
  std::vector<std::vector<GpuPlace>> groups;
  for (const int shift : Shifts(of_host, gpus)) {
    std::vector<GpuPlace> group;
    if (everywhere && new_hosts == hosts) {
      // In the very order.
      for (const GpuPlace& place : places) group.push_back({place.host, place.gpu + shift});
      groups.push_back(std::move(group));
    } else if (everywhere) {
      for (int host = 0; host < new_hosts; ++host) {
        for (const int gpu : of_host) group.push_back({host, gpu + shift});
      }
      groups.push_back(std::move(group));
    } else {
      for (int host = 0; host < new_hosts; ++host) {
        group.clear();
        for (const int gpu : of_host) group.push_back({host, gpu + shift});
        groups.push_back(group);
      }
    }
  }
  return groups;
}

}  // namespace phantora
