#include "trap/time/waits/watched_wait.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace phantora {
namespace {

// What a signalfd is for (fs/signalfd.c signalfd_show_fdinfo); 0 for other files.
uint64_t SignalfdMask(int file) {
  char path[64], text[256];
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  const ssize_t length = readlink(path, text, sizeof text - 1);
  if (length <= 0) return 0;
  text[length] = '\0';
  if (strcmp(text, "anon_inode:[signalfd]") != 0) return 0;
  snprintf(path, sizeof path, "/proc/self/fdinfo/%d", file);
  const UniqueFd information(open(path, O_RDONLY | O_CLOEXEC));
  const ssize_t size = information.valid() ? read(information.get(), text, sizeof text - 1) : 0;
  text[std::max<ssize_t>(size, 0)] = '\0';
  const char* mask = strstr(text, "sigmask:");
  return mask == nullptr ? 0 : strtoull(mask + strlen("sigmask:"), nullptr, 16);
}

}  // namespace

int WatchedWait::WatchDescriptors(int pidfd, size_t most) {
  if (watches_.empty()) return -1;
  if (watches_.size() > most) {
    LeaveToKernel("too many descriptors are waited for");
    return -1;
  }
  watched_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  for (const Watch& watch : watches_) {
    DescriptorCopy copy = DescriptorCopy::Of(pidfd, watch.descriptor);
    const bool denied = !copy.valid() && errno == EPERM;
    epoll_event event{};
    event.events = watch.events;
    if (const uint64_t signals = SignalfdMask(copy.get()); signals != 0) {
      signals_ |= signals;
      continue;
    }
    if (!copy.valid() || epoll_ctl(watched_.get(), EPOLL_CTL_ADD, copy.get(), &event) != 0) {
      // Not open, or a regular file, which is always ready.
      denied ? LeaveToKernel("pidfd_getfd is denied") : Continue();
      return -1;
    }
    copies_.push_back(std::move(copy));
  }
  return watched_.get();
}

std::vector<int> WatchedWait::files() const {
  std::vector<int> files;
  for (const DescriptorCopy& copy : copies_) files.push_back(copy.get());
  return files;
}

void WatchedWait::ReleaseDescriptors() {
  copies_.clear();
  watched_.reset();
}

}  // namespace phantora
