// Numbers that the emulated driver knows.
#ifndef PHANTORA_TEST_FUZZ_HOSTILE_CALLS_H_
#define PHANTORA_TEST_FUZZ_HOSTILE_CALLS_H_

#include <cstdint>

#include "trap/abi/generated/escapes.h"
#include "trap/abi/generated/rm_classes.h"
#include "trap/abi/generated/rm_controls.h"
#include "trap/abi/generated/uvm_ioctl.h"
#include "trap/abi/methods.h"

namespace phantora::hostile {

using namespace abi;  // NOLINT: NVIDIA's names

struct KnownControl {
  uint32_t command, size;
};
// Every control that was implemented when this was written, with the size of its
// parameters in each interface.
inline constexpr KnownControl kControls[] = {
    {0x101, 40},        {0x102, 104},       {0x127, 168},        {0x127, 176},
    {0x12b, 4252},      {0x12b, 8348},      {0x136, 4},          {0x13a, 1352},
    {0x1f0, 4},         {0x201, 128},       {0x202, 40},         {0x204, 4},
    {0x205, 32},        {0x214, 256},       {0x215, 132},        {0x216, 128},
    {0x21b, 12},        {0x275, 268},       {0x279, 12},         {0x27b, 4},
    {0x289, 4},         {0xa04, 2244},      {0xd01, 12},         {0xd04, 12},
    {0x3d05, 24},       {0x3d06, 20},       {0x3d08, 76},        {0x3d08, 80},
    {0x3d0b, 2128},     {0x3d0c, 652},      {0x410110, 16},      {0x800201, 16},
    {0x800280, 4},      {0x800288, 4},      {0x800289, 4},       {0x80028b, 1},
    {0x80028e, 1},      {0x800292, 644},    {0x800292, 700},     {0x800294, 4},
    {0x801109, 48},     {0x801110, 448},    {0x801110, 472},     {0x801307, 3},
    {0x801402, 3},      {0x80170d, 24},     {0x801806, 192},     {0x801909, 1},
    {0x809909, 1},      {0x900107, 8},      {0x20800102, 516},   {0x20800102, 524},
    {0x20800110, 132},  {0x20800111, 64},   {0x20800119, 4},     {0x2080012f, 1024},
    {0x2080012f, 984},  {0x20800131, 4},    {0x20800133, 8},     {0x2080013f, 136},
    {0x20800142, 4},    {0x20800145, 0},    {0x20800146, 0},     {0x2080014a, 268},
    {0x20800170, 252},  {0x20800170, 260},  {0x20800175, 1800},  {0x20800175, 1864},
    {0x2080018b, 40},   {0x2080018d, 3812}, {0x2080018e, 14408}, {0x20800195, 260},
    {0x208001a3, 40},   {0x208001a3, 48},   {0x20800301, 20},    {0x20800403, 8},
    {0x20800406, 264},  {0x20801201, 32},   {0x20801210, 32},    {0x20801218, 16},
    {0x2080121b, 6168}, {0x20801227, 48},   {0x2080122a, 24},    {0x2080122b, 24},
    {0x20801230, 32},   {0x20801301, 16},   {0x20801303, 436},   {0x20801303, 444},
    {0x20801701, 16},   {0x20801702, 4},    {0x20801801, 16},    {0x20801802, 16},
    {0x20801803, 200},  {0x20801823, 420},  {0x2080182a, 104},   {0x2080182b, 28},
    {0x2080200a, 8},    {0x20802209, 4},    {0x2080220c, 0},     {0x20802210, 0},
    {0x20802a03, 8},    {0x20802a0a, 136},  {0x20802a0a, 68},    {0x20803001, 16},
    {0x20803002, 5896}, {0x20803601, 72},   {0x20803801, 1928},  {0x20808159, 332},
    {0x20808161, 952},  {0x20808162, 1},    {0x20809001, 8},     {0x20809009, 8},
    {0x20809038, 4},    {0x20809064, 520},  {0x2080a001, 16},    {0x2080a026, 532},
    {0x2080a084, 4},    {0x20810108, 992},  {0x83de0309, 4},     {0x83de030c, 4824},
    {0x83de0310, 8},    {0x906f0101, 16},   {0x906f0102, 12},    {0x906f0102, 16},
    {0x90e60102, 8},    {0xa06c0101, 2},    {0xa06c0103, 8},     {0xa06c0105, 8},
    {0xa06f0103, 2},    {0xa06f0104, 4},    {0xc36f0101, 16},    {0xc36f0108, 4},
    {0xc36f010a, 4},    {0xcb330101, 5},    {0xcb330101, 6},     {0xcb330104, 1},
};

inline constexpr uint32_t kEscapes[] = {
    NV_ESC_CARD_INFO,
    NV_ESC_REGISTER_FD,
    NV_ESC_ALLOC_OS_EVENT,
    NV_ESC_FREE_OS_EVENT,
    NV_ESC_STATUS_CODE,
    NV_ESC_CHECK_VERSION_STR,
    NV_ESC_IOCTL_XFER_CMD,
    NV_ESC_ATTACH_GPUS_TO_FD,
    NV_ESC_SYS_PARAMS,
    NV_ESC_NUMA_INFO,
    NV_ESC_WAIT_OPEN_COMPLETE,
    NV_ESC_RM_ALLOC_MEMORY,
    NV_ESC_RM_FREE,
    NV_ESC_RM_CONTROL,
    NV_ESC_RM_ALLOC,
    NV_ESC_RM_DUP_OBJECT,
    NV_ESC_RM_SHARE,
    NV_ESC_RM_IDLE_CHANNELS,
    NV_ESC_RM_MAP_MEMORY,
    NV_ESC_RM_VID_HEAP_CONTROL,
    NV_ESC_RM_UNMAP_MEMORY,
    NV_ESC_RM_GET_EVENT_DATA,
    NV_ESC_RM_MAP_MEMORY_DMA,
    NV_ESC_RM_UNMAP_MEMORY_DMA,
    NV_ESC_RM_UPDATE_DEVICE_MAPPING_INFO,
};

inline constexpr uint32_t kClasses[] = {
    NV01_ROOT,
    NV01_ROOT_CLIENT,
    NV01_DEVICE_0,
    NV20_SUBDEVICE_0,
    NV2081_BINAPI,
    FERMI_VASPACE_A,
    NV01_MEMORY_SYSTEM,
    NV01_MEMORY_LOCAL_USER,
    NV50_MEMORY_VIRTUAL,
    KEPLER_CHANNEL_GROUP_A,
    FERMI_CONTEXT_SHARE_A,
    AMPERE_CHANNEL_GPFIFO_A,
    HOPPER_CHANNEL_GPFIFO_A,
    HOPPER_USERMODE_A,
    AMPERE_DMA_COPY_A,
    HOPPER_DMA_COPY_A,
    AMPERE_COMPUTE_A,
    HOPPER_COMPUTE_A,
    NV01_EVENT_OS_EVENT,
    NV50_P2P,
    GT200_DEBUGGER,
    RM_USER_SHARED_DATA,
};

}  // namespace phantora::hostile

#endif  // PHANTORA_TEST_FUZZ_HOSTILE_CALLS_H_
