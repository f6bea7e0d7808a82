#include "trap/rm/refused_classes.h"

#include <algorithm>
#include <iterator>

#include "trap/abi/generated/nv_status.h"

namespace phantora {
namespace {

using namespace abi;  // NOLINT: NVIDIA's names

// By number. From resource_list.h (who may, rmapi/alloc_free.c), the constructors, and the classes
// of GA100 and GH100 (g_gpu_class_list.c), of release 550.163.01.
constexpr RefusedClass kClasses[] = {
    {0xf, NV_ERR_INSUFFICIENT_PERMISSIONS, "for who manages the fabric"},  // FABRIC_MANAGER_SESSION
    {0x42, NV_ERR_INVALID_ARGUMENT,
     "the processor's memory is not the GPU's"},                // NV_MEMORY_EXTENDED_USER
    {0x60, NV_ERR_INVALID_INDEX, "no group of GPUs was made"},  // NV0060_SYNC_GPU_BOOST
    {0x76, NV_ERR_INSUFFICIENT_PERMISSIONS,
     "for administrators"},                           // NV01_MEMORY_FRAMEBUFFER_CONSOLE
    {0x78, NV_ERR_ILLEGAL_ACTION, "for the kernel"},  // NV01_EVENT_KERNEL_CALLBACK
    {0x7e, NV_ERR_ILLEGAL_ACTION, "for the kernel"},  // NV01_EVENT_KERNEL_CALLBACK_EX
    {0x81, NV_ERR_INSUFFICIENT_PERMISSIONS, "for administrators"},  // NV01_MEMORY_LIST_SYSTEM
    {0x82, NV_ERR_INSUFFICIENT_PERMISSIONS, "for administrators"},  // NV01_MEMORY_LIST_FBMEM
    {0x83, NV_ERR_INSUFFICIENT_PERMISSIONS, "for administrators"},  // NV01_MEMORY_LIST_OBJECT
    {0x90, NV_ERR_INVALID_CLASS, "for the driver itself"},          // KERNEL_GRAPHICS_CONTEXT
    {0x92, NV_ERR_INSUFFICIENT_PERMISSIONS, "for the kernel"},      // NV0092_RG_LINE_CALLBACK
    {0xc2, NV_ERR_INSUFFICIENT_PERMISSIONS, "for administrators"},  // NV01_MEMORY_LOCAL_PHYSICAL
    {0xe0, NV_ERR_INSUFFICIENT_PERMISSIONS, "no IMEX channel"},     // NV_MEMORY_EXPORT
    {0xf1, NV_ERR_INSUFFICIENT_PERMISSIONS, "no IMEX channel"},     // NV_IMEX_SESSION
    {0xf9, NV_ERR_INSUFFICIENT_PERMISSIONS, "no IMEX channel"},     // NV_MEMORY_FABRIC_IMPORT_V2
    {0xfb, NV_ERR_INSUFFICIENT_PERMISSIONS, "no IMEX channel"},     // NV_MEMORY_FABRIC_IMPORTED_REF
    {0xfe, NV_ERR_NOT_SUPPORTED, "off by default"},                 // NV_MEMORY_MAPPER
    {0x2082, NV_ERR_INSUFFICIENT_PERMISSIONS, "for administrators"},  // NV2082_BINAPI_PRIVILEGED
    {0x30f1, NV_ERR_INVALID_ARGUMENT, "no device for frame lock"},    // NV30_GSYNC
    {0x844c, NV_ERR_INSUFFICIENT_PERMISSIONS,
     "profiling is the administrator's"},                         // G84_PERFBUFFER
    {0x9010, NV_ERR_INSUFFICIENT_PERMISSIONS, "for the kernel"},  // NV9010_VBLANK_CALLBACK
    {0x9072, NV_ERR_INVALID_CLASS, "of another GPU"},             // GF100_DISP_SW
    {0x90cc, NV_ERR_INSUFFICIENT_PERMISSIONS,
     "profiling is the administrator's"},                             // GF100_PROFILER
    {0xa080, NV_ERR_NOT_SUPPORTED, "not a virtual GPU"},              // KEPLER_DEVICE_VGPU
    {0xa081, NV_ERR_OBJECT_NOT_FOUND, "not a host of virtual GPUs"},  // NVA081_VGPU_CONFIG
    {0xa084, NV_ERR_OBJECT_NOT_FOUND,
     "not a host of virtual GPUs"},                    // NVA084_KERNEL_HOST_VGPU_DEVICE
    {0xb0b5, NV_ERR_INVALID_CLASS, "of another GPU"},  // MAXWELL_DMA_COPY_A
    {0xb2cc, NV_ERR_INSUFFICIENT_PERMISSIONS,
     "profiling is the administrator's"},                             // MAXWELL_PROFILER_DEVICE
    {0xb4b7, NV_ERR_INVALID_CLASS, "of another GPU"},                 // NVB4B7_VIDEO_ENCODER
    {0xc076, NV_ERR_INSUFFICIENT_PERMISSIONS, "for administrators"},  // GP100_UVM_SW
    {0xc0b5, NV_ERR_INVALID_CLASS, "of another GPU"},                 // PASCAL_DMA_COPY_A
    {0xc369, NV_ERR_INSUFFICIENT_PERMISSIONS, "for the kernel"},      // MMU_FAULT_BUFFER
    {0xc371, NV_ERR_INSUFFICIENT_PERMISSIONS, "for administrators"},  // NVC371_DISP_SF_USER
    {0xc372, NV_ERR_INSUFFICIENT_PERMISSIONS, "for administrators"},  // NVC372_DISPLAY_SW
    {0xc4b0, NV_ERR_INVALID_CLASS, "of another GPU"},                 // NVC4B0_VIDEO_DECODER
    {0xc4b7, NV_ERR_INVALID_CLASS, "of another GPU"},                 // NVC4B7_VIDEO_ENCODER
    {0xc570, NV_ERR_INSUFFICIENT_PERMISSIONS, "for administrators"},  // NVC570_DISPLAY
    {0xc573, NV_ERR_INSUFFICIENT_PERMISSIONS, "for administrators"},  // NVC573_DISP_CAPABILITIES
    {0xc574, NV_ERR_INSUFFICIENT_PERMISSIONS, "for the kernel"},      // UVM_CHANNEL_RETAINER
    {0xc57a, NV_ERR_INSUFFICIENT_PERMISSIONS,
     "for administrators"},  // NVC57A_CURSOR_IMM_CHANNEL_PIO
    {0xc57b, NV_ERR_INSUFFICIENT_PERMISSIONS,
     "for administrators"},  // NVC57B_WINDOW_IMM_CHANNEL_DMA
    {0xc57d, NV_ERR_INSUFFICIENT_PERMISSIONS, "for administrators"},  // NVC57D_CORE_CHANNEL_DMA
    {0xc57e, NV_ERR_INSUFFICIENT_PERMISSIONS, "for administrators"},  // NVC57E_WINDOW_CHANNEL_DMA
    {0xc597, NV_ERR_INVALID_CLASS, "of another GPU"},                 // TURING_A
    {0xc5b5, NV_ERR_INVALID_CLASS, "of another GPU"},                 // TURING_DMA_COPY_A
    {0xc5c0, NV_ERR_INVALID_CLASS, "of another GPU"},                 // TURING_COMPUTE_A
    {0xc637, NV_ERR_NOT_SUPPORTED, "MIG is off"},                     // AMPERE_SMC_PARTITION_REF
    {0xc638, NV_ERR_INVALID_OBJECT_PARENT, "MIG is off"},  // AMPERE_SMC_EXEC_PARTITION_REF
    {0xc639, NV_ERR_INSUFFICIENT_PERMISSIONS,
     "for who partitions GPUs"},  // AMPERE_SMC_CONFIG_SESSION
    {0xc640, NV_ERR_INSUFFICIENT_PERMISSIONS,
     "for who partitions GPUs"},                                      // AMPERE_SMC_MONITOR_SESSION
    {0xc670, NV_ERR_INSUFFICIENT_PERMISSIONS, "for administrators"},  // NVC670_DISPLAY
    {0xc671, NV_ERR_INSUFFICIENT_PERMISSIONS, "for administrators"},  // NVC671_DISP_SF_USER
    {0xc673, NV_ERR_INSUFFICIENT_PERMISSIONS, "for administrators"},  // NVC673_DISP_CAPABILITIES
    {0xc67a, NV_ERR_INSUFFICIENT_PERMISSIONS,
     "for administrators"},  // NVC67A_CURSOR_IMM_CHANNEL_PIO
    {0xc67b, NV_ERR_INSUFFICIENT_PERMISSIONS,
     "for administrators"},  // NVC67B_WINDOW_IMM_CHANNEL_DMA
    {0xc67d, NV_ERR_INSUFFICIENT_PERMISSIONS, "for administrators"},  // NVC67D_CORE_CHANNEL_DMA
    {0xc67e, NV_ERR_INSUFFICIENT_PERMISSIONS, "for administrators"},  // NVC67E_WINDOW_CHANNEL_DMA
    {0xc763, NV_ERR_INSUFFICIENT_PERMISSIONS,
     "for administrators"},  // MMU_VIDMEM_ACCESS_BIT_BUFFER
    {0xc770, NV_ERR_INSUFFICIENT_PERMISSIONS, "for administrators"},  // NVC770_DISPLAY
    {0xc771, NV_ERR_INSUFFICIENT_PERMISSIONS, "for administrators"},  // NVC771_DISP_SF_USER
    {0xc773, NV_ERR_INSUFFICIENT_PERMISSIONS, "for administrators"},  // NVC773_DISP_CAPABILITIES
    {0xc77d, NV_ERR_INSUFFICIENT_PERMISSIONS, "for administrators"},  // NVC77D_CORE_CHANNEL_DMA
    {0xc77f, NV_ERR_INSUFFICIENT_PERMISSIONS, "for administrators"},  // NVC77F_ANY_CHANNEL_DMA
    {0xc797, NV_ERR_INVALID_CLASS, "of another GPU"},                 // AMPERE_B
    {0xc7b0, NV_ERR_INVALID_CLASS, "of another GPU"},                 // NVC7B0_VIDEO_DECODER
    {0xc7b5, NV_ERR_INVALID_CLASS, "of another GPU"},                 // AMPERE_DMA_COPY_B
    {0xc7b7, NV_ERR_INVALID_CLASS, "of another GPU"},                 // NVC7B7_VIDEO_ENCODER
    {0xc7c0, NV_ERR_INVALID_CLASS, "of another GPU"},                 // AMPERE_COMPUTE_B
    {0xc7fa, NV_ERR_INVALID_CLASS, "of another GPU"},                 // NVC7FA_VIDEO_OFA
    {0xc997, NV_ERR_INVALID_CLASS, "of another GPU"},                 // ADA_A
    {0xc9b0, NV_ERR_INVALID_CLASS, "of another GPU"},                 // NVC9B0_VIDEO_DECODER
    {0xc9b7, NV_ERR_INVALID_CLASS, "of another GPU"},                 // NVC9B7_VIDEO_ENCODER
    {0xc9c0, NV_ERR_INVALID_CLASS, "of another GPU"},                 // ADA_COMPUTE_A
    {0xc9d1, NV_ERR_INVALID_CLASS, "of another GPU"},                 // NVC9D1_VIDEO_NVJPG
    {0xc9fa, NV_ERR_INVALID_CLASS, "of another GPU"},                 // NVC9FA_VIDEO_OFA
};

constexpr bool IsSorted() {
  for (size_t i = 1; i < std::size(kClasses); ++i) {
    if (kClasses[i - 1].class_id >= kClasses[i].class_id) return false;
  }
  return true;
}
static_assert(IsSorted());

}  // namespace

const RefusedClass* FindRefusedClass(uint32_t class_id) {
  const auto* found = std::lower_bound(
      std::begin(kClasses), std::end(kClasses), class_id,
      [](const RefusedClass& row, uint32_t number) { return row.class_id < number; });
  return found != std::end(kClasses) && found->class_id == class_id ? found : nullptr;
}

}  // namespace phantora
