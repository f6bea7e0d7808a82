#include "tools/profiler/cuda_api.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"

namespace phantora::cuda {

absl::StatusOr<Api> Api::Load() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) {
    return absl::NotFoundError(absl::StrCat("there is no NVIDIA driver here: ", dlerror()));
  }
  Api api;
  const char* missing = nullptr;
  const auto find = [&](const char* name, auto& function) {
    void* const symbol = dlsym(library, name);
    if (symbol == nullptr) missing = name;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(symbol);
  };
  find("cuGetErrorName", api.GetErrorName);
  find("cuInit", api.Init);
  find("cuDriverGetVersion", api.DriverGetVersion);
  find("cuDeviceGet", api.DeviceGet);
  find("cuDeviceGetName", api.DeviceGetName);
  find("cuDeviceGetAttribute", api.DeviceGetAttribute);
  find("cuCtxCreate_v2", api.CtxCreate);
  find("cuCtxSynchronize", api.CtxSynchronize);
  find("cuModuleLoadData", api.ModuleLoadData);
  find("cuModuleUnload", api.ModuleUnload);
  find("cuModuleGetFunction", api.ModuleGetFunction);
  find("cuFuncGetAttribute", api.FuncGetAttribute);
  find("cuFuncSetAttribute", api.FuncSetAttribute);
  find("cuLaunchKernelEx", api.LaunchKernelEx);
  find("cuMemGetInfo_v2", api.MemGetInfo);
  find("cuStreamCreate", api.StreamCreate);
  find("cuStreamSynchronize", api.StreamSynchronize);
  find("cuStreamWaitValue32_v2", api.StreamWaitValue32);
  find("cuEventCreate", api.EventCreate);
  find("cuEventRecord", api.EventRecord);
  find("cuEventSynchronize", api.EventSynchronize);
  find("cuEventElapsedTime", api.EventElapsedTime);
  find("cuMemHostAlloc", api.MemHostAlloc);
  find("cuMemHostRegister_v2", api.MemHostRegister);
  find("cuMemHostUnregister", api.MemHostUnregister);
  find("cuMemHostGetDevicePointer_v2", api.MemHostGetDevicePointer);
  find("cuMemcpyHtoD_v2", api.MemcpyHtoD);
  find("cuMemcpyHtoDAsync_v2", api.MemcpyHtoDAsync);
  find("cuMemcpyDtoHAsync_v2", api.MemcpyDtoHAsync);
  find("cuMemcpyDtoDAsync_v2", api.MemcpyDtoDAsync);
  find("cuMemsetD8Async", api.MemsetD8Async);
  find("cuMemsetD16Async", api.MemsetD16Async);
  find("cuMemsetD32Async", api.MemsetD32Async);
  find("cuMemAddressReserve", api.MemAddressReserve);
  find("cuMemAddressFree", api.MemAddressFree);
  find("cuMemCreate", api.MemCreate);
  find("cuMemMap", api.MemMap);
  find("cuMemUnmap", api.MemUnmap);
  find("cuMemRelease", api.MemRelease);
  find("cuMemSetAccess", api.MemSetAccess);
  if (missing != nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("the driver here is too old: it has no ", missing));
  }
  return api;
}

absl::Status Api::Check(Result result, const char* what) const {
  if (result == kSuccess) return absl::OkStatus();
  const char* name = nullptr;
  GetErrorName(result, &name);
  return absl::InternalError(
      absl::StrCat(name == nullptr ? "an unknown error" : name, " in ", what));
}

}  // namespace phantora::cuda
