// /dev/phantora-check: where libphantora_check.so tells what a program allocates.
#ifndef PHANTORA_TRAP_CHECK_CHECK_DEVICE_H_
#define PHANTORA_TRAP_CHECK_CHECK_DEVICE_H_

#include <string>

#include "trap/check/memory_check.h"
#include "trap/files/device_file.h"

namespace phantora {

// The calls are described in trap/check/library/wire.h. Needs the machine's lock.
class CheckDevice : public DeviceFile {
 public:
  explicit CheckDevice(MemoryCheck* check) : check_(check) {}

  std::string name() const override { return "phantora-check"; }
  int Ioctl(CallContext& call, uint32_t command, RemoteAddress argument) override;

 private:
  MemoryCheck* const check_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_CHECK_CHECK_DEVICE_H_
