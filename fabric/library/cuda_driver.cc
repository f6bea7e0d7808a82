#include "fabric/library/cuda_driver.h"

#include <dlfcn.h>

#include "fabric/library/last_error.h"

namespace phantora::nccl {
namespace {

const CudaDriver* replacement = nullptr;

template <typename Function>
bool Find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  return function != nullptr;
}

// Returns the name of what is missing, or null.
const char* Load(CudaDriver& d) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return "libcuda.so.1";
#define PHANTORA_NCCL_NEED(symbol, member) \
  if (!Find(library, symbol, d.member)) return symbol
  PHANTORA_NCCL_NEED("cuInit", Init);
  PHANTORA_NCCL_NEED("cuGetErrorName", GetErrorName);
  PHANTORA_NCCL_NEED("cuDeviceGet", DeviceGet);
  PHANTORA_NCCL_NEED("cuDeviceGetCount", DeviceGetCount);
  PHANTORA_NCCL_NEED("cuDeviceGetAttribute", DeviceGetAttribute);
  PHANTORA_NCCL_NEED("cuDevicePrimaryCtxRetain", DevicePrimaryCtxRetain);
  PHANTORA_NCCL_NEED("cuCtxGetCurrent", CtxGetCurrent);
  PHANTORA_NCCL_NEED("cuCtxSetCurrent", CtxSetCurrent);
  PHANTORA_NCCL_NEED("cuCtxPushCurrent_v2", CtxPushCurrent);
  PHANTORA_NCCL_NEED("cuCtxPopCurrent_v2", CtxPopCurrent);
  PHANTORA_NCCL_NEED("cuCtxGetDevice", CtxGetDevice);
  PHANTORA_NCCL_NEED("cuModuleLoadData", ModuleLoadData);
  PHANTORA_NCCL_NEED("cuModuleGetFunction", ModuleGetFunction);
  PHANTORA_NCCL_NEED("cuFuncGetAttribute", FuncGetAttribute);
  PHANTORA_NCCL_NEED("cuLaunchKernel", LaunchKernel);
  PHANTORA_NCCL_NEED("cuEventCreate", EventCreate);
  PHANTORA_NCCL_NEED("cuEventDestroy_v2", EventDestroy);
  PHANTORA_NCCL_NEED("cuEventRecord", EventRecord);
  PHANTORA_NCCL_NEED("cuEventQuery", EventQuery);
  PHANTORA_NCCL_NEED("cuStreamWaitEvent", StreamWaitEvent);
  PHANTORA_NCCL_NEED("cuStreamGetCaptureInfo_v2", StreamGetCaptureInfo);
  PHANTORA_NCCL_NEED("cuThreadExchangeStreamCaptureMode", ThreadExchangeStreamCaptureMode);
  PHANTORA_NCCL_NEED("cuMemAlloc_v2", MemAlloc);
  PHANTORA_NCCL_NEED("cuMemFree_v2", MemFree);
  PHANTORA_NCCL_NEED("cuMemcpyAsync", MemcpyAsync);
  // The second version knows the instances of a partitioned GPU.
  if (!Find(library, "cuDeviceGetUuid_v2", d.DeviceGetUuid)) {
    PHANTORA_NCCL_NEED("cuDeviceGetUuid", DeviceGetUuid);
  }
#undef PHANTORA_NCCL_NEED
  Find(library, "cuFuncLoad", d.FuncLoad);
  Find(library, "cuCtxGetId", d.CtxGetId);
  Find(library, "cuStreamGetId", d.StreamGetId);
  return nullptr;
}

}  // namespace

const CudaDriver* Cuda() {
  if (replacement != nullptr) return replacement;
  static CudaDriver driver = {};
  static const char* const missing = Load(driver);
  if (missing == nullptr) return &driver;
  FailLoudly(ncclUnhandledCudaError, "CUDA driver: no %s", missing);
  return nullptr;
}

ncclResult_t CheckCuda(CudaResult result, const char* what) {
  if (result == kCudaSuccess) return ncclSuccess;
  const char* name = nullptr;
  Cuda()->GetErrorName(result, &name);
  return FailLoudly(ncclUnhandledCudaError, "%s: CUDA error %d (%s)", what, result,
                    name == nullptr ? "unknown" : name);
}

void SetCudaForTest(const CudaDriver* driver) { replacement = driver; }

ScopedContext::ScopedContext(CudaContext context) {
  CudaContext current = nullptr;
  if (Cuda()->CtxGetCurrent(&current) == kCudaSuccess && current == context) return;
  pushed_ = Cuda()->CtxPushCurrent(context) == kCudaSuccess;
}

ScopedContext::~ScopedContext() {
  CudaContext old;
  if (pushed_) Cuda()->CtxPopCurrent(&old);
}

ScopedRelaxedCapture::ScopedRelaxedCapture() { Cuda()->ThreadExchangeStreamCaptureMode(&mode_); }

ScopedRelaxedCapture::~ScopedRelaxedCapture() { Cuda()->ThreadExchangeStreamCaptureMode(&mode_); }

}  // namespace phantora::nccl
