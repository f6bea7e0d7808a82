#include "trap/files/open_files.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace phantora {
namespace {

// Of the supervisor's descriptors, one process gets at most this part, so that the
// greed of one rank is not felt by the others; but always some.
constexpr size_t kShare = 16;
constexpr size_t kFewest = 256;

// The inode in "pipe:[123]", which no file can be called: their names begin with a slash.
std::optional<ino_t> PipeOf(absl::string_view name) {
  ino_t inode = 0;
  if (!absl::ConsumePrefix(&name, "pipe:[") || !absl::ConsumeSuffix(&name, "]") ||
      !absl::SimpleAtoi(name, &inode)) {
    return std::nullopt;
  }
  return inode;
}

}  // namespace

OpenFiles::OpenFiles(int epoll) : epoll_(epoll) {
  rlimit descriptors{};
  getrlimit(RLIMIT_NOFILE, &descriptors);
  most_per_process_ = std::max<size_t>(descriptors.rlim_cur / kShare, kFewest);
}

void OpenFiles::Uncount(pid_t opener) {
  auto it = opened_by_.find(opener);
  if (it != opened_by_.end() && --it->second == 0) opened_by_.erase(it);
}

absl::StatusOr<UniqueFd> OpenFiles::Add(std::shared_ptr<DeviceFile> device, pid_t owner) {
  const pid_t opener = owner;
  auto opened = opened_by_.find(opener);
  if (opened != opened_by_.end() && opened->second >= most_per_process_) {
    return absl::ResourceExhaustedError("the process has too many emulated files open");
  }
  DeviceFile::Handle handle = device->MakeHandle();
  struct stat status;
  if (!handle.keeper.valid() || !handle.file.valid() || fstat(handle.keeper.get(), &status) != 0) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot open another emulated file (",
                                                     files_.size(),
                                                     " are open): ", std::strerror(errno)));
  }
  if (handle.tells_last_close) {
    owner = 0;
    epoll_event event{};
    event.events = 0;  // errors and hang-ups are always reported
    event.data.fd = handle.keeper.get();
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, handle.keeper.get(), &event) != 0) {
      return absl::ResourceExhaustedError(absl::StrCat("epoll_ctl: ", std::strerror(errno)));
    }
  }
  if (S_ISFIFO(status.st_mode)) pipes_ = status.st_dev;
  const Identity identity{status.st_dev, status.st_ino};
  keepers_[handle.keeper.get()] = identity;
  files_[identity] = File{std::move(device), std::move(handle.keeper), owner, opener};
  ++opened_by_[opener];
  return std::move(handle.file);
}

std::shared_ptr<DeviceFile> OpenFiles::Find(pid_t process, int descriptor) {
  char path[64], target[40];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", process, descriptor);
  // Any descriptor comes here, also of a file whose server does not answer (FUSE, a
  // network file system): neither its name nor cached attributes wait for that.
  const ssize_t length = readlink(path, target, sizeof target);
  const absl::string_view name(target, length > 0 ? static_cast<size_t>(length) : 0);
  Identity identity{};
  if (const auto inode = PipeOf(name)) {
    identity = {pipes_, *inode};
  } else if (absl::StartsWith(name, "/memfd:p")) {
    struct statx status;
    if (statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_INO, &status) != 0) return nullptr;
    identity = {makedev(status.stx_dev_major, status.stx_dev_minor),
                static_cast<ino_t>(status.stx_ino)};
  }
  const auto it = files_.find(identity);
  return it == files_.end() ? nullptr : it->second.device;
}

std::shared_ptr<DeviceFile> OpenFiles::HungUp(int keeper,
                                              const std::function<bool(pid_t)>& is_ending) {
  auto it = keepers_.find(keeper);
  // Closing is not enough to leave epoll: the open file may have another descriptor
  // here (an event's, while its object lives), and would be reported for ever under
  // a number that is soon another's.
  epoll_ctl(epoll_, EPOLL_CTL_DEL, keeper, nullptr);
  if (it == keepers_.end()) return nullptr;
  auto file = files_.find(it->second);
  keepers_.erase(it);
  if (file == files_.end()) return nullptr;
  if (is_ending(file->second.opener)) {
    file->second.owner = file->second.opener;
    return nullptr;
  }
  Uncount(file->second.opener);
  auto device = std::move(file->second.device);
  files_.erase(file);
  return device;
}

std::vector<std::shared_ptr<DeviceFile>> OpenFiles::OwnerDied(pid_t owner) {
  std::vector<std::shared_ptr<DeviceFile>> devices;
  for (auto it = files_.begin(); it != files_.end();) {
    if (it->second.owner == owner) {
      devices.push_back(std::move(it->second.device));
      Uncount(it->second.opener);
      keepers_.erase(it->second.keeper.get());
      files_.erase(it++);
    } else {
      ++it;
    }
  }
  return devices;
}

}  // namespace phantora
