#include "trap/launch/device_wall.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "trap/launch/hidden_files.h"

namespace phantora {
namespace {

// include/uapi/linux/landlock.h of Linux 6.12: newer than Debian 12's.
struct RulesetAttributes {
  uint64_t handled_access_fs, handled_access_net, scoped;
};
constexpr uint64_t kScopeSignal = 1ull << 1;
// The versions of the interface that have what is needed: LANDLOCK_ACCESS_FS_REFER, without which
// nothing could be moved between directories (Linux 5.19), and scopes (6.12).
constexpr int kReferVersion = 2, kScopeVersion = 6;
// Linux 6.2, include/uapi/linux/landlock.h.
constexpr uint64_t kTruncate = 1ull << 14;
constexpr int kTruncateVersion = 3;

constexpr uint64_t kOpen = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE;
constexpr uint64_t kMakeDevice = LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK;

int Version() {
  return static_cast<int>(
      syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION));
}

absl::Status Error(const std::string& what) {
  return absl::InternalError(absl::StrCat(what, ": ", std::strerror(errno)));
}

bool IsIn(const std::string& path, const std::string& directory) {
  return directory == "/" || absl::StartsWith(path, directory + "/");
}

std::string Resolved(const std::string& path) {
  std::error_code error;
  const auto resolved = std::filesystem::canonical(path, error);
  return error ? path : resolved.string();
}

// Names in a directory; empty if it cannot be read.
std::vector<std::string> Entries(const std::string& directory) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> open(opendir(directory.c_str()), closedir);
  if (open == nullptr) return names;
  while (const dirent* entry = readdir(open.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool IsNvidias(const std::string& device) {
  std::ifstream file(device + "/vendor");
  std::string vendor;
  return (file >> vendor) && vendor == "0x10de";
}

}  // namespace

std::vector<std::string> DeviceWall::RealDevices() {
  std::vector<std::string> devices;
  for (const std::string& name : Entries("/dev")) {
    if (absl::StartsWith(name, "nvidia")) devices.push_back("/dev/" + name);
  }
  for (const std::string& name : Entries("/sys/class/drm")) {
    if (!IsNvidias(absl::StrCat("/sys/class/drm/", name, "/device"))) continue;
    if (access(absl::StrCat("/dev/dri/", name).c_str(), F_OK) == 0) {
      devices.push_back("/dev/dri/" + name);
    }
  }
  for (const std::string& name : Entries("/sys/bus/pci/devices")) {
    const std::string device = Resolved("/sys/bus/pci/devices/" + name);
    if (IsNvidias(device)) devices.push_back(device);
  }
  if (devices.empty()) return devices;
  for (const char* all : {"/dev/mem", "/dev/kmem", "/dev/port"}) {
    if (access(all, F_OK) == 0) devices.push_back(all);
  }
  return devices;
}

absl::StatusOr<DeviceWall> DeviceWall::Build(const std::vector<std::string>& closed) {
  const int version = Version();
  if (version < kReferVersion) {
    return absl::UnimplementedError(
        version < 0 ? absl::StrCat("Landlock is not to be had: ", std::strerror(errno))
                    : absl::StrCat("this kernel's Landlock has version ", version,
                                   ", which lets nothing be moved between directories"));
  }
  DeviceWall wall;
  // Opening is restricted only where something is closed: message queues, for one, lie in a file
  // system that no rule can name.
  wall.handled_ = kMakeDevice | LANDLOCK_ACCESS_FS_REFER;
  if (!closed.empty()) wall.handled_ |= kOpen | (version >= kTruncateVersion ? kTruncate : 0);
  RulesetAttributes attributes{wall.handled_, 0, 0};
  wall.keeps_signals_ = version >= kScopeVersion;
  if (wall.keeps_signals_) attributes.scoped = kScopeSignal;
  // Older kernels take what they know of it.
  const size_t size = wall.keeps_signals_ ? sizeof attributes : sizeof attributes.handled_access_fs;
  wall.ruleset_ =
      UniqueFd(static_cast<int>(syscall(SYS_landlock_create_ruleset, &attributes, size, 0)));
  if (!wall.ruleset_.valid()) return Error("landlock_create_ruleset");
  for (const std::string& path : closed) wall.closed_.push_back(Resolved(path));
  if (auto status = wall.Allow("/", wall.closed_); !status.ok()) return status;
  return wall;
}

absl::Status DeviceWall::Allow(const std::string& directory,
                               const std::vector<std::string>& closed) {
  const bool goes_through = std::any_of(
      closed.begin(), closed.end(), [&](const std::string& path) { return IsIn(path, directory); });
  if (!goes_through) return AllowOne(directory);
  for (const std::string& name : Entries(directory)) {
    const std::string path = absl::StrCat(directory == "/" ? "" : directory, "/", name);
    if (std::find(closed.begin(), closed.end(), path) != closed.end()) continue;
    if (auto status = Allow(path, closed); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status DeviceWall::AllowOne(const std::string& path) {
  // Of a link, the link: where it leads is allowed or closed by itself.
  const UniqueFd file(open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!file.valid()) return absl::OkStatus();  // it is gone, or cannot be reached
  struct stat status;
  if (fstat(file.get(), &status) != 0 || S_ISLNK(status.st_mode)) return absl::OkStatus();
  landlock_path_beneath_attr rule{};
  rule.parent_fd = file.get();
  rule.allowed_access = handled_ & (kOpen | kTruncate);
  if (S_ISDIR(status.st_mode)) rule.allowed_access |= LANDLOCK_ACCESS_FS_REFER;
  if (rule.allowed_access == 0) return absl::OkStatus();
  if (syscall(SYS_landlock_add_rule, ruleset_.get(), LANDLOCK_RULE_PATH_BENEATH, &rule, 0) != 0) {
    return Error(absl::StrCat("landlock_add_rule of ", path));
  }
  return absl::OkStatus();
}

int DeviceWall::TryHiding() const {
  const pid_t child = fork();
  if (child < 0) return errno;
  if (child == 0) _exit(HideFiles(closed_));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
}

int DeviceWall::Hide() const { return HideFiles(closed_); }

int DeviceWall::Enter() const {
  return syscall(SYS_landlock_restrict_self, ruleset_.get(), 0) == 0 ? 0 : errno;
}

}  // namespace phantora
