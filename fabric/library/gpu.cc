#include "fabric/library/gpu.h"

#include <dlfcn.h>

#include <mutex>
#include <vector>

#include "fabric/library/last_error.h"
#include "fabric/library/marker_cubins.h"
#include "fabric/library/wire.h"

namespace phantora::nccl {
namespace {

#define PHANTORA_NCCL_CHECK_CUDA(call, what)                                        \
  if (const ncclResult_t checked = CheckCuda(call, what); checked != ncclSuccess) { \
    return checked;                                                                 \
  }

// What cudaSetDevice chose before there was a context. Only a runtime that is a shared library can
// be asked.
int RuntimeDevice() {
  using CudaGetDevice = int (*)(int*);
  auto get_device = reinterpret_cast<CudaGetDevice>(dlsym(RTLD_DEFAULT, "cudaGetDevice"));
  for (const char* name : {"libcudart.so.12", "libcudart.so.13", "libcudart.so.11.0"}) {
    if (get_device != nullptr) break;
    void* runtime = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
    if (runtime == nullptr) continue;
    get_device = reinterpret_cast<CudaGetDevice>(dlsym(runtime, "cudaGetDevice"));
  }
  int device = 0;
  if (get_device == nullptr || get_device(&device) != kCudaSuccess) return 0;
  return device;
}

// A context's kernels are loaded once and stay: a module per communicator would cost memory of the
// GPU, and unloading one would wait for the GPU.
struct LoadedKernels {
  CudaContext context;
  unsigned long long id;  // contexts are made at addresses of dead ones
  CudaFunction marker, long_marker;
};

ncclResult_t LoadFunction(CudaModule module, const char* name, CudaFunction* function) {
  const CudaDriver& cuda = *Cuda();
  PHANTORA_NCCL_CHECK_CUDA(cuda.ModuleGetFunction(function, module, name), name);
  // Loading may be lazy, and a launch into a captured stream cannot load.
  if (cuda.FuncLoad != nullptr) {
    PHANTORA_NCCL_CHECK_CUDA(cuda.FuncLoad(*function), name);
  } else {
    int registers;
    PHANTORA_NCCL_CHECK_CUDA(cuda.FuncGetAttribute(&registers, kNumRegs, *function), name);
  }
  return ncclSuccess;
}

ncclResult_t LoadKernels(Gpu& gpu) {
  static std::mutex& mutex = *new std::mutex;
  static std::vector<LoadedKernels>& all = *new std::vector<LoadedKernels>;
  const CudaDriver& cuda = *Cuda();
  unsigned long long id = 0;
  if (cuda.CtxGetId != nullptr) cuda.CtxGetId(gpu.context, &id);
  const std::lock_guard lock(mutex);
  for (const LoadedKernels& loaded : all) {
    if (loaded.context != gpu.context || loaded.id != id) continue;
    gpu.marker = loaded.marker;
    gpu.long_marker = loaded.long_marker;
    return ncclSuccess;
  }
  std::string_view image = MarkerPtx();
  for (const MarkerCubin& cubin : MarkerCubins()) {
    if (cubin.architecture / 10 == gpu.compute_major) image = cubin.image;
  }
  CudaModule module;
  PHANTORA_NCCL_CHECK_CUDA(cuda.ModuleLoadData(&module, image.data()), "loading NCCL's kernels");
  if (const ncclResult_t result = LoadFunction(module, kMarkerKernel, &gpu.marker);
      result != ncclSuccess) {
    return result;
  }
  if (const ncclResult_t result = LoadFunction(module, kLongMarkerKernel, &gpu.long_marker);
      result != ncclSuccess) {
    return result;
  }
  all.push_back({gpu.context, id, gpu.marker, gpu.long_marker});
  return ncclSuccess;
}

}  // namespace

ncclResult_t EnsureContext() {
  const CudaDriver& cuda = *Cuda();
  CudaContext context = nullptr;
  if (cuda.CtxGetCurrent(&context) == kCudaSuccess && context != nullptr) return ncclSuccess;
  PHANTORA_NCCL_CHECK_CUDA(cuda.Init(0), "cuInit");
  int device;
  PHANTORA_NCCL_CHECK_CUDA(cuda.DeviceGet(&device, RuntimeDevice()), "cuDeviceGet");
  PHANTORA_NCCL_CHECK_CUDA(cuda.DevicePrimaryCtxRetain(&context, device),
                           "cuDevicePrimaryCtxRetain");
  PHANTORA_NCCL_CHECK_CUDA(cuda.CtxSetCurrent(context), "cuCtxSetCurrent");
  return ncclSuccess;
}

ncclResult_t CurrentGpu(Gpu& gpu) {
  const CudaDriver& cuda = *Cuda();
  if (const ncclResult_t result = EnsureContext(); result != ncclSuccess) return result;
  const ScopedRelaxedCapture relaxed;
  PHANTORA_NCCL_CHECK_CUDA(cuda.CtxGetCurrent(&gpu.context), "cuCtxGetCurrent");
  PHANTORA_NCCL_CHECK_CUDA(cuda.CtxGetDevice(&gpu.device), "cuCtxGetDevice");
  PHANTORA_NCCL_CHECK_CUDA(
      cuda.DeviceGetAttribute(&gpu.compute_major, kComputeCapabilityMajor, gpu.device),
      "cuDeviceGetAttribute");
  PHANTORA_NCCL_CHECK_CUDA(cuda.DeviceGetUuid(gpu.uuid, gpu.device), "cuDeviceGetUuid");
  return LoadKernels(gpu);
}

}  // namespace phantora::nccl
