// Calls on the supervisor's device (wire.h).
#ifndef PHANTORA_FABRIC_LIBRARY_DEVICE_CALLS_H_
#define PHANTORA_FABRIC_LIBRARY_DEVICE_CALLS_H_

#include "fabric/library/nccl_api.h"
#include "fabric/library/wire.h"

namespace phantora::nccl {

// 0 or an errno; ENODEV if the device does not exist.
int CallDevice(unsigned long request, void* argument);

// Success, or what a failed call of ours means to the program, with a message. `what` says what
// could not be done.
ncclResult_t CheckCall(int error, const char* what);

// Tests put another device in its place. Like CallDevice.
using DeviceCall = int (*)(unsigned long request, void* argument);
void SetDeviceForTest(DeviceCall call);

// Waits a little before the supervisor, or the driver, is asked again: shortly at first, because
// most waits are short; longer later, because every question costs.
class Backoff {
 public:
  void Sleep();

 private:
  int64_t nap_ns_ = 20'000;
  int64_t start_ns_ = -1;
};

}  // namespace phantora::nccl

#endif  // PHANTORA_FABRIC_LIBRARY_DEVICE_CALLS_H_
