// NVIDIA's resource manager, spoken to without any of NVIDIA's libraries: ioctls of the device
// files, with the structures of the published headers. Whatever fails unasked ends the program.
#ifndef PHANTORA_TEST_RAW_CLIENT_RESOURCE_MANAGER_H_
#define PHANTORA_TEST_RAW_CLIENT_RESOURCE_MANAGER_H_

#include <cstddef>
#include <cstdint>

namespace raw {

[[noreturn]] void Fail(const char* file, int line, const char* what, uint64_t got, uint64_t want);

#define RAW_EXPECT(got, want)                                                          \
  do {                                                                                 \
    const uint64_t raw_got = (got), raw_want = (want);                                 \
    if (raw_got != raw_want) ::raw::Fail(__FILE__, __LINE__, #got, raw_got, raw_want); \
  } while (false)

// A client: the open /dev/nvidiactl and the root object below it.
class ResourceManager {
 public:
  ResourceManager();

  uint32_t client() const { return client_; }
  int control_file() const { return control_; }

  // NV_ESC_RM_ALLOC; NV_STATUS. `handle` is set.
  uint32_t TryAlloc(uint32_t parent, uint32_t class_id, void* params, uint32_t size,
                    uint32_t* handle, int file = -1);
  template <typename Params>
  uint32_t Alloc(uint32_t parent, uint32_t class_id, Params& params) {
    uint32_t handle = 0;
    RAW_EXPECT(TryAlloc(parent, class_id, &params, sizeof params, &handle), 0);
    return handle;
  }
  uint32_t Alloc(uint32_t parent, uint32_t class_id) {
    uint32_t handle = 0;
    RAW_EXPECT(TryAlloc(parent, class_id, nullptr, 0, &handle), 0);
    return handle;
  }
  uint32_t Free(uint32_t parent, uint32_t handle);

  // NV_ESC_RM_CONTROL; NV_STATUS.
  uint32_t Control(uint32_t object, uint32_t command, void* params, uint32_t size);
  template <typename Params>
  uint32_t Control(uint32_t object, uint32_t command, Params& params) {
    return Control(object, command, &params, sizeof params);
  }

  // Memory where the processor sees it. `file`: an open device file, which stands for the memory
  // from then on.
  void* Map(uint32_t device, uint32_t memory, uint64_t size, const char* file);
  // ... and where the GPU sees it, at an address that is chosen in the range.
  uint64_t MapDma(uint32_t device, uint32_t range, uint32_t memory, uint64_t size);
  uint32_t UnmapDma(uint32_t device, uint32_t range, uint32_t memory, uint64_t address);

  // An open /dev/nvidia0 that becomes readable when events are raised.
  int EventFile(uint32_t device);

 private:
  int control_ = -1;
  uint32_t client_ = 0;
};

}  // namespace raw

#endif  // PHANTORA_TEST_RAW_CLIENT_RESOURCE_MANAGER_H_
