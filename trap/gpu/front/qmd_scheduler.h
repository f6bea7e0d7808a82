// When a QMD runs: it may have to be scheduled by another, and after others.
#ifndef PHANTORA_TRAP_GPU_FRONT_QMD_SCHEDULER_H_
#define PHANTORA_TRAP_GPU_FRONT_QMD_SCHEDULER_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"

namespace phantora {

// QMDs are known by address. The host hands a QMD over with a PCAS that copies it
// into the scheduler. Most run at once. One that "requires scheduling by PCAS"
// stays loaded and runs whenever a predecessor schedules it: so do the nodes of a
// graph, which are handed over once and run at every launch of the graph. A QMD
// with a dependence counter of n runs whenever n predecessors have decremented it.
class QmdScheduler {
 public:
  // The host hands it over (COPY_SCHEDULE, inline QMDs). True if it is to run now.
  bool Load(uint64_t address, bool requires_pcas, uint32_t dependence_counter) {
    Entry& entry = entries_[address];
    // Predecessors may have been quicker than the hand-over.
    const uint32_t scheduled = entry.handed_over ? 0 : entry.scheduled;
    const uint32_t decremented = entry.handed_over ? 0 : entry.decremented;
    entry = {.handed_over = true,
             .runnable = true,
             .requires_pcas = requires_pcas,
             .counter = dependence_counter,
             .scheduled = requires_pcas ? scheduled : 1,
             .decremented = decremented};
    return RunIfReady(address, entry);
  }

  // A predecessor, or a PCAS without copy, schedules it. `requires_pcas` and the
  // counter are those in memory. True if it is to run now.
  bool Schedule(uint64_t address, bool requires_pcas, uint32_t dependence_counter) {
    auto it = entries_.find(address);
    // Never handed over, and not waiting to be: what is in memory counts.
    if (it == entries_.end() && !requires_pcas) {
      return Load(address, false, dependence_counter);
    }
    Entry& entry = it == entries_.end() ? entries_[address] : it->second;
    entry.scheduled = 1;
    return RunIfReady(address, entry);
  }

  // A predecessor is done. True if the QMD is to run now. If the QMD is not known
  // yet, what is in memory counts: with programmatic launches the host decrements
  // QMDs that it has only written.
  bool Knows(uint64_t address) const { return entries_.contains(address); }
  bool DecrementDependence(uint64_t address) {
    Entry& entry = entries_[address];
    ++entry.decremented;
    return RunIfReady(address, entry);
  }
  bool DecrementUnknown(uint64_t address, bool requires_pcas, uint32_t dependence_counter) {
    entries_[address] = {.handed_over = false,
                         .runnable = dependence_counter > 0,
                         .requires_pcas = requires_pcas,
                         .counter = dependence_counter,
                         .scheduled = 0,
                         .decremented = 0};
    return DecrementDependence(address);
  }

  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    bool handed_over = false;
    bool runnable = false;  // its counter is known
    bool requires_pcas = false;
    uint32_t counter = 0;
    uint32_t scheduled = 0;
    uint32_t decremented = 0;
  };

  bool RunIfReady(uint64_t address, Entry& entry) {
    if (!entry.runnable) return false;
    // With a counter, the last decrement is the schedule.
    if (entry.counter > 0 ? entry.decremented < entry.counter : entry.scheduled == 0) return false;
    // A counter starts anew: the host hands such a QMD over again only when it left
    // the counter half way (programmatic launches, which reuse a ring of QMDs).
    if (entry.requires_pcas || entry.counter > 0) {
      entry.scheduled = entry.decremented = 0;
    } else {
      entries_.erase(address);
    }
    return true;
  }

  absl::flat_hash_map<uint64_t, Entry> entries_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_FRONT_QMD_SCHEDULER_H_
