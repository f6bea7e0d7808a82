// /dev/nvidiactl and /dev/nvidiaN: the escapes (ioctls) of the resource manager.
#ifndef PHANTORA_TRAP_RM_RM_DEVICE_H_
#define PHANTORA_TRAP_RM_RM_DEVICE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "trap/files/device_file.h"
#include "trap/rm/rm_alloc.h"

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

  // The parameter blocks; each returns 0 or a negative errno.
  using Block = std::vector<uint8_t>;
  int CheckVersion(CallContext& call, Block& block);
  int CardInfo(CallContext& call, Block& block);
  int SysParams(CallContext& call, Block& block);
  int NumaInfo(CallContext& call, Block& block);
  int RegisterFd(CallContext& call, Block& block);
  int AllocOsEvent(CallContext& call, Block& block);
  int FreeOsEvent(CallContext& call, Block& block);
  int Succeed(CallContext& call, Block& block);
  int WaitOpenComplete(CallContext& call, Block& block);
  int Alloc(CallContext& call, Block& block);
  int AllocMemoryEscape(CallContext& call, Block& block);
  int Free(CallContext& call, Block& block);
  int Control(CallContext& call, Block& block);
  int DupObject(CallContext& call, Block& block);
  int Share(CallContext& call, Block& block);
  int VidHeapControl(CallContext& call, Block& block);
  int MapMemory(CallContext& call, Block& block);
  int UnmapMemory(CallContext& call, Block& block);
  int MapMemoryDma(CallContext& call, Block& block);
  int UnmapMemoryDma(CallContext& call, Block& block);
  int GetEventData(CallContext& call, Block& block);
  int IdleChannels(CallContext& call, Block& block);
  int UpdateDeviceMappingInfo(CallContext& call, Block& block);

  using Handler = int (RmDevice::*)(CallContext&, Block&);
  struct Row {
    uint32_t number;
    uint32_t size_535, size_550;  // bytes; kAnySize where it varies
    Handler handle;
  };
  static constexpr uint32_t kAnySize = ~0u;
  static const Row kRows[];

  uint32_t AllocClient(CallContext& call, uint32_t* handle, RemoteAddress params);
  uint32_t HeapAllocSize(CallContext& call, RmClient& client, Block& block);
  // Is `handle` a client that was allocated through this file?
  bool Opened(uint32_t handle) const;
  void Trace(CallContext& call, uint32_t number, const std::string& text);

  ResourceManager* const rm_;
  const int minor_;
  std::vector<uint32_t> clients_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_RM_RM_DEVICE_H_
