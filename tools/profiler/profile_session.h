// Measures a list of launches with a worker process, which is started anew when it fails.
#ifndef PHANTORA_TOOLS_PROFILER_PROFILE_SESSION_H_
#define PHANTORA_TOOLS_PROFILER_PROFILE_SESSION_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "profiles/kernels/launch_request.h"
#include "tools/profiler/line_process.h"
#include "tools/profiler/replay_result.h"

namespace phantora {

class ProfileSession {
 public:
  struct Options {
    std::vector<std::string> worker;   // a command that runs RunReplayWorker()
    std::chrono::seconds timeout{30};  // for one launch, in real time
    bool any_gpu = false;              // also if it is not the one that was emulated
  };
  // Errors: the worker does not start, or has another GPU than `header` says.
  static absl::StatusOr<std::unique_ptr<ProfileSession>> Start(Options options,
                                                               const RequestHeader& header);

  const ProfiledGpu& gpu() const { return gpu_; }
  // `line`: as it was read; is kept for a worker that is started later.
  void AddImage(uint64_t id, std::string line) { images_[id] = std::move(line); }
  // A launch that spoils a worker is tried once more in a new one, with its memory zeros, before
  // it is called a failure.
  ReplayResult Measure(const LaunchRequest& request);

  int restarts() const { return restarts_; }

 private:
  explicit ProfileSession(Options options) : options_(std::move(options)) {}
  absl::Status StartWorker();
  ReplayResult Try(const LaunchRequest& request);

  const Options options_;
  ProfiledGpu gpu_;
  std::unique_ptr<LineProcess> worker_;
  std::map<uint64_t, std::string> images_;
  std::map<uint64_t, bool> sent_;  // to this worker
  int restarts_ = 0;
};

// "2026-11-22", of UTC.
std::string Today();

// Rows of kernels.tsv, one for each kind of work; of several launches of the same, their mean.
class ProfiledRows {
 public:
  void Add(const LaunchRequest& request, const ReplayTime& time);
  // With a comment that says where they come from, and the columns' names if this is a file's
  // beginning. `date`: 2026-11-22.
  std::string Text(const ProfiledGpu& gpu, const std::string& date, bool header = true) const;
  size_t size() const { return rows_.size(); }

 private:
  struct Row {
    double microseconds = 0, launches = 0, error = 0, shortest = 0, longest = 0;
  };
  std::map<std::string, Row> rows_;
};

}  // namespace phantora

#endif  // PHANTORA_TOOLS_PROFILER_PROFILE_SESSION_H_
