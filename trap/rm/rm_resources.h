// The kinds of resources behind RM objects.
#ifndef PHANTORA_TRAP_RM_RM_RESOURCES_H_
#define PHANTORA_TRAP_RM_RM_RESOURCES_H_

#include <map>
#include <memory>
#include <utility>

#include "trap/gpu/front/channel.h"
#include "trap/gpu/front/gpu_context.h"
#include "trap/gpu/front/gpu_scheduler.h"
#include "trap/rm/memory_observer.h"
#include "trap/rm/os_events.h"
#include "trap/rm/rm_objects.h"
#include "uvm_model/memory_object.h"
#include "uvm_model/vidmem_heap.h"

namespace phantora {

struct MemoryResource : RmResource {
  ~MemoryResource() override {
    if (observer != nullptr) {
      observer->VideoMemory(owner, gpu, -static_cast<int64_t>(reservation->bytes()));
    }
  }

  std::shared_ptr<MemoryObject> memory;
  // Of the GPU's memory, or of the process's share of system memory.
  std::unique_ptr<VidmemHeap::Reservation> reservation;
  int gpu = -1;
  uint32_t tag = 0;                    // a number that the client has given it
  pid_t owner = 0;                     // the process that allocated it; others may have duplicates
  MemoryObserver* observer = nullptr;  // set once it has been told of the allocation
};

struct VaSpaceResource : RmResource {
  std::shared_ptr<GpuContext> context = std::make_shared<GpuContext>();
  // Virtual addresses that NV50_MEMORY_VIRTUAL objects have: begin and length.
  std::map<uint64_t, uint64_t> reserved;
};

struct SubdeviceResource : RmResource {
  // It has asked for the timer's full rate, see TickRate() in rm_control_engine.cc.
  bool holds_tick_rate = false;
};

// Every device has an address space, which is meant where none is named.
class DeviceResource : public RmResource {
 public:
  const std::shared_ptr<VaSpaceResource>& DefaultSpace() {
    if (default_space_ == nullptr) default_space_ = std::make_shared<VaSpaceResource>();
    return default_space_;
  }

 private:
  std::shared_ptr<VaSpaceResource> default_space_;
};

// NV01_MEMORY_VIRTUAL: where mappings may lie; NV50_MEMORY_VIRTUAL: where others may not.
struct VirtualRangeResource : RmResource {
  VirtualRangeResource(std::shared_ptr<VaSpaceResource> space, uint64_t base, uint64_t size,
                       bool is_reserved)
      : space(std::move(space)), base(base), size(size), is_reserved(is_reserved) {
    if (is_reserved) this->space->reserved[base] = size;
  }
  ~VirtualRangeResource() override {
    if (is_reserved) space->reserved.erase(base);
  }

  const std::shared_ptr<VaSpaceResource> space;
  const uint64_t base, size;
  const bool is_reserved;
};

// KEPLER_CHANNEL_GROUP_A (a TSG) and FERMI_CONTEXT_SHARE_A.
struct ChannelGroupResource : RmResource {
  uint64_t id = 0;  // unique in the machine
  uint32_t engine = 0;
  // What the client has asked for; 1,024 is GA100's and GH100's default. Channels share an engine
  // without time slices.
  uint64_t timeslice_us = 1024;
  std::shared_ptr<VaSpaceResource> va_space;
};
struct ContextShareResource : RmResource {
  std::shared_ptr<VaSpaceResource> va_space;
};

struct ChannelResource : RmResource {
  ChannelResource(std::shared_ptr<Channel> channel, GpuScheduler* scheduler)
      : channel(std::move(channel)), scheduler(scheduler) {}
  ~ChannelResource() override { scheduler->Remove(channel.get()); }

  const std::shared_ptr<Channel> channel;
  GpuScheduler* const scheduler;
  // Of the notification that publishes the work submit token.
  uint32_t token_notification = 1;
};

struct DoorbellResource : RmResource {
  std::shared_ptr<Doorbell> doorbell;
};

// A class object bound to a channel.
struct EngineResource : RmResource {
  uint32_t engine = 0;  // NV2080_ENGINE_TYPE_*
};

struct EventResource : RmResource {
  std::shared_ptr<OsEvents::Registration> registration;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_RM_RM_RESOURCES_H_
