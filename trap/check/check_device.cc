#include "trap/check/check_device.h"

#include <cerrno>

namespace phantora {

int CheckDevice::Ioctl(CallContext& call, uint32_t command, RemoteAddress argument) {
  if (command == check::kAllocated) {
    const auto allocated = call.memory().ReadObject<check::Allocated>(argument);
    return allocated ? -check_->Allocated(call.process(), *allocated) : -EFAULT;
  }
  if (command == check::kFreed) {
    const auto freed = call.memory().ReadObject<check::Freed>(argument);
    return freed ? -check_->Freed(call.process(), *freed) : -EFAULT;
  }
  if (command == check::kRefused) {
    const auto refused = call.memory().ReadObject<check::Refused>(argument);
    if (!refused) return -EFAULT;
    check_->Refused(call.process(), *refused);
    return 0;
  }
  return -ENOTTY;
}

}  // namespace phantora
