// Controls whose parameters point to lists (ctrl*.h of the driver's SDK).
#ifndef PHANTORA_TOOLS_RECORD_POINTED_LISTS_H_
#define PHANTORA_TOOLS_RECORD_POINTED_LISTS_H_

#include <cstddef>
#include <cstdint>

#include "trap/abi/generated/rm_controls.h"

namespace phantora::record {

enum class ListKind : uint8_t {
  kIndexData,  // pairs of 32 bits: what is asked, and the answer
  kWords,      // 32 bits each
  kHandles,    // 32 bits each
  kText,
};

struct PointedList {
  uint32_t command;
  uint16_t count_offset, pointer_offset;
  uint16_t element_bytes;
  ListKind kind;
  const char* name;
};

#define PHANTORA_LIST(command, params, count, pointer, bytes, kind)                    \
  {                                                                                    \
    abi::command, offsetof(abi::params, count), offsetof(abi::params, pointer), bytes, \
        ListKind::kind, #pointer                                                       \
  }
inline constexpr PointedList kPointedLists[] = {
    PHANTORA_LIST(NV0000_CTRL_CMD_SYSTEM_GET_BUILD_VERSION,
                  NV0000_CTRL_SYSTEM_GET_BUILD_VERSION_PARAMS, sizeOfStrings, pDriverVersionBuffer,
                  1, kText),
    PHANTORA_LIST(NV0000_CTRL_CMD_SYSTEM_GET_BUILD_VERSION,
                  NV0000_CTRL_SYSTEM_GET_BUILD_VERSION_PARAMS, sizeOfStrings, pVersionBuffer, 1,
                  kText),
    PHANTORA_LIST(NV0000_CTRL_CMD_SYSTEM_GET_BUILD_VERSION,
                  NV0000_CTRL_SYSTEM_GET_BUILD_VERSION_PARAMS, sizeOfStrings, pTitleBuffer, 1,
                  kText),
    PHANTORA_LIST(NV0080_CTRL_CMD_GPU_GET_CLASSLIST, NV0080_CTRL_GPU_GET_CLASSLIST_PARAMS,
                  numClasses, classList, 4, kWords),
    PHANTORA_LIST(NV0080_CTRL_CMD_FIFO_GET_CHANNELLIST, NV0080_CTRL_FIFO_GET_CHANNELLIST_PARAMS,
                  numChannels, pChannelHandleList, 4, kHandles),
    PHANTORA_LIST(NV0080_CTRL_CMD_FIFO_GET_CHANNELLIST, NV0080_CTRL_FIFO_GET_CHANNELLIST_PARAMS,
                  numChannels, pChannelList, 4, kWords),
    PHANTORA_LIST(NV2080_CTRL_CMD_GR_GET_INFO, NV2080_CTRL_GR_GET_INFO_PARAMS, grInfoListSize,
                  grInfoList, 8, kIndexData),
    PHANTORA_LIST(NV2080_CTRL_CMD_FB_GET_INFO, NV2080_CTRL_FB_GET_INFO_PARAMS, fbInfoListSize,
                  fbInfoList, 8, kIndexData),
    PHANTORA_LIST(NV2080_CTRL_CMD_BUS_GET_INFO, NV2080_CTRL_BUS_GET_INFO_PARAMS, busInfoListSize,
                  busInfoList, 8, kIndexData),
    PHANTORA_LIST(NV2080_CTRL_CMD_BIOS_GET_INFO, NV2080_CTRL_BIOS_GET_INFO_PARAMS, biosInfoListSize,
                  biosInfoList, 8, kIndexData),
    PHANTORA_LIST(NV2080_CTRL_CMD_GPU_GET_INFO, NV2080_CTRL_GPU_GET_INFO_PARAMS, gpuInfoListSize,
                  gpuInfoList, 8, kIndexData),
    PHANTORA_LIST(NV2080_CTRL_CMD_GPU_GET_ENGINES, NV2080_CTRL_GPU_GET_ENGINES_PARAMS, engineCount,
                  engineList, 4, kWords),
    PHANTORA_LIST(NV2080_CTRL_CMD_GPU_GET_ENGINE_CLASSLIST,
                  NV2080_CTRL_GPU_GET_ENGINE_CLASSLIST_PARAMS, numClasses, classList, 4, kWords),
};
#undef PHANTORA_LIST

}  // namespace phantora::record

#endif  // PHANTORA_TOOLS_RECORD_POINTED_LISTS_H_
