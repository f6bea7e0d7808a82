// A GPU of a raw client: memory that both sides see, and channels.
#ifndef PHANTORA_TEST_RAW_CLIENT_GPU_H_
#define PHANTORA_TEST_RAW_CLIENT_GPU_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "test/raw_client/resource_manager.h"

namespace raw {

struct Buffer {
  uint32_t handle = 0;
  uint64_t address = 0;  // the GPU's
  uint64_t size = 0;
  volatile uint32_t* words = nullptr;  // the processor's
};

class Gpu {
 public:
  explicit Gpu(ResourceManager& rm);

  ResourceManager& rm() { return rm_; }
  uint32_t device() const { return device_; }
  uint32_t subdevice() const { return subdevice_; }
  uint32_t range() const { return range_; }
  // Among the classes that the GPU offers.
  bool Has(uint32_t class_id) const;

  Buffer VideoMemory(uint64_t size) { return Memory(size, true); }
  Buffer SystemMemory(uint64_t size) { return Memory(size, false); }

  // The doorbell's page.
  volatile uint32_t* doorbell() const { return doorbell_; }

 private:
  Buffer Memory(uint64_t size, bool video);

  ResourceManager& rm_;
  uint32_t device_ = 0, subdevice_ = 0, range_ = 0;
  std::vector<uint32_t> classes_;
  volatile uint32_t* doorbell_ = nullptr;
};

// A channel in a group of its own, with one object.
class Channel {
 public:
  Channel(Gpu& gpu, uint32_t engine, uint32_t object_class);

  uint32_t group() const { return group_; }
  uint32_t handle() const { return channel_; }
  uint32_t object() const { return object_; }

  // Methods (byte offsets) of a subchannel, with increasing numbers.
  void Push(uint32_t subchannel, uint32_t method, const std::vector<uint32_t>& data);
  // What was pushed begins.
  void Submit();
  // The same, with a semaphore behind it: waits for that, or until the channel has an error. Was it
  // released?
  bool SubmitAndWait();

  // What the error notifier says: 0, or the number of a robust channel error.
  uint32_t Error() const;

 private:
  Gpu& gpu_;
  uint32_t group_ = 0, channel_ = 0, object_ = 0, token_ = 0;
  Buffer commands_, fifo_, userd_, notifier_, semaphore_;
  uint64_t begin_ = 0, end_ = 0;  // words of commands_ that wait
  uint32_t put_ = 0, released_ = 0;
};

}  // namespace raw

#endif  // PHANTORA_TEST_RAW_CLIENT_GPU_H_
