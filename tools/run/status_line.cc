#include "tools/run/status_line.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <utility>

#include "absl/strings/str_format.h"
#include "trap/log.h"

namespace phantora {
namespace {

using RealClock = std::chrono::steady_clock;

// So old the numbers are that are drawn, while calls come.
constexpr std::chrono::milliseconds kSample(50);
constexpr int kSamplesPerLine = 10;
// Speed and rate are those of the last two seconds.
constexpr size_t kWindow = 4;
// Moves nothing: the text of ranks may stand left of the cursor.
constexpr char kEraseToEnd[] = "\x1b[K";

void Write(int descriptor, const std::string& text) {
  // One write keeps it apart from what others write.
  [[maybe_unused]] ssize_t written = write(descriptor, text.data(), text.size());
}

bool InForeground(int descriptor) { return tcgetpgrp(descriptor) == getpgrp(); }

}  // namespace

std::string FormatProgress(const RunProgress& before, const RunProgress& now, double real_seconds) {
  const double simulated = static_cast<double>(now.simulated.picoseconds()) / 1e12;
  const double passed =
      static_cast<double>((now.simulated - before.simulated).picoseconds()) / 1e12;
  const double rate = real_seconds > 0 ? 1 / real_seconds : 0;
  return absl::StrFormat("%.3f s simulated, %d %s, %.3gx real time, %.0f kernels/s, %.1f GiB",
                         simulated, now.processes, now.processes == 1 ? "rank" : "ranks",
                         passed * rate, static_cast<double>(now.kernels - before.kernels) * rate,
                         static_cast<double>(now.memory_bytes) / (uint64_t{1} << 30));
}

bool StatusLine::Possible(int descriptor) {
  const char* terminal = std::getenv("TERM");
  return isatty(descriptor) == 1 && terminal != nullptr && *terminal != '\0' &&
         std::strcmp(terminal, "dumb") != 0;
}

StatusLine::StatusLine(int descriptor) : descriptor_(descriptor), thread_([this] { Run(); }) {}

void StatusLine::Set(const RunProgress& progress) {
  std::lock_guard lock(mutex_);
  progress_ = progress;
  wanted_.store(false, std::memory_order_relaxed);
}

void StatusLine::Stop() {
  {
    std::lock_guard lock(mutex_);
    if (stop_) return;
    stop_ = true;
  }
  stopping_.notify_all();
  thread_.join();
}

void StatusLine::Draw(std::string text) {
  winsize size{};
  ioctl(descriptor_, TIOCGWINSZ, &size);
  const size_t columns = size.ws_col == 0 ? 80 : size.ws_col;
  if (text.size() + 2 > columns || !InForeground(descriptor_)) return;
  // Over a longer one.
  widest_ = std::min(std::max(widest_, text.size()), columns - 2);
  text.insert(0, widest_ - text.size(), ' ');
  // DECSC and DECRC around it leave the cursor where it is.
  Write(descriptor_, absl::StrFormat("\x1b"
                                     "7\x1b[%dG %s%s\x1b"
                                     "8",
                                     columns - text.size() - 1, text, kEraseToEnd));
  SetLogPrelude(kEraseToEnd);
}

void StatusLine::Run() {
  std::deque<std::pair<RealClock::time_point, RunProgress>> past;
  past.emplace_back(RealClock::now(), RunProgress());
  std::unique_lock lock(mutex_);
  for (int sample = 1; !stopping_.wait_for(lock, kSample, [this] { return stop_; }); ++sample) {
    wanted_.store(true, std::memory_order_relaxed);
    if (sample % kSamplesPerLine != 0) continue;
    const RunProgress progress = progress_;
    lock.unlock();
    const auto now = RealClock::now();
    past.emplace_back(now, progress);
    if (past.size() > kWindow + 1) past.pop_front();
    const double seconds = std::chrono::duration<double>(now - past.front().first).count();
    Draw(FormatProgress(past.front().second, progress, seconds));
    lock.lock();
  }
  if (widest_ > 0 && InForeground(descriptor_)) Write(descriptor_, kEraseToEnd);
  SetLogPrelude("");
}

}  // namespace phantora
