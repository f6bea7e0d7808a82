// libcuda and libnccl as an ordinary program loads them.
#ifndef PHANTORA_TEST_NCCL_PERF_LIBRARIES_H_
#define PHANTORA_TEST_NCCL_PERF_LIBRARIES_H_

#include <cstddef>
#include <cstdint>

namespace phantora::nccl_perf {

using CudaResult = int;
using NcclResult = int;
struct UniqueId {
  char bytes[128];
};

struct Cuda {
  CudaResult (*Init)(unsigned);
  CudaResult (*DeviceGet)(int*, int);
  CudaResult (*DeviceGetCount)(int*);
  CudaResult (*DeviceGetName)(char*, int, int);
  CudaResult (*DeviceGetAttribute)(int*, int, int);
  CudaResult (*PrimaryContext)(void**, int);
  CudaResult (*SetContext)(void*);
  CudaResult (*CreateStream)(void**, unsigned);
  CudaResult (*SynchronizeStream)(void*);
  CudaResult (*Allocate)(uint64_t*, size_t);
  CudaResult (*Free)(uint64_t);
  CudaResult (*CopyToDevice)(uint64_t, const void*, size_t);
  CudaResult (*CopyToHost)(void*, uint64_t, size_t);
};

struct Nccl {
  NcclResult (*GetVersion)(int*);
  NcclResult (*GetUniqueId)(UniqueId*);
  NcclResult (*CommInitRank)(void**, int, UniqueId, int);
  NcclResult (*CommDestroy)(void*);
  NcclResult (*GroupStart)();
  NcclResult (*GroupEnd)();
  NcclResult (*AllReduce)(uint64_t, uint64_t, size_t, int, int, void*, void*);
  NcclResult (*AllGather)(uint64_t, uint64_t, size_t, int, void*, void*);
  NcclResult (*ReduceScatter)(uint64_t, uint64_t, size_t, int, int, void*, void*);
  NcclResult (*Broadcast)(uint64_t, uint64_t, size_t, int, int, void*, void*);
  NcclResult (*Reduce)(uint64_t, uint64_t, size_t, int, int, int, void*, void*);
  NcclResult (*Send)(uint64_t, size_t, int, int, void*, void*);
  NcclResult (*Receive)(uint64_t, size_t, int, int, void*, void*);
  const char* (*GetErrorString)(NcclResult);
  const char* (*GetLastError)(void*);
};

// Ends the program with a message if a library or a function is not there.
Cuda LoadCuda();
Nccl LoadNccl();

}  // namespace phantora::nccl_perf

#endif  // PHANTORA_TEST_NCCL_PERF_LIBRARIES_H_
