// What NVIDIA's own NCCL gives its kernels, and its library's tables.
#include <cstring>
#include <string>

#include "test/fuzz/choices.h"
#include "trap/nccl/native_launch.h"
#include "trap/nccl/native_library.h"

namespace phantora {
namespace {

constexpr uint64_t kBase = 0x10000;

void Decode(Choices& choices) {
  static constexpr int kVersions[] = {21903, 22005, 22105, 22203, 22304, 22501, 22602, 22703};
  static constexpr const char* kFunctions[] = {"ncclDevFunc_AllReduce_Sum_f32_RING_LL",
                                               "ncclDevFunc_AllReduce_Sum_f32_RING_SIMPLE",
                                               "ncclDevFunc_SendRecv",
                                               "ncclDevFunc_AllReduce_MinMax_u32_RING_LL",
                                               "ncclDevFunc_Broadcast_RING_LL",
                                               "ncclDevFunc_AllReduce_SumPostDiv_u32_RING_LL",
                                               "ncclDevFunc_AllGather_RING_LL",
                                               "ncclDevFunc_AllReduce_PreMulSum_f16_TREE_SIMPLE",
                                               "ncclDevFunc_ReduceScatter_Sum_f32_RING_LL",
                                               "ncclDevFunc_AllReduce_Sum_f32_NVLS_SIMPLE",
                                               "ncclDevFunc_Reduce_Sum_f32_RING_LL",
                                               "ncclDevFunc_AllGather_NVLS_SIMPLE"};
  NativeNccl library;
  library.version = kVersions[choices.Below(8)];
  for (const char* name : kFunctions) library.functions.push_back(ParseNcclFunction(name));
  library.functions.push_back(std::nullopt);
  static constexpr const char* kKernels[] = {
      "_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LLP11ncclDevCommmP8ncclWork",
      "_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE",
      "_Z20ncclDevKernel_SendRecvP11ncclDevCommmP8ncclWork",
      "_Z20ncclDevKernel_SendRecv24ncclDevKernelArgsStorageILm4096EE",
      "_Z23ncclDevKernel_GenericX"};
  const std::string kernel = kKernels[choices.Below(5)];
  const auto memory = choices.Bytes(choices.Below(1 << 14));
  auto parameters = choices.Bytes(choices.Below(4097));
  // Pointers to what there is.
  for (const size_t at : {size_t{0}, size_t{16}}) {
    if (choices.Below(4) == 0 || parameters.size() < at + 8) continue;
    const uint64_t address = kBase + choices.Below(1 << 14);
    std::memcpy(&parameters[at], &address, sizeof address);
  }
  uint64_t bytes_read = 0;
  const auto launch = DecodeNativeLaunch(
      library, kernel, parameters, [&](uint64_t address, void* to, uint64_t bytes) {
        bytes_read += bytes;
        Require(bytes_read <= uint64_t{1} << 26);
        if (address < kBase || address - kBase > memory.size() ||
            bytes > memory.size() - (address - kBase)) {
          return false;
        }
        std::memcpy(to, memory.data() + (address - kBase), bytes);
        return true;
      });
  if (launch.ok()) Require(launch->operations.size() <= 1 << 16);
}

}  // namespace
}  // namespace phantora

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  phantora::Choices choices(data, size);
  switch (choices.Below(4)) {
    case 0: {
      const auto rest = choices.Rest();
      phantora::ReadNativeNccl(rest, 90);
      break;
    }
    case 1: {
      const auto rest = choices.Rest();
      phantora::ParseNcclFunction(std::string(rest.begin(), rest.end()));
      break;
    }
    default:
      phantora::Decode(choices);
  }
  return 0;
}
