#include "trap/linux/descriptor_copy.h"

#include <sched.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <future>
#include <system_error>
#include <thread>

namespace phantora {
namespace {

bool Lingers(int file) {
  linger setting{};
  socklen_t size = sizeof setting;
  return getsockopt(file, SOL_SOCKET, SO_LINGER, &setting, &size) == 0 && setting.l_onoff != 0 &&
         setting.l_linger > 0;
}

// Who ends does not wait for what its descriptors have to send (net/ipv4/af_inet.c inet_release):
// so the last descriptor is that of a thread with a table of its own, which ends.
void CloseLingering(UniqueFd file) {
  std::promise<void> copied, closed;
  try {
    std::thread ending([&] {
      unshare(CLONE_FILES);  // if that fails (no memory), who closes waits
      copied.set_value();
      closed.get_future().wait();
    });
    copied.get_future().wait();
    file.reset();
    closed.set_value();
    ending.join();
  } catch (const std::system_error&) {  // no thread can be had: then it waits
  }
}

}  // namespace

DescriptorCopy DescriptorCopy::Of(int pidfd, int descriptor) {
  return DescriptorCopy(UniqueFd(static_cast<int>(syscall(SYS_pidfd_getfd, pidfd, descriptor, 0))));
}

void DescriptorCopy::reset() {
  if (!file_.valid()) return;
  if (Lingers(file_.get())) return CloseLingering(std::move(file_));
  file_.reset();
}

}  // namespace phantora
