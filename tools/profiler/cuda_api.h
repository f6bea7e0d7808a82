// The part of the CUDA driver API that replaying kernels takes, declared anew from its public
// documentation, so that it builds without a CUDA toolkit and loads libcuda.so.1 at run time.
#ifndef PHANTORA_TOOLS_PROFILER_CUDA_API_H_
#define PHANTORA_TOOLS_PROFILER_CUDA_API_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace phantora::cuda {

using Device = int;
using Pointer = unsigned long long;  // NOLINT(google-runtime-int): as documented
using Handle = unsigned long long;   // NOLINT(google-runtime-int)
using Context = struct CUctx_st*;
using Module = struct CUmod_st*;
using Function = struct CUfunc_st*;
using Event = struct CUevent_st*;
using Stream = struct CUstream_st*;

enum Result : int { kSuccess = 0 };

// CUdevice_attribute, CUfunction_attribute and others, by their documented numbers.
inline constexpr int kComputeMajor = 75, kComputeMinor = 76;
inline constexpr int kClockRate = 13, kMultiprocessors = 16, kSharedPerBlockOptIn = 97,
                     kReservedSharedPerBlock = 111;
inline constexpr int kFunctionSharedBytes = 1, kFunctionMaxDynamicShared = 8,
                     kFunctionNonPortableCluster = 14;
inline constexpr unsigned kHostAllocDeviceMap = 2, kHostRegisterDeviceMap = 2;
inline constexpr unsigned kWaitGreaterOrEqual = 0;

struct Location {
  int type = 1;  // a device
  int id = 0;
};
struct AllocationProperties {  // CUmemAllocationProp
  int type = 1;                // pinned
  int handle_types = 0;
  Location location;
  void* windows = nullptr;
  unsigned char flags[8] = {};
};
struct Access {  // CUmemAccessDesc
  Location location;
  int flags = 3;  // read and write
};
struct LaunchAttribute {  // CUlaunchAttribute
  static constexpr int kCooperative = 2, kClusterDimension = 4;
  int id = kClusterDimension;
  char padding[4] = {};
  union {
    char whole[64] = {};
    struct {
      unsigned x, y, z;
    } cluster;
    int cooperative;
  } value;
};
struct LaunchConfig {  // CUlaunchConfig
  unsigned grid[3] = {}, block[3] = {};
  unsigned shared_bytes = 0;  // dynamic
  Stream stream = nullptr;
  LaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;
};
// For the last argument of a launch.
inline void* const kParameterEnd = nullptr;
inline void* const kParameterBuffer = reinterpret_cast<void*>(1);
inline void* const kParameterBytes = reinterpret_cast<void*>(2);

struct Api {
  // Errors: there is no libcuda.so.1, or it is too old.
  static absl::StatusOr<Api> Load();
  // "CUDA_ERROR_ILLEGAL_ADDRESS in `what`", or OK.
  absl::Status Check(Result result, const char* what) const;

  Result (*GetErrorName)(Result, const char**);
  Result (*Init)(unsigned flags);
  Result (*DriverGetVersion)(int*);
  Result (*DeviceGet)(Device*, int ordinal);
  Result (*DeviceGetName)(char*, int bytes, Device);
  Result (*DeviceGetAttribute)(int*, int attribute, Device);
  Result (*CtxCreate)(Context*, unsigned flags, Device);
  Result (*CtxSynchronize)();
  Result (*ModuleLoadData)(Module*, const void* image);
  Result (*ModuleUnload)(Module);
  Result (*ModuleGetFunction)(Function*, Module, const char* name);
  Result (*FuncGetAttribute)(int*, int attribute, Function);
  Result (*FuncSetAttribute)(Function, int attribute, int value);
  Result (*LaunchKernelEx)(const LaunchConfig*, Function, void** parameters, void** extra);
  Result (*MemGetInfo)(size_t* free, size_t* total);
  Result (*StreamCreate)(Stream*, unsigned flags);
  Result (*StreamSynchronize)(Stream);
  Result (*StreamWaitValue32)(Stream, Pointer, uint32_t value, unsigned flags);
  Result (*EventCreate)(Event*, unsigned flags);
  Result (*EventRecord)(Event, Stream);
  Result (*EventSynchronize)(Event);
  Result (*EventElapsedTime)(float* milliseconds, Event, Event);
  Result (*MemHostAlloc)(void**, size_t bytes, unsigned flags);
  Result (*MemHostRegister)(void*, size_t bytes, unsigned flags);
  Result (*MemHostUnregister)(void*);
  Result (*MemHostGetDevicePointer)(Pointer*, void*, unsigned flags);
  Result (*MemcpyHtoD)(Pointer, const void*, size_t bytes);
  Result (*MemcpyHtoDAsync)(Pointer, const void*, size_t bytes, Stream);
  Result (*MemcpyDtoHAsync)(void*, Pointer, size_t bytes, Stream);
  Result (*MemcpyDtoDAsync)(Pointer to, Pointer from, size_t bytes, Stream);
  Result (*MemsetD8Async)(Pointer, unsigned char, size_t bytes, Stream);
  Result (*MemsetD16Async)(Pointer, unsigned short, size_t count,  // NOLINT(google-runtime-int)
                           Stream);
  Result (*MemsetD32Async)(Pointer, unsigned, size_t count, Stream);
  Result (*MemAddressReserve)(Pointer*, size_t bytes, size_t alignment, Pointer wanted,
                              unsigned long long flags);  // NOLINT(google-runtime-int)
  Result (*MemAddressFree)(Pointer, size_t bytes);
  Result (*MemCreate)(Handle*, size_t bytes, const AllocationProperties*,
                      unsigned long long flags);  // NOLINT(google-runtime-int)
  Result (*MemMap)(Pointer, size_t bytes, size_t offset, Handle,
                   unsigned long long flags);  // NOLINT(google-runtime-int)
  Result (*MemUnmap)(Pointer, size_t bytes);
  Result (*MemRelease)(Handle);
  Result (*MemSetAccess)(Pointer, size_t bytes, const Access*, size_t count);
};

}  // namespace phantora::cuda

#endif  // PHANTORA_TOOLS_PROFILER_CUDA_API_H_
