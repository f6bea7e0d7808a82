// The tracks of a run's timeline: which process, channel and lane an event is drawn on.
#ifndef PHANTORA_TOOLS_OBSERVE_TIMELINE_TRACE_H_
#define PHANTORA_TOOLS_OBSERVE_TIMELINE_TRACE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "clock/virtual_time.h"
#include "tools/observe/trace_writer.h"

namespace phantora {

// One rank's part of a trace. Slices of a track must not overlap, but the work of a channel
// may (branches of a graph), and so may the waits of threads: each has as many tracks, its
// lanes, as it takes.
class TimelineTrace {
 public:
  // `number` is the rank's, from 0.
  TimelineTrace(TraceWriter* writer, int number, absl::string_view name);

  // Channels are numbered from 1 in the order of their first work: their ids depend on
  // what other ranks do.
  void Work(int gpu, uint32_t channel, VirtualSpan start, VirtualSpan end,
            absl::string_view category, absl::string_view name, absl::string_view arguments);
  void Wait(VirtualSpan start, VirtualSpan end);
  void Memory(VirtualSpan at, int64_t bytes);

 private:
  struct Lane {
    int track;
    VirtualSpan end;
  };
  struct Group {
    std::string name;
    int number = 0;
    std::vector<Lane> lanes;
  };
  // The track of a lane that is free from `start` on.
  int TrackFor(Group& group, VirtualSpan start, VirtualSpan end);

  TraceWriter* const writer_;
  const int process_;
  int tracks_ = 0;
  Group waits_{.name = "host waits for GPUs", .lanes = {}};
  std::map<std::pair<int, uint32_t>, Group> channels_;
};

}  // namespace phantora

#endif  // PHANTORA_TOOLS_OBSERVE_TIMELINE_TRACE_H_
