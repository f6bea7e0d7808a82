#include "trap/time/futex_queues.h"

#include <algorithm>
#include <utility>

#include "trap/linux/shared_word.h"

namespace phantora {
namespace {

constexpr uint64_t kInPage = 4095;

}  // namespace

FutexQueues::Place FutexQueues::PlaceOf(const FutexName& futex) { return futex.address & kInPage; }

bool FutexQueues::IsSame(const FutexName& one, const FutexName& other) const {
  if (one.is_private != other.is_private) return false;
  if (one.process == other.process && one.address == other.address) return true;
  if (one.is_private) return false;
  const auto word = SharedWord::Of(one.process, one.address, files_);
  return word && SharedWord::Of(other.process, other.address, files_) == word;
}

void FutexQueues::Add(uint64_t call, const FutexName& futex, uint32_t bits) {
  const Place place = PlaceOf(futex);
  const uint64_t position = next_++;
  places_[place][position] = {call, futex, bits};
  calls_[call].emplace_back(place, position);
}

void FutexQueues::Remove(uint64_t call) {
  const auto known = calls_.find(call);
  if (known == calls_.end()) return;
  for (const auto& [place, position] : known->second) {
    const auto queue = places_.find(place);
    queue->second.erase(position);
    if (queue->second.empty()) places_.erase(queue);
  }
  calls_.erase(known);
}

std::vector<uint64_t> FutexQueues::Waiters(const FutexName& futex, uint64_t count,
                                           uint32_t bits) const {
  std::vector<uint64_t> calls;
  const auto queue = places_.find(PlaceOf(futex));
  if (queue == places_.end()) return calls;
  for (const auto& [position, waiter] : queue->second) {
    if (calls.size() >= count) break;
    if ((waiter.bits & bits) == 0 || !IsSame(waiter.futex, futex)) continue;
    // It may wait for one word twice.
    if (std::find(calls.begin(), calls.end(), waiter.call) == calls.end()) {
      calls.push_back(waiter.call);
    }
  }
  return calls;
}

void FutexQueues::Move(const std::vector<uint64_t>& calls, const FutexName& to) {
  for (const uint64_t call : calls) {
    Remove(call);
    Add(call, to);
  }
}

std::vector<uint64_t> FutexQueues::WaitersIn(pid_t process) const {
  std::map<uint64_t, uint64_t> found;  // by position
  for (const auto& [place, queue] : places_) {
    for (const auto& [position, waiter] : queue) {
      if (waiter.futex.process == process || !waiter.futex.is_private)
        found[position] = waiter.call;
    }
  }
  std::vector<uint64_t> calls;
  for (const auto& [position, call] : found) calls.push_back(call);
  return calls;
}

std::vector<FutexName> FutexQueues::FutexesOf(uint64_t call) const {
  std::vector<FutexName> futexes;
  const auto known = calls_.find(call);
  if (known == calls_.end()) return futexes;
  for (const auto& [place, position] : known->second) {
    futexes.push_back(places_.at(place).at(position).futex);
  }
  return futexes;
}

}  // namespace phantora
