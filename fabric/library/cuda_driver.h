// The few functions of libcuda that are needed, found at run time.
#ifndef PHANTORA_FABRIC_LIBRARY_CUDA_DRIVER_H_
#define PHANTORA_FABRIC_LIBRARY_CUDA_DRIVER_H_

#include <cstddef>
#include <cstdint>

#include "fabric/library/nccl_api.h"

struct CUctx_st;
struct CUmod_st;
struct CUfunc_st;
struct CUevent_st;

namespace phantora::nccl {

using CudaResult = int;
using CudaContext = CUctx_st*;
using CudaModule = CUmod_st*;
using CudaFunction = CUfunc_st*;
using CudaEvent = CUevent_st*;
using CudaStream = CUstream_st*;
using CudaAddress = unsigned long long;

inline constexpr CudaResult kCudaSuccess = 0, kCudaErrorNotReady = 600;
inline constexpr int kComputeCapabilityMajor = 75;  // a device's attribute
inline constexpr int kNumRegs = 4;                  // a function's attribute
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr int kCaptureModeRelaxed = 2;
inline constexpr int kCaptureStatusNone = 0;

// Streams are those of the legacy default stream's variants, as in NCCL.
struct CudaDriver {
  CudaResult (*Init)(unsigned flags);
  CudaResult (*GetErrorName)(CudaResult, const char**);
  CudaResult (*DeviceGet)(int* device, int ordinal);
  CudaResult (*DeviceGetCount)(int* count);
  CudaResult (*DeviceGetAttribute)(int* value, int attribute, int device);
  CudaResult (*DeviceGetUuid)(void* uuid, int device);
  CudaResult (*DevicePrimaryCtxRetain)(CudaContext*, int device);
  CudaResult (*CtxGetCurrent)(CudaContext*);
  CudaResult (*CtxSetCurrent)(CudaContext);
  CudaResult (*CtxPushCurrent)(CudaContext);
  CudaResult (*CtxPopCurrent)(CudaContext*);
  CudaResult (*CtxGetDevice)(int* device);
  CudaResult (*ModuleLoadData)(CudaModule*, const void* image);
  CudaResult (*ModuleGetFunction)(CudaFunction*, CudaModule, const char* name);
  CudaResult (*FuncGetAttribute)(int* value, int attribute, CudaFunction);
  CudaResult (*LaunchKernel)(CudaFunction, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                             unsigned block_x, unsigned block_y, unsigned block_z,
                             unsigned shared_bytes, CudaStream, void** parameters, void** extra);
  CudaResult (*EventCreate)(CudaEvent*, unsigned flags);
  CudaResult (*EventDestroy)(CudaEvent);
  CudaResult (*EventRecord)(CudaEvent, CudaStream);
  CudaResult (*EventQuery)(CudaEvent);
  CudaResult (*StreamWaitEvent)(CudaStream, CudaEvent, unsigned flags);
  CudaResult (*StreamGetCaptureInfo)(CudaStream, int* status, uint64_t* id, void* graph,
                                     void* dependencies, size_t* dependency_count);
  CudaResult (*ThreadExchangeStreamCaptureMode)(int* mode);
  CudaResult (*MemAlloc)(CudaAddress*, size_t);
  CudaResult (*MemFree)(CudaAddress);
  CudaResult (*MemcpyAsync)(CudaAddress to, CudaAddress from, size_t, CudaStream);
  // Null in older drivers.
  CudaResult (*FuncLoad)(CudaFunction);
  CudaResult (*CtxGetId)(CudaContext, unsigned long long*);
  CudaResult (*StreamGetId)(CudaStream, unsigned long long*);
};

// Null if there is no usable libcuda; LastError() then says why.
const CudaDriver* Cuda();

// Success, or ncclUnhandledCudaError with a message.
ncclResult_t CheckCuda(CudaResult result, const char* what);

void SetCudaForTest(const CudaDriver* driver);

// Makes a context current for as long as it lives.
class ScopedContext {
 public:
  explicit ScopedContext(CudaContext context);
  ~ScopedContext();
  ScopedContext(const ScopedContext&) = delete;
  ScopedContext& operator=(const ScopedContext&) = delete;

 private:
  bool pushed_ = false;
};

// Lets this thread do for as long as it lives what another thread's stream capture would forbid.
class ScopedRelaxedCapture {
 public:
  ScopedRelaxedCapture();
  ~ScopedRelaxedCapture();
  ScopedRelaxedCapture(const ScopedRelaxedCapture&) = delete;
  ScopedRelaxedCapture& operator=(const ScopedRelaxedCapture&) = delete;

 private:
  int mode_ = kCaptureModeRelaxed;
};

}  // namespace phantora::nccl

#endif  // PHANTORA_FABRIC_LIBRARY_CUDA_DRIVER_H_
