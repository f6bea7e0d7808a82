// A GPU's file that has become an event descriptor (NV_ESC_ALLOC_OS_EVENT).
#ifndef PHANTORA_TRAP_RM_EVENT_DEVICE_H_
#define PHANTORA_TRAP_RM_EVENT_DEVICE_H_

#include <fcntl.h>

#include <memory>

#include "trap/rm/os_events.h"
#include "trap/rm/rm_device.h"

namespace phantora {

// libcuda goes on to make resource manager calls on it, and polls it.
class EventDevice : public RmDevice, public EventSource {
 public:
  EventDevice(ResourceManager* rm, int minor)
      : RmDevice(rm, minor), descriptor_(std::make_shared<EventDescriptor>()) {}

  const std::shared_ptr<EventDescriptor>& descriptor() const override { return descriptor_; }

  Handle MakeHandle() override {
    return {.file = descriptor_->TakeReadEnd(),
            .keeper = UniqueFd(fcntl(descriptor_->write_end(), F_DUPFD_CLOEXEC, 3))};
  }

 private:
  const std::shared_ptr<EventDescriptor> descriptor_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_RM_EVENT_DEVICE_H_
