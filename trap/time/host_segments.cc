#include "trap/time/host_segments.h"

#include <algorithm>
#include <utility>

namespace phantora {

std::string ProgramName(std::string_view words) {
  std::string name;
  int told = 0;
  for (size_t begin = 0; begin < words.size() && told < 2;) {
    const size_t end = std::min(words.find('\0', begin), words.size());
    const std::string_view word = words.substr(begin, end - begin);
    begin = end + 1;
    if (told > 0 && (word.empty() || word[0] == '-')) continue;
    name += (told++ > 0 ? " " : "");
    name += word.substr(word.find_last_of('/') + 1);
  }
  return name;
}

void HostSegments::NewProgram(pid_t process, std::string_view name) {
  Process& begun = processes_[process] = Process();
  begun.role = HostProfile::Mix(0, name);
}

void HostSegments::Begins(pid_t process, pid_t parent) {
  const auto made_by = processes_.find(parent);
  const uint64_t role = made_by == processes_.end() ? 0 : made_by->second.role;
  const auto [begun, is_new] = processes_.try_emplace(process);
  if (is_new) begun->second.role = HostProfile::Mix(role, 1);
}

void HostSegments::ProcessDied(pid_t process) { processes_.erase(process); }

HostSegments::Thread& HostSegments::Of(Process& process, pid_t thread) {
  if (process.threads.size() >= kMostThreads) process.threads.clear();
  const auto [it, is_new] = process.threads.try_emplace(thread);
  if (is_new) it->second.at.role = HostProfile::Mix(process.role, process.threads_seen++);
  return it->second;
}

bool HostSegments::IsNew(pid_t process, pid_t thread, uint64_t call) {
  Thread& of = Of(processes_[process], thread);
  return std::exchange(of.call, call) != call;
}

VirtualSpan HostSegments::Count(Counters::Part& part, VirtualSpan cost) {
  ++part.segments;
  part.cost = part.cost + cost;
  return cost;
}

VirtualSpan HostSegments::Ends(pid_t id, pid_t thread, uint32_t stop, uint32_t submissions,
                               int64_t used) {
  Process& process = processes_[id];
  HostSegment& segment = Of(process, thread).at;
  std::shift_right(segment.stops.begin(), segment.stops.end(), 1);
  segment.stops[0] = stop;
  segment.submissions = submissions;
  if (process.ways.size() >= kMostWays) process.ways.clear();
  segment.occurrence = process.ways[HostProfile::Way(segment)]++;

  const HostTime& host = options_.host;
  if (options_.known != nullptr) {
    const HostProfile::Cost cost = options_.known->CostOf(segment);
    const VirtualSpan scaled = ScaledHostTime(cost.nanoseconds, host.scale);
    switch (cost.detail) {
      case HostProfile::Detail::kFull:
        return Count(counters_.full, scaled);
      case HostProfile::Detail::kShort:
      case HostProfile::Detail::kBounds:
        return Count(counters_.similar, scaled);
      case HostProfile::Detail::kUnknown:
        return Count(counters_.unknown, host.submission * submissions);
    }
  }
  used = std::max<int64_t>(used, 0);
  const HostProfile::Cost repeated = learned_.RepeatedCostOf(segment, kRepeats);
  learned_.Learn(segment, used);
  if (repeated.detail == HostProfile::Detail::kFull) {
    return Count(counters_.repeated, ScaledHostTime(repeated.nanoseconds, host.scale));
  }
  return Count(counters_.taken, ScaledHostTime(used, host.scale));
}

}  // namespace phantora
