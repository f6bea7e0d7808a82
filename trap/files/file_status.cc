#include "trap/files/file_status.h"

#include <linux/magic.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>

namespace phantora {
namespace {

using Node = SyntheticFiles::Node;

constexpr unsigned kDeviceMinor = 5;  // of the made-up file system that they are in
constexpr uint32_t kBlockBytes = 4096;

// As open() finds it: a device has no size, a directory's is nobody's affair.
uint64_t SizeOf(const Node& node) {
  const bool has_text = node.type == Node::kText || node.type == Node::kLink;
  return has_text ? node.text.size() : 0;
}

}  // namespace

mode_t ModeOf(const Node& node) {
  switch (node.type) {
    case Node::kText:
      return S_IFREG | 0444;
    case Node::kDevice:
      return S_IFCHR | 0666;
    case Node::kDirectory:
      return S_IFDIR | 0555;
    case Node::kLink:
      return S_IFLNK | 0777;
  }
  return 0;
}

struct stat StatOf(const Node& node) {
  struct stat result {};
  result.st_dev = makedev(0, kDeviceMinor);
  result.st_ino = node.inode;
  result.st_mode = ModeOf(node);
  result.st_nlink = 1;
  result.st_rdev = makedev(node.major, node.minor);
  result.st_size = static_cast<off_t>(SizeOf(node));
  result.st_blksize = kBlockBytes;
  return result;
}

struct statx StatxOf(const Node& node) {
  struct statx result {};
  result.stx_mask = STATX_BASIC_STATS;
  result.stx_blksize = kBlockBytes;
  result.stx_nlink = 1;
  result.stx_mode = static_cast<uint16_t>(ModeOf(node));
  result.stx_ino = node.inode;
  result.stx_size = SizeOf(node);
  result.stx_rdev_major = node.major;
  result.stx_rdev_minor = node.minor;
  result.stx_dev_minor = kDeviceMinor;
  return result;
}

struct statfs StatFsOf(std::string_view path) {
  struct statfs result {};
  const bool in_proc = path.substr(0, 6) == "/proc/", in_sys = path.substr(0, 5) == "/sys/";
  result.f_type = in_proc ? PROC_SUPER_MAGIC : in_sys ? SYSFS_MAGIC : TMPFS_MAGIC;
  result.f_bsize = result.f_frsize = kBlockBytes;
  result.f_namelen = 255;
  return result;
}

int AccessOf(const Node& node, uint64_t wanted) {
  const mode_t mode = ModeOf(node);
  if ((wanted & W_OK) != 0 && (mode & 0222) == 0) return EACCES;
  if ((wanted & X_OK) != 0 && (mode & 0111) == 0) return EACCES;
  return 0;
}

}  // namespace phantora
