// Ranks' devices for tests of simulated time: work is a list of instants.
#ifndef PHANTORA_TRAP_TIME_FAKE_DEVICE_H_
#define PHANTORA_TRAP_TIME_FAKE_DEVICE_H_

#include <sys/types.h>

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "clock/simulated_device.h"
#include "clock/virtual_time.h"

namespace phantora {

class FakeDevice : public SimulatedDevice {
 public:
  struct Rank {
    int unsubmitted = 0;  // found by the next Submit()
    Queues queues;
    std::set<VirtualTime> events;  // to come; each releases something
    bool interrupts = false;       // and raises an interrupt
    bool waits_for_others = false;
  };

  Rank& Of(pid_t process) { return ranks_[process]; }
  VirtualTime shared = VirtualTime::Infinity();
  std::vector<std::pair<pid_t, VirtualTime>> submits;  // told of, with the end of the time
  int queue_looks = 0;

  Submitted Submit(pid_t process, VirtualTime, VirtualTime to, VirtualSpan each) override {
    submits.emplace_back(process, to);
    const int count = std::exchange(ranks_[process].unsubmitted, 0);
    return {.now = to + each * count, .count = count};
  }
  bool HasSubmitted(pid_t process) override { return ranks_[process].unsubmitted > 0; }
  Queues QueuesOf(pid_t process) override {
    ++queue_looks;
    return ranks_[process].queues;
  }
  VirtualTime NextEvent(pid_t process) override {
    const auto& events = ranks_[process].events;
    return events.empty() ? VirtualTime::Infinity() : *events.begin();
  }
  Progress Advance(pid_t process, VirtualTime to, bool) override {
    Rank& rank = ranks_[process];
    if (rank.events.empty() || *rank.events.begin() > to) return {.time = to};
    const VirtualTime event = *rank.events.begin();
    rank.events.erase(rank.events.begin());
    return {.time = event, .released = true, .interrupted = rank.interrupts};
  }
  bool WaitsForOthers(pid_t process) override { return ranks_[process].waits_for_others; }
  VirtualTime NextSharedEvent() override { return shared; }
  std::vector<pid_t> Passed(VirtualTime to) override {
    if (to >= shared) shared = VirtualTime::Infinity();
    return {};
  }

 private:
  std::map<pid_t, Rank> ranks_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_TIME_FAKE_DEVICE_H_
