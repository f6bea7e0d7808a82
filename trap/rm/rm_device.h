// /dev/nvidiactl and /dev/nvidiaN: the escapes (ioctls) of the resource manager.
#ifndef PHANTORA_TRAP_RM_RM_DEVICE_H_
#define PHANTORA_TRAP_RM_RM_DEVICE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "trap/abi/generated/escapes.h"
#include "trap/files/device_file.h"
#include "trap/rm/rm_alloc.h"
#include "trap/rm/typed_handler.h"

namespace phantora {

// One open file. The clients that were allocated through it die with it, as they
// do in the driver (nv.c nvidia_ctl_close, osapi.c RmFreeUnusedClients).
class RmDevice : public DeviceFile {
 public:
  // `minor` is the GPU's index, or kControlMinor.
  static constexpr int kControlMinor = 255;
  RmDevice(ResourceManager* rm, int minor) : rm_(rm), minor_(minor) {}
  ~RmDevice() override;

  // Is the escape one that is answered?
  static bool Knows(uint32_t escape);

  std::string name() const override;
  int Ioctl(CallContext& call, uint32_t command, RemoteAddress argument) override;

 private:
  int Escape(CallContext& call, uint32_t number, uint32_t size, RemoteAddress argument,
             bool nested);

  // Each returns 0 or a negative errno. Those whose size varies get bytes.
  using Block = std::vector<uint8_t>;
  int CardInfo(CallContext& call, Block& block);
  int AttachGpus(CallContext& call, Block& block);
  int Alloc(CallContext& call, Block& block);
  int CheckVersion(CallContext& call, abi::nv_ioctl_rm_api_version_t& params);
  int SysParams(CallContext& call, abi::nv_ioctl_sys_params_t& params);
  int NumaInfo(CallContext& call, abi::nv_ioctl_numa_info_t& params);
  int RegisterFd(CallContext& call, abi::nv_ioctl_register_fd_t& params);
  int AllocOsEvent(CallContext& call, abi::nv_ioctl_alloc_os_event_t& params);
  int FreeOsEvent(CallContext& call, abi::nv_ioctl_free_os_event_t& params);
  int StatusCode(CallContext& call, abi::nv_ioctl_status_code_t& params);
  int WaitOpenComplete(CallContext& call, abi::nv_ioctl_wait_open_complete_t& params);
  int GetEventData(CallContext& call, abi::NVOS41_PARAMETERS& params);
  int VidHeapControl(CallContext& call, abi::NVOS32_PARAMETERS& params);
  int MapMemory(CallContext& call, abi::nv_ioctl_nvos33_parameters_with_fd& params);
  int UnmapMemory(CallContext& call, abi::NVOS34_PARAMETERS& params);
  template <typename Params>
  int MapMemoryDma(CallContext& call, Params& params);
  template <typename Params>
  int UnmapMemoryDma(CallContext& call, Params& params);
  int AllocMemoryEscape(CallContext& call, abi::nv_ioctl_nvos02_parameters_with_fd& params);
  int Free(CallContext& call, abi::NVOS00_PARAMETERS& params);
  int Control(CallContext& call, abi::NVOS54_PARAMETERS& params);
  int DupObject(CallContext& call, abi::NVOS55_PARAMETERS& params);
  int Share(CallContext& call, abi::NVOS57_PARAMETERS& params);
  int IdleChannels(CallContext& call, abi::NVOS30_PARAMETERS& params);
  int UpdateDeviceMappingInfo(CallContext& call, abi::NVOS56_PARAMETERS& params);

  using Handler = int (*)(RmDevice&, CallContext&, Block&);
  struct Row {
    uint32_t number;
    HandlerVersions<Handler> versions;
    // Of an escape that is answered with success and for which nothing is done: why it need not.
    const char* quiet = nullptr;
    // Does the block, after the call, say NV_OK?
    bool (*succeeded)(const Block&) = nullptr;
  };
  static constexpr uint32_t kAnySize = TypedHandler<Handler>::kAbsent - 1;
  template <auto kServe>
  static int Serve(RmDevice& device, CallContext& call, Block& block);
  template <auto kServe>
  static bool Succeeded(const Block& block);
  template <auto kServe, bool kDiffersWhereNobodyLooks = false>
  static constexpr Row Typed(uint32_t number, const char* quiet = nullptr);
  template <auto kServe>
  static constexpr Row AnySize(uint32_t number, const char* quiet = nullptr);
  static absl::Span<const Row> Rows();

  uint32_t AllocClient(CallContext& call, uint32_t* handle, RemoteAddress params);
  uint32_t HeapAllocSize(CallContext& call, RmClient& client, abi::NVOS32_PARAMETERS& params);
  // Is `handle` a client that was allocated through this file?
  bool Opened(uint32_t handle) const;
  void Trace(CallContext& call, uint32_t number, const std::string& text);

  ResourceManager* const rm_;
  const int minor_;
  std::vector<uint32_t> clients_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_RM_RM_DEVICE_H_
