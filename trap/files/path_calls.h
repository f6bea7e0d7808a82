// Serves the system calls that take a path.
#ifndef PHANTORA_TRAP_FILES_PATH_CALLS_H_
#define PHANTORA_TRAP_FILES_PATH_CALLS_H_

#include <linux/seccomp.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trap/call_log.h"
#include "trap/files/directory_listings.h"
#include "trap/files/host_file_probe.h"
#include "trap/files/open_files.h"
#include "trap/files/path_arguments.h"
#include "trap/files/path_resolver.h"
#include "trap/files/synthetic_files.h"
#include "trap/linux/run_members.h"
#include "trap/linux/trapped_call.h"
#include "trap/turn_lock.h"

namespace phantora {

class PathCalls {
 public:
  struct Options {
    OpenFiles* open_files;
    CallLog* log;
    // Held while a device is made.
    TurnLock* machine_lock;
    int rank_nice = 0;  // see Supervisor::Options
    ProcessLinks* links = nullptr;
    HostFileProbe* probe = nullptr;
    const RunMembers* members = nullptr;  // nullptr: files of all processes may be written
  };
  explicit PathCalls(const Options& options) : options_(options), resolver_(options.links) {}

  // The paths of a call, as its memory had them when they were read: once.
  struct Paths {
    PathArguments arguments;
    std::string path;
    std::string other;  // of a call that has two
  };
  // nullopt: it is certainly about none of the made-up files, and the kernel's affair. Nearly all
  // are (an import of PyTorch makes 17,000), so this asks nothing about the process that calls.
  static std::optional<Paths> Read(const CallArguments& call);

  // Answers the call. `files` are those of the caller's host.
  void Serve(const TrappedCall& call, const Paths& paths, const SyntheticFiles* files);

 private:
  struct Request;

  // What one path of the call means; answers for what is made up and returns true.
  bool ServePath(const TrappedCall& call, const PathArguments& arguments, const std::string& path,
                 int directory, const SyntheticFiles* files);
  std::string Resolve(const TrappedCall& call, int directory, const std::string& path) const;
  void ServeNode(const Request& request);
  void Open(const Request& request);
  // Of a text, a device or a directory. Invalid, with an error number in `error`.
  UniqueFd OpenText(const Request& request, int& error);
  UniqueFd OpenDevice(const Request& request, int& error);
  UniqueFd OpenDirectory(const Request& request, int& error);
  // Opens a file of the host for the caller where made-up ones are its neighbours, so that the
  // name that was looked at is the one that is opened. False: that is left to the kernel.
  bool OpenHostFile(const TrappedCall& call, const std::string& path, uint64_t flags);

  const Options options_;
  const PathResolver resolver_;
  std::map<const SyntheticFiles*, DirectoryListings> listings_;
  // Contents of text nodes, made once.
  std::map<const SyntheticFiles::Node*, UniqueFd> texts_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_FILES_PATH_CALLS_H_
