// How far a run is, in one line of the terminal.
#ifndef PHANTORA_TOOLS_RUN_STATUS_LINE_H_
#define PHANTORA_TOOLS_RUN_STATUS_LINE_H_

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "clock/virtual_time.h"

namespace phantora {

struct RunProgress {
  VirtualSpan simulated;  // since the start
  int processes = 0;      // that use a GPU
  uint64_t kernels = 0;
  uint64_t memory_bytes = 0;  // of this machine's
};

// A terminal that ranks write to as well, at any moment. So the line never moves their
// text or the cursor: it stands at the right edge of the line that the cursor is on, and
// what ranks write goes over it.
class StatusLine {
 public:
  // Whether `descriptor` is a terminal that understands this, and is ours to write to.
  static bool Possible(int descriptor);

  // Draws from a thread of its own, twice a second, to `descriptor`.
  explicit StatusLine(int descriptor);
  ~StatusLine() { Stop(); }

  // Asked often, by the thread that knows the progress: is a new one wanted? Costs a load.
  bool Wanted() const { return wanted_.load(std::memory_order_relaxed); }
  void Set(const RunProgress& progress);

  // Removes the line.
  void Stop();

 private:
  void Run();
  void Draw(std::string text);

  const int descriptor_;
  std::atomic<bool> wanted_{true};
  std::mutex mutex_;
  std::condition_variable stopping_;
  bool stop_ = false;
  RunProgress progress_;
  size_t widest_ = 0;  // line so far
  std::thread thread_;
};

// What the line says: `now`, and speed and rate since `before`, `real_seconds` earlier.
std::string FormatProgress(const RunProgress& before, const RunProgress& now, double real_seconds);

}  // namespace phantora

#endif  // PHANTORA_TOOLS_RUN_STATUS_LINE_H_
