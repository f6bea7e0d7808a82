#include "trap/check/library/supervisor_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "trap/check/library/call_site.h"

namespace phantora::check {
namespace {

// Opened anew each time: a program may close descriptors that are not its own, and a forked child
// is another process.
void Call(unsigned long request, void* argument) {
  const int before = errno;
  const int device = open(kDevice, O_RDWR | O_CLOEXEC);
  if (device >= 0) {
    while (ioctl(device, request, argument) < 0 && errno == EINTR) {
    }
    close(device);
  }
  errno = before;
}

}  // namespace

void TellAllocated(uint64_t address, uint64_t bytes, Kind kind) {
  if (address == 0 || bytes == 0) return;
  Allocated allocated = {.address = address, .bytes = bytes, .kind = kind};
  DescribeCallSite(allocated.where, sizeof allocated.where);
  Call(kAllocated, &allocated);
}

void TellFreed(uint64_t address, Freeing what, int error) {
  if (address == 0) return;
  Freed freed = {.address = address, .what = what, .error = error};
  if (what == Freeing::kFailed) DescribeCallSite(freed.where, sizeof freed.where);
  Call(kFreed, &freed);
}

void TellRefused(const char* function, int error) {
  Refused refused = {.error = error};
  strncpy(refused.function, function, sizeof refused.function - 1);
  DescribeCallSite(refused.where, sizeof refused.where);
  Call(kRefused, &refused);
}

}  // namespace phantora::check
