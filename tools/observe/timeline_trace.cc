#include "tools/observe/timeline_trace.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace phantora {
namespace {

// Past these, slices of a lane overlap, and viewers show what they like.
constexpr size_t kMostLanes = 64;
// Perfetto shows these numbers behind the names, so they should look like no other number.
// Process 0 is the idle one to it, and the track with a process's number the "main thread",
// which comes first: the host's waits.
constexpr int kFirstProcess = 1'000'000, kFirstTrack = 2'000'000;

}  // namespace

TimelineTrace::TimelineTrace(TraceWriter* writer, int number, absl::string_view name)
    : writer_(writer), process_(kFirstProcess + number) {
  writer_->NameProcess(process_, name, number);
}

int TimelineTrace::TrackFor(Group& group, VirtualSpan start, VirtualSpan end) {
  auto& lanes = group.lanes;
  auto lane = std::find_if(lanes.begin(), lanes.end(),
                           [start](const Lane& lane) { return lane.end <= start; });
  if (lane == lanes.end() && lanes.size() < kMostLanes) {
    const bool main = group.number == 0 && lanes.empty();
    lanes.push_back({main ? process_ : kFirstTrack + ++tracks_, end});
    lane = std::prev(lanes.end());
    const std::string beside = lanes.size() > 1 ? absl::StrCat(", lane ", lanes.size()) : "";
    writer_->NameTrack(
        process_, lane->track, absl::StrCat(group.name, beside),
        group.number * static_cast<int>(kMostLanes) + static_cast<int>(lanes.size()));
  } else if (lane == lanes.end()) {
    lane = std::prev(lanes.end());
  }
  lane->end = std::max(lane->end, end);
  return lane->track;
}

void TimelineTrace::Work(int gpu, uint32_t channel, VirtualSpan start, VirtualSpan end,
                         absl::string_view category, absl::string_view name,
                         absl::string_view arguments) {
  Group& group = channels_[{gpu, channel}];
  if (group.number == 0) {
    group.number = static_cast<int>(channels_.size());
    group.name = absl::StrCat("GPU ", gpu, " channel ", group.number);
  }
  writer_->Slice(process_, TrackFor(group, start, end), start, end, category, name, arguments);
}

void TimelineTrace::Wait(VirtualSpan start, VirtualSpan end) {
  writer_->Slice(process_, TrackFor(waits_, start, end), start, end, "wait", "wait", "");
}

void TimelineTrace::Memory(VirtualSpan at, int64_t bytes) {
  writer_->Counter(process_, "GPU memory", "bytes", at, bytes);
}

}  // namespace phantora
