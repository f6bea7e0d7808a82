// What the program's own code is learned to take, within a run and, with a file, across runs.
#ifndef PHANTORA_TOOLS_RUN_LEARNED_HOST_TIME_H_
#define PHANTORA_TOOLS_RUN_LEARNED_HOST_TIME_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "clock/host_profile.h"
#include "clock/host_time.h"
#include "trap/time/host_segments.h"

namespace phantora {

class LearnedHostTime {
 public:
  // `file`: where it is there, costs are from it alone; where it is not, it gets what is learned;
  // empty: neither. Errors: it is no host profile, or cannot be read or written.
  static absl::StatusOr<std::unique_ptr<LearnedHostTime>> Open(const HostTime& host,
                                                               const std::string& file);
  // Of a run that is only checked: writes nothing.
  static absl::Status Check(const std::string& file);

  HostSegments& segments() { return segments_; }
  // Writes what was learned, if that was asked for.
  absl::Status Close();
  // Where the costs were from, for the end of the run.
  std::string Line() const;

 private:
  LearnedHostTime(const HostTime& host, std::string file, std::optional<HostProfile> known)
      : file_(std::move(file)),
        known_(std::move(known)),
        segments_({.host = host, .known = known_ ? &*known_ : nullptr}) {}
  std::string Partial() const { return file_ + ".partial"; }

  const std::string file_;
  const std::optional<HostProfile> known_;
  HostSegments segments_;
};

}  // namespace phantora

#endif  // PHANTORA_TOOLS_RUN_LEARNED_HOST_TIME_H_
