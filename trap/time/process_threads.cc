// ProcessClocks, where each thread has a clock of its own.
#include <algorithm>
#include <cstddef>

#include "trap/time/process_clocks.h"

namespace phantora {
namespace {

// Processes of a parent that have not been heard of.
constexpr size_t kMostForks = 1024;

}  // namespace

void ProcessClocks::Forks(Process& process) {
  if (process.forks.size() >= kMostForks) process.forks.pop_front();  // which could not be made
  process.forks.push_back(process.now);
}

VirtualTime ProcessClocks::BeginOf(pid_t child, Process& parent) {
  if (parent.forks.empty()) return parent.now;
  // It may have made others since then, and they be heard of first: their numbers rise.
  size_t before = 0;
  if (parent.forks.size() > 1) {
    for (const pid_t other : options_.threads->Processes()) {
      if (other < child && Find(other) == nullptr && options_.parent_of(other) == parent.id)
        ++before;
    }
  }
  const auto made =
      parent.forks.begin() + static_cast<ptrdiff_t>(std::min(before, parent.forks.size() - 1));
  const VirtualTime at = *made;
  parent.forks.erase(made);
  return at;
}

void ProcessClocks::Enter(Process& process, pid_t thread) {
  // libcuda's own threads do what they do at the process's time.
  if (!has_thread_clocks() || IsLibcudas(process, thread)) return;
  process.now = std::max({process.own.Of(thread), process.lifted, passed_});
}

void ProcessClocks::Leave(Process& process, pid_t thread, bool runs) {
  if (!has_thread_clocks()) return;
  if (!IsLibcudas(process, thread)) {
    if (runs) {
      process.own.Goes(thread, process.now);
    } else {
      process.own.Stands(thread, process.now);
    }
  }
  if (served_ == process.id) served_ = 0;
  Settle(process);
}

ProcessClocks::Going::~Going() {
  if (!clocks_.has_thread_clocks()) return;
  if (!IsLibcudas(process_, thread_)) process_.own.Goes(thread_, process_.now);
  process_.now = served_;
  if (clocks_.served_ != process_.id) clocks_.Settle(process_);
}

void ProcessClocks::Settle(Process& process) {
  if (const auto earliest = process.own.Earliest()) {
    process.now = std::max({*earliest, process.lifted, passed_});
  }
}

void ProcessClocks::Raise(Process& process, pid_t thread, VirtualTime to) {
  if (has_thread_clocks() && !IsLibcudas(process, thread)) {
    process.own.Raise(thread, to);
  } else {
    process.now = std::max(process.now, to);
  }
}

void ProcessClocks::Lift(Process& process, VirtualTime to) {
  process.lifted = std::max(process.lifted, to);
  process.now = std::max(process.now, to);
}

VirtualTime ProcessClocks::TimeOf(pid_t id, pid_t thread) const {
  const auto process = processes_.find(id);
  if (!has_thread_clocks() || process == processes_.end()) return NowOf(id);
  return std::max({process->second->own.Of(thread), process->second->lifted, passed_});
}

void ProcessClocks::EndsThread(pid_t id, pid_t thread) {
  Process* process = Find(id);
  if (process == nullptr) return;
  process->own.Ends(thread);
  process->passed_over.erase(thread);
  if (has_thread_clocks()) Settle(*process);
}

void ProcessClocks::ServeAgain(pid_t id, pid_t thread) {
  served_ = id;
  Enter(Of(id), thread);
}

VirtualTime ProcessClocks::EndOf(const Process& process) const {
  return has_thread_clocks() ? TimeOf(process.id, process.id) : process.now;
}

}  // namespace phantora
