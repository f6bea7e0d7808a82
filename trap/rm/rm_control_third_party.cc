// NV50_THIRD_PARTY_P2P (ctrl503c.h): video memory that devices of other makers may
// reach, "GPUDirect RDMA". libcuda makes such an object for every context on GPUs for
// data centres, and registers memory with it on demand. There is no such device here
// that could ask for the memory.
#include "trap/abi/generated/rm_controls.h"
#include "trap/rm/rm_control.h"

namespace phantora {
namespace {

using namespace abi;  // NOLINT: NVIDIA's names

// The token names the address space to nvidia_p2p_get_pages, in the kernel.
uint32_t RegisterVaSpace(ControlCall& call, NV503C_CTRL_REGISTER_VA_SPACE_PARAMS& params) {
  if (call.client.Find(params.hVASpace) == nullptr) return NV_ERR_INVALID_OBJECT_HANDLE;
  params.vaSpaceToken = uint64_t{call.client.handle()} << 32 | params.hVASpace;
  return NV_OK;
}

uint32_t RegisterVidmem(ControlCall& call, const NV503C_CTRL_REGISTER_VIDMEM_PARAMS& params) {
  return call.client.Find(params.hMemory) == nullptr ? NV_ERR_INVALID_OBJECT_HANDLE : NV_OK;
}

constexpr ControlRow kRows[] = {
    Control<RegisterVaSpace>(NV503C_CTRL_CMD_REGISTER_VA_SPACE),
    AcceptedControl<NV503C_CTRL_UNREGISTER_VA_SPACE_PARAMS>(NV503C_CTRL_CMD_UNREGISTER_VA_SPACE,
                                                            "memory is registered by itself"),
    Control<RegisterVidmem>(NV503C_CTRL_CMD_REGISTER_VIDMEM),
    AcceptedControl<NV503C_CTRL_UNREGISTER_VIDMEM_PARAMS>(NV503C_CTRL_CMD_UNREGISTER_VIDMEM,
                                                          "a registration holds nothing"),
    AcceptedControl<NV503C_CTRL_REGISTER_PID_PARAMS>(NV503C_CTRL_CMD_REGISTER_PID,
                                                     "whoever has the object may use it"),
};

}  // namespace

absl::Span<const ControlRow> ThirdPartyControls() { return kRows; }

}  // namespace phantora
