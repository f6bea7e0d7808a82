#include "test/tracees/cuda_driver.h"

#include <dlfcn.h>

#include <cstdio>

#include "test/tracees/tracee.h"

#define CU_API(name, symbol, args) CUresult(*name) args = nullptr;
#include "test/tracees/cuda_driver_api.inc"
#undef CU_API

namespace {

template <typename Function>
void Bind(void* library, const char* symbol, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, symbol));
  if (function == nullptr) Fail("libcuda.so.1 does not export %s", symbol);
}

}  // namespace

void LoadCudaDriver() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) Fail("cannot load libcuda.so.1: %s", dlerror());
#define CU_API(name, symbol, args) Bind(library, #symbol, name);
#include "test/tracees/cuda_driver_api.inc"
#undef CU_API
}

std::string CudaErrorText(CUresult result) {
  const char* name = nullptr;
  const char* text = nullptr;
  // Both leave a null pointer for a number this driver does not know.
  cuGetErrorName(result, &name);
  cuGetErrorString(result, &text);
  return std::string(name ? name : "unknown error") + " (" +
         std::to_string(static_cast<int>(result)) + "): " + (text ? text : "?");
}

void FailCall(const char* file, int line, const char* call, CUresult got, CUresult want) {
  if (want == CUDA_SUCCESS) {
    Fail("%s:%d: %s\n  -> %s", file, line, call, CudaErrorText(got).c_str());
  }
  Fail("%s:%d: %s\n  -> %s\n  wanted %s", file, line, call, CudaErrorText(got).c_str(),
       CudaErrorText(want).c_str());
}
