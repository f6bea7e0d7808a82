#include "trap/rm/fixed_answers.h"

#include <algorithm>
#include <iterator>

#include "trap/abi/generated/nv_status.h"

namespace phantora {
namespace {

using namespace abi;  // NOLINT: NVIDIA's names

constexpr FixedAnswer Refuses(uint32_t command, uint32_t status, const char* why) {
  return {command, FixedAnswer::Kind::kRefuses, status, why};
}
constexpr FixedAnswer Accepts(uint32_t command, const char* why) {
  return {command, FixedAnswer::Kind::kAccepts, NV_OK, why};
}
constexpr FixedAnswer Zeros(uint32_t command, const char* why) {
  return {command, FixedAnswer::Kind::kZeros, NV_OK, why};
}

// By command. Sources are of release 550.163.01, below src/nvidia/src/kernel.
constexpr FixedAnswer kAnswers[] = {
    // rmapi/client_resource.c, platform/platform_request_handler_ctrl.c
    Refuses(0x110, NV_ERR_NOT_SUPPORTED, "no event of the platform is known"),
    Zeros(0x111, "no mobile platform"),
    Accepts(0x122, "the driver's own does nothing"),
    Accepts(0x123, "the driver's own does nothing"),
    Accepts(0x12a, "the driver's own does nothing"),
    Accepts(0x12c, "the driver's own does nothing"),
    Accepts(0x12d, "the driver's own does nothing"),
    Accepts(0x12e, "the driver's own does nothing"),
    Accepts(0x12f, "the driver's own does nothing"),
    Accepts(0x132, "the driver's own does nothing"),
    Refuses(0x133, NV_ERR_NOT_SUPPORTED, "not a virtual GPU"),
    Zeros(0x135, "the client is not privileged"),
    Refuses(0x140, NV_ERR_NOT_SUPPORTED, "no GPU has ACPI methods"),
    Refuses(0x142, NV_ERR_NOT_SUPPORTED, "no GPU has ACPI methods"),
    Refuses(0x143, NV_ERR_NOT_SUPPORTED, "no GPU has ACPI methods"),
    Refuses(0x281, NV_ERR_INSUFFICIENT_PERMISSIONS, "for who manages the fabric"),
    Refuses(0x285, NV_ERR_NOT_SUPPORTED, "the driver's own does nothing"),
    Zeros(0x287, "links have their full bandwidth"),
    Accepts(0x290, "GPUs are always attached"),
    Refuses(0x302, NV_ERR_INVALID_ARGUMENT, "no device for frame lock"),
    Refuses(0x607, NV_ERR_INSUFFICIENT_PERMISSIONS, "reports of errors are their owner's"),
    Accepts(0x901, "names of parts of a process are told to nobody"),
    Accepts(0x902, "names of parts of a process are told to nobody"),
    Refuses(0xd08, NV_ERR_INSUFFICIENT_PERMISSIONS, "no IMEX channel"),
    // gpu/gpu.c, gpu/device_ctrl.c, gpu/mem_mgr/dma.c
    Refuses(0x80028c, NV_ERR_NOT_SUPPORTED, "for virtual GPUs"),
    Refuses(0x80028d, NV_ERR_NOT_SUPPORTED, "for virtual GPUs"),
    Zeros(0x800291, "no SR-IOV"),
    Refuses(0x800297, NV_ERR_NOT_SUPPORTED, "for hosts of virtual GPUs"),
    Zeros(0x800298, "for hosts of virtual GPUs"),
    // gpu/subdevice/subdevice_ctrl_gpu_kernel.c, gpu/mig_mgr/kernel_mig_manager.c
    Accepts(0x2080014c, "for laptops"),
    Zeros(0x2080015a, "no bridge"),
    Zeros(0x2080015b, "no bridge"),
    Zeros(0x2080016e, "no encoder has a session"),
    Refuses(0x2080016f, NV_ERR_INSUFFICIENT_PERMISSIONS, "for who manages the fabric"),
    Refuses(0x20800174, NV_ERR_INSUFFICIENT_PERMISSIONS, "for who partitions GPUs"),
    Zeros(0x2080017c, "no frame is captured"),
    Refuses(0x20800196, NV_ERR_NOT_SUPPORTED, "no SR-IOV"),
    Accepts(0x20800199, "the driver's own does nothing"),
    Refuses(0x208001a2, NV_ERR_INVALID_STATE, "MIG is off"),
    // gpu/subdevice/subdevice_ctrl_timer_kernel.c
    Refuses(0x20800401, NV_ERR_INVALID_STATE, "events of the timer are the kernel's"),
    Accepts(0x20800402, "nothing is scheduled"),
    // gpu/mem_sys/kern_mem_sys_ctrl.c
    Refuses(0x20800a69, NV_ERR_INSUFFICIENT_PERMISSIONS, "for the kernel"),
    Refuses(0x2080130b, NV_ERR_GENERIC, "no carveout"),
    Refuses(0x2080130f, NV_ERR_NOT_SUPPORTED, "the driver refuses it"),
    Refuses(0x20801312, NV_ERR_NOT_SUPPORTED, "the driver refuses it"),
    Refuses(0x20801318, NV_ERR_NOT_SUPPORTED, "the driver refuses it"),
    Refuses(0x20801319, NV_ERR_NOT_SUPPORTED, "the driver refuses it"),
    // gpu/mc/kernel_mc.c, platform/hwbc.c, gpu/bus/kern_bus_ctrl.c
    Zeros(0x20801703, "the driver never knows the manufacturer"),
    Zeros(0x20801708, "clocks are not slowed down"),
    Accepts(0x20801709, "the driver's own does nothing"),
    Refuses(0x20801806, NV_ERR_INVALID_ARGUMENT, "no bridge"),
    Refuses(0x20801807, NV_ERR_INVALID_ARGUMENT, "no bridge"),
    Refuses(0x2080180e, NV_ERR_INVALID_ARGUMENT, "no bridge"),
    Refuses(0x20801825, NV_ERR_NOT_SUPPORTED, "no SR-IOV"),
    // gpu/perf/kern_perf_pm.c, gpu/rc/kernel_rc_ctrl.c, gpu/subdevice/subdevice_ctrl_fla.c
    Refuses(0x20802093, NV_ERR_INSUFFICIENT_PERMISSIONS, "profiling is the administrator's"),
    Refuses(0x20802205, NV_ERR_INSUFFICIENT_PERMISSIONS, "for administrators"),
    Refuses(0x20802213, NV_ERR_INSUFFICIENT_PERMISSIONS, "for administrators"),
    Refuses(0x20803501, NV_ERR_INSUFFICIENT_PERMISSIONS, "for who manages the fabric"),
    // arch/nvalloc/unix/src/subdevice_ctrl_os_unix.c
    Zeros(0x20803d07, "memory is not kept while the machine sleeps"),
    // gpu/fifo/kernel_channel.c, gpu/conf_compute/conf_compute_api.c
    Refuses(0xc56f010b, NV_ERR_NOT_SUPPORTED, "no confidential computing"),
    Refuses(0xc56f010c, NV_ERR_NOT_SUPPORTED, "no confidential computing"),
    Refuses(0xcb330109, NV_ERR_OBJECT_NOT_FOUND, "no confidential computing"),
    Refuses(0xcb33010a, NV_ERR_OBJECT_NOT_FOUND, "no confidential computing"),
};

constexpr bool IsSorted() {
  for (size_t i = 1; i < std::size(kAnswers); ++i) {
    if (kAnswers[i - 1].command >= kAnswers[i].command) return false;
  }
  return true;
}
static_assert(IsSorted());

}  // namespace

const FixedAnswer* FindFixedAnswer(uint32_t command) {
  const auto* found = std::lower_bound(
      std::begin(kAnswers), std::end(kAnswers), command,
      [](const FixedAnswer& answer, uint32_t number) { return answer.command < number; });
  return found != std::end(kAnswers) && found->command == command ? found : nullptr;
}

}  // namespace phantora
