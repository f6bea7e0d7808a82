// Serves the system calls that take a path.
#ifndef PHANTORA_TRAP_FILES_PATH_CALLS_H_
#define PHANTORA_TRAP_FILES_PATH_CALLS_H_

#include <linux/seccomp.h>

#include <map>
#include <string>

#include "trap/call_log.h"
#include "trap/files/directory_listings.h"
#include "trap/files/open_files.h"
#include "trap/files/synthetic_files.h"
#include "trap/linux/notify_listener.h"
#include "trap/linux/tracees.h"

namespace phantora {

class PathCalls {
 public:
  // `rank_nice`: see Supervisor::Options.
  PathCalls(OpenFiles* open_files, CallLog* log, int rank_nice)
      : open_files_(open_files), log_(log), rank_nice_(rank_nice) {}

  // Is it a path call that is certainly none of ours? Nearly all are (an import of
  // PyTorch makes 17,000), so this asks nothing about the process that makes it.
  static bool ContinuesUnseen(const seccomp_notif& notification);

  // Answers `notification` if it is a path call; false if it is another call. `files` are those
  // of the caller's host.
  bool Serve(const seccomp_notif& notification, const Tracee& tracee, const SyntheticFiles* files,
             NotifyListener& listener);

 private:
  struct Request;

  void Open(const Request& request);
  void Stat(const Request& request);
  void Statx(const Request& request);
  void Access(const Request& request);
  void ReadLink(const Request& request);

  OpenFiles* const open_files_;
  CallLog* const log_;
  const int rank_nice_;
  std::map<const SyntheticFiles*, DirectoryListings> listings_;
  // Contents of text nodes, made once.
  std::map<const SyntheticFiles::Node*, UniqueFd> texts_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_FILES_PATH_CALLS_H_
