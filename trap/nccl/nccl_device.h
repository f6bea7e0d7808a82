// /dev/phantora-nccl: where libnccl.so.2 makes communicators.
#ifndef PHANTORA_TRAP_NCCL_NCCL_DEVICE_H_
#define PHANTORA_TRAP_NCCL_NCCL_DEVICE_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "trap/files/device_file.h"
#include "trap/nccl/nccl_runtime.h"

namespace phantora {

// The calls are described in fabric/library/wire.h. Needs the machine's lock.
class NcclDevice : public DeviceFile {
 public:
  // The GPU of the device's host that has this UUID.
  using FindGpu = std::function<std::optional<GpuPlace>(const uint8_t* uuid)>;

  NcclDevice(NcclRuntime* runtime, FindGpu find_gpu)
      : runtime_(runtime), find_gpu_(std::move(find_gpu)) {}

  std::string name() const override { return "phantora-nccl"; }
  int Ioctl(CallContext& call, uint32_t command, RemoteAddress argument) override;

 private:
  int Join(CallContext& call, nccl::Join& join);
  int Split(CallContext& call, nccl::Split& split);
  int Shrink(CallContext& call, nccl::Shrink& shrink);
  int Ask(CallContext& call, nccl::Ask& ask);
  int Leave(CallContext& call, nccl::Leave& leave);
  // A ready communicator of the caller; nullptr if there is none.
  NcclEndpoint* Ready(const CallContext& call, nccl::Handle handle);
  template <typename Block>
  int Serve(CallContext& call, RemoteAddress argument,
            int (NcclDevice::*serve)(CallContext&, Block&));

  NcclRuntime* const runtime_;
  const FindGpu find_gpu_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_NCCL_NCCL_DEVICE_H_
