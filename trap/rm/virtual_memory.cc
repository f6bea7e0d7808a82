#include "trap/rm/virtual_memory.h"

#include <algorithm>
#include <utility>

namespace phantora {
namespace {

using Range = std::pair<uint64_t, uint64_t>;  // begin and length

std::optional<Range> FirstReserved(const VaSpaceResource& space, uint64_t va, uint64_t length) {
  auto next = space.reserved.upper_bound(va);
  if (next != space.reserved.begin()) {
    const auto& before = *std::prev(next);
    if (va - before.first < before.second) return before;
  }
  if (next == space.reserved.end() || next->first - va >= length) return std::nullopt;
  return *next;
}

}  // namespace

std::shared_ptr<VaSpaceResource> VaSpaceOf(RmClient& client, uint32_t object, uint32_t handle) {
  if (handle != 0) {
    const RmObject* space = client.Find(handle);
    return space == nullptr ? nullptr : space->As<VaSpaceResource>();
  }
  // Handles of parents come from Insert(), so that there is no circle.
  for (const RmObject* at = client.Find(object); at != nullptr; at = client.Find(at->parent)) {
    if (const auto device = at->As<DeviceResource>()) return device->DefaultSpace();
    if (at->parent == at->handle) break;
  }
  return nullptr;
}

std::optional<uint64_t> FindRoom(VaSpaceResource& space, uint64_t begin, uint64_t end,
                                 uint64_t length, uint64_t alignment) {
  constexpr int kMostLooks = 1 << 16;
  const auto round_up = [alignment](uint64_t va) {
    return (va + alignment - 1) / alignment * alignment;
  };
  uint64_t at = round_up(begin);
  for (int look = 0; look < kMostLooks; ++look) {
    if (at < begin || at > end || length > end - at) return std::nullopt;
    std::optional<Range> taken = space.context->memory.FirstWithin(at, length);
    if (!taken) taken = FirstReserved(space, at, length);
    if (!taken) return at;
    at = round_up(taken->first + taken->second);
  }
  return std::nullopt;
}

bool IsReserved(const VaSpaceResource& space, uint64_t va, uint64_t length) {
  return FirstReserved(space, va, length).has_value();
}

}  // namespace phantora
