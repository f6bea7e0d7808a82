#include "fabric/library/device_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>

#include "fabric/library/last_error.h"

namespace phantora::nccl {
namespace {

DeviceCall replacement = nullptr;

// Communicators belong to the process that opened the device. A child that uses NCCL opens it anew,
// and leaves alone the descriptor that it inherited.
int Descriptor() {
  static std::mutex mutex;
  static int descriptor = -1;
  static pid_t owner = 0;
  const std::lock_guard lock(mutex);
  const pid_t self = getpid();
  if (descriptor < 0 || owner != self) {
    descriptor = open(kDevice, O_RDWR | O_CLOEXEC);
    owner = self;
  }
  return descriptor;
}

int64_t MonotonicNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

}  // namespace

int CallDevice(unsigned long request, void* argument) {
  if (replacement != nullptr) return replacement(request, argument);
  const int descriptor = Descriptor();
  if (descriptor < 0) return errno == ENOENT || errno == ENXIO ? ENODEV : errno;
  while (ioctl(descriptor, request, argument) < 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

ncclResult_t CheckCall(int error, const char* what) {
  switch (error) {
    case 0:
      return ncclSuccess;
    case ENODEV:
      return FailLoudly(ncclSystemError, "Phantora's libnccl.so.2 works only under phantora-run");
    case EINVAL:
      return FailLoudly(ncclInvalidArgument, "%s: the arguments make no sense", what);
    case EBADF:
      return FailLoudly(ncclInvalidUsage, "%s: the communicator is no longer there", what);
    case EPERM:
      return FailLoudly(ncclInvalidUsage, "%s: the GPU does not belong to this process", what);
    case ENOSPC:
      return FailLoudly(ncclSystemError, "%s: too many communicators", what);
    default:
      return FailLoudly(ncclSystemError, "%s: %s", what, strerror(error));
  }
}

void SetDeviceForTest(DeviceCall call) { replacement = call; }

void Backoff::Sleep() {
  constexpr int64_t kLongestNap = 10'000'000, kPatience = 1'000'000'000, kLateNap = 100'000'000;
  const int64_t now = MonotonicNs();
  if (start_ns_ < 0) start_ns_ = now;
  const int64_t nap = now - start_ns_ > kPatience ? kLateNap : nap_ns_;
  nap_ns_ = std::min(2 * nap_ns_, kLongestNap);
  const timespec time = {nap / 1'000'000'000, nap % 1'000'000'000};
  nanosleep(&time, nullptr);
}

}  // namespace phantora::nccl
