// Lays out a group's operations as the parameters of marker launches.
#ifndef PHANTORA_FABRIC_LIBRARY_MARKERS_H_
#define PHANTORA_FABRIC_LIBRARY_MARKERS_H_

#include <cstdint>
#include <vector>

#include "fabric/library/nccl_api.h"
#include "fabric/library/wire.h"

namespace phantora::nccl {

// Calls `launch(const LongMarker&, bool is_long)` for each launch, until one does not succeed. If
// not `is_long`, only the part that is a Marker counts. An operation alone is a Marker; several are
// LongMarkers throughout.
template <typename Launch>
ncclResult_t ForEachMarker(Handle handle, uint64_t sequence, const std::vector<Entry>& entries,
                           Launch launch) {
  for (size_t start = 0; start < entries.size();) {
    LongMarker marker = {};
    const size_t left = entries.size() - start;
    const size_t count = left < kMostEntries ? left : kMostEntries;
    marker.header.handle = handle;
    marker.header.sequence = sequence;
    marker.header.entries = static_cast<uint16_t>(count);
    marker.header.more = left > count ? 1 : 0;
    for (size_t i = 0; i < count; ++i) marker.entry[i] = entries[start + i];
    const ncclResult_t result = launch(marker, entries.size() > 1);
    if (result != ncclSuccess) return result;
    start += count;
  }
  return ncclSuccess;
}

}  // namespace phantora::nccl

#endif  // PHANTORA_FABRIC_LIBRARY_MARKERS_H_
