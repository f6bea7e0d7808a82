#include "trap/files/path_calls.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "trap/files/file_status.h"
#include "trap/linux/process_tree.h"
#include "trap/log.h"

namespace phantora {
namespace {

using Node = SyntheticFiles::Node;
using Verdict = SyntheticFiles::Verdict;

// Linux's PATH_MAX.
constexpr size_t kLongestPath = 4096;
// O_LARGEFILE as the kernel has it; the C library says 0, but some programs do not.
constexpr uint64_t kLargeFile = 0100000;
// Flags of an open that only reads what is there, and does not depend on who opens.
constexpr uint64_t kPlainFlags =
    O_CLOEXEC | O_NONBLOCK | O_DIRECTORY | O_NOFOLLOW | O_NOCTTY | kLargeFile;

// nullopt: its memory cannot be read.
std::optional<uint64_t> OpenFlags(const TrappedCall& call) {
  switch (call.number()) {
    case SYS_creat:
      return O_CREAT | O_WRONLY | O_TRUNC;
    case SYS_open:
      return call.Word(1);
    case SYS_openat:
      return call.Word(2);
    default:
      break;
  }
  const auto how = call.memory().ReadObject<open_how>(call.Address(2));
  if (!how) return std::nullopt;
  return how->flags;
}

bool OnlyReads(uint64_t flags) {
  return (flags & O_ACCMODE) == O_RDONLY && (flags & (O_CREAT | O_TRUNC | O_PATH)) == 0;
}

bool Writes(uint64_t flags) {
  return (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC)) != 0;
}

// Do files of the host lie there beside made-up ones, that are the same for every process?
bool HasNeighbours(const std::string& path) {
  if (absl::StartsWith(path, "/sys/")) return true;
  return absl::StartsWith(path, "/proc/") && !absl::ascii_isdigit(path[6]);
}

// Do the thread and this process have the same rights to open files?
bool SameRights(pid_t thread) {
  if (geteuid() != 0) return true;  // it cannot have got others
  struct stat status;
  return stat(absl::StrCat("/proc/", thread).c_str(), &status) == 0 && status.st_uid == 0;
}

}  // namespace

struct PathCalls::Request {
  const TrappedCall& call;
  const PathArguments& arguments;
  const std::string& path;
  const Node& node;
  const SyntheticFiles* files;
  uint64_t open_flags;
};

std::optional<PathCalls::Paths> PathCalls::Read(const CallArguments& call) {
  const auto arguments = PathArgumentsOf(call.number());
  if (!arguments) return std::nullopt;
  const RemoteMemory memory(call.thread());
  const auto read = [&](int index) {
    return memory.ReadString(call.Address(index), kLongestPath).value_or("");
  };
  Paths paths{*arguments, read(arguments->path), ""};
  if (arguments->other_path >= 0) paths.other = read(arguments->other_path);
  if (!PathResolver::MayMatter(paths.path) && !PathResolver::MayMatter(paths.other)) {
    return std::nullopt;
  }
  return paths;
}

std::string PathCalls::Resolve(const TrappedCall& call, int directory,
                               const std::string& path) const {
  std::string absolute = resolver_.Absolute(call.process(), directory, path);
  // A directory that is made up is open as its listing.
  for (const auto& [files, listings] : listings_) {
    if (auto listed = listings.BehindListing(absolute)) {
      return resolver_.Absolute(call.process(), AT_FDCWD, *listed);
    }
  }
  return absolute;
}

void PathCalls::Serve(const TrappedCall& call, const Paths& paths, const SyntheticFiles* files) {
  const PathArguments& arguments = paths.arguments;
  const bool has_directory = arguments.directory >= 0;
  const int directory = has_directory ? call.Int(arguments.directory) : AT_FDCWD;
  if (ServePath(call, arguments, paths.path, directory, files)) return;
  if (arguments.other_path >= 0) {
    const int other = has_directory ? call.Int(arguments.other_path - 1) : AT_FDCWD;
    if (ServePath(call, arguments, paths.other, other, files)) return;
  }
  call.Continue();
}

bool PathCalls::ServePath(const TrappedCall& call, const PathArguments& arguments,
                          const std::string& path, int directory, const SyntheticFiles* files) {
  if (!PathResolver::MayMatter(path)) return false;
  uint64_t flags = 0;
  if (arguments.action == PathAction::kOpen) {
    const auto read = OpenFlags(call);
    if (!read) return false;
    flags = *read;
  }
  std::string absolute = Resolve(call, directory, path);
  if (absolute.empty()) return false;
  auto followed = files->Follow(absolute, FollowsLink(call, arguments, flags));
  if (!followed) {
    call.Error(ELOOP);
    return true;
  }
  absolute = *std::move(followed);
  if (arguments.action == PathAction::kOpen && Writes(flags) && options_.members != nullptr &&
      options_.members->IsFileOfOthers(call.thread(), absolute)) {
    call.Error(EACCES);
    return true;
  }
  const auto found = files->Find(absolute);
  switch (found.verdict) {
    case Verdict::kHost:
      return arguments.action == PathAction::kOpen && OpenHostFile(call, absolute, flags);
    case Verdict::kAbsent: {
      options_.log->Line(call.process(), absl::StrCat("path ", absolute, ": not there"));
      const bool makes = arguments.action == PathAction::kMake || (flags & O_CREAT) != 0;
      call.Error(makes ? EACCES : ENOENT);
      return true;
    }
    case Verdict::kReplaced: {
      if (arguments.action != PathAction::kOpen || !OnlyReads(flags)) return false;
      const auto is_readable = options_.probe->IsReadable(call.thread(), absolute);
      if (!is_readable) {
        LogWarning(absl::StrCat("a file system does not answer for ", absolute,
                                "; the program gets its own file there"));
      }
      if (!is_readable.value_or(false)) return false;
      break;
    }
    case Verdict::kSynthetic:
      break;
  }
  if (!call.pending()) return true;  // what was resolved may have been another's
  ServeNode({call, arguments, absolute, *found.node, files, flags});
  return true;
}

void PathCalls::ServeNode(const Request& request) {
  const TrappedCall& call = request.call;
  const auto answer = [&](const auto& result) {
    const bool written = call.memory().WriteObject(call.Address(request.arguments.buffer), result);
    written ? call.Value(0) : call.Error(EFAULT);
  };
  switch (request.arguments.action) {
    case PathAction::kOpen:
      return Open(request);
    case PathAction::kStat:
      return answer(StatOf(request.node));
    case PathAction::kStatx:
      return answer(StatxOf(request.node));
    case PathAction::kStatFs:
      return answer(StatFsOf(request.path));
    case PathAction::kAccess:
      return call.Result(-AccessOf(request.node, call.Word(request.arguments.path + 1)));
    case PathAction::kReadLink: {
      if (request.node.type != Node::kLink) return call.Error(EINVAL);
      const std::string& target = request.node.text;
      const uint64_t length =
          std::min<uint64_t>(target.size(), call.Word(request.arguments.buffer + 1));
      const bool written =
          call.memory().Write(call.Address(request.arguments.buffer), target.data(), length);
      return written ? call.Value(static_cast<int64_t>(length)) : call.Error(EFAULT);
    }
    case PathAction::kMake:
      return call.Error(EEXIST);
    case PathAction::kRemove:
      return call.Error(EACCES);
  }
}

void PathCalls::Open(const Request& request) {
  const TrappedCall& call = request.call;
  const uint64_t flags = request.open_flags;
  if ((flags & O_CREAT) != 0 && (flags & O_EXCL) != 0) return call.Error(EEXIST);
  if ((flags & O_DIRECTORY) != 0 && request.node.type != Node::kDirectory) {
    return call.Error(ENOTDIR);
  }
  UniqueFd file;
  int error = 0;
  switch (request.node.type) {
    case Node::kText:
      file = OpenText(request, error);
      break;
    case Node::kDevice:
      file = OpenDevice(request, error);
      break;
    case Node::kDirectory:
      file = OpenDirectory(request, error);
      break;
    case Node::kLink:
      error = ELOOP;
      break;
  }
  if (!file.valid()) return call.Error(error);
  options_.log->Line(call.process(), absl::StrCat("open ", request.path));
  const auto status = call.Descriptor(file.get(), (flags & O_CLOEXEC) != 0);
  if (absl::IsResourceExhausted(status)) call.Error(EMFILE);
}

UniqueFd PathCalls::OpenText(const Request& request, int& error) {
  const Node& node = request.node;
  error = EACCES;
  if ((request.open_flags & O_ACCMODE) != O_RDONLY) return {};
  UniqueFd& text = texts_[&node];
  if (!text.valid()) {
    // The name is what /proc/PID/maps shows.
    const std::string name = request.path.substr(request.path.rfind('/') + 1);
    text = UniqueFd(memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
    // Sealed: through /proc/self/fd a rank could open it for writing.
    if (pwrite(text.get(), node.text.data(), node.text.size(), 0) !=
            static_cast<ssize_t>(node.text.size()) ||
        fcntl(text.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) !=
            0) {
      text.reset();
      error = ENOMEM;
      return {};
    }
  }
  error = ENFILE;
  // Opened anew, so that every reader has its own offset and none can write.
  return UniqueFd(open(absl::StrCat("/proc/self/fd/", text.get()).c_str(), O_RDONLY | O_CLOEXEC));
}

UniqueFd PathCalls::OpenDevice(const Request& request, int& error) {
  const pid_t process = request.call.process();
  std::lock_guard lock(*options_.machine_lock);
  auto device = request.node.open(process);
  error = ENODEV;
  if (device == nullptr) return {};
  error = ENFILE;
  auto opened = options_.open_files->Add(std::move(device), process);
  MakeNice(process, options_.rank_nice);
  return opened.ok() ? *std::move(opened) : UniqueFd();
}

UniqueFd PathCalls::OpenDirectory(const Request& request, int& error) {
  error = EISDIR;
  if ((request.open_flags & O_ACCMODE) != O_RDONLY) return {};
  error = ENFILE;
  return listings_.try_emplace(request.files, request.files).first->second.Open(request.path);
}

bool PathCalls::OpenHostFile(const TrappedCall& call, const std::string& path, uint64_t flags) {
  if (!HasNeighbours(path) || (flags & ~kPlainFlags) != 0 || !SameRights(call.thread())) {
    return false;
  }
  const UniqueFd root(
      open(absl::StrCat("/proc/", call.thread(), "/root").c_str(), O_PATH | O_CLOEXEC));
  if (!root.valid() || !call.pending()) return false;
  open_how how{};
  how.flags = flags | O_CLOEXEC;
  // Links such as /proc/self mean another file to whom they lead.
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  const UniqueFd file(
      static_cast<int>(syscall(SYS_openat2, root.get(), path.c_str() + 1, &how, sizeof how)));
  if (!file.valid()) {
    if (errno != ENOENT) return false;
    call.Error(ENOENT);
    return true;
  }
  const auto status = call.Descriptor(file.get(), (flags & O_CLOEXEC) != 0);
  if (absl::IsResourceExhausted(status)) call.Error(EMFILE);
  return true;
}

}  // namespace phantora
