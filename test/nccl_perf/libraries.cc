#include "test/nccl_perf/libraries.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace phantora::nccl_perf {
namespace {

class Library {
 public:
  explicit Library(const char* name) : handle_(dlopen(name, RTLD_NOW | RTLD_GLOBAL)) {
    if (handle_ == nullptr) Fail(dlerror());
  }
  template <typename Function>
  void Find(const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(handle_, name));
    if (function == nullptr) Fail(dlerror());
  }

 private:
  [[noreturn]] static void Fail(const char* why) {
    std::fprintf(stderr, "nccl_perf: %s\n", why);
    std::exit(1);
  }
  void* const handle_;
};

}  // namespace

Cuda LoadCuda() {
  Library library("libcuda.so.1");
  Cuda cuda;
  library.Find("cuInit", cuda.Init);
  library.Find("cuDeviceGet", cuda.DeviceGet);
  library.Find("cuDeviceGetCount", cuda.DeviceGetCount);
  library.Find("cuDeviceGetName", cuda.DeviceGetName);
  library.Find("cuDeviceGetAttribute", cuda.DeviceGetAttribute);
  library.Find("cuDevicePrimaryCtxRetain", cuda.PrimaryContext);
  library.Find("cuCtxSetCurrent", cuda.SetContext);
  library.Find("cuStreamCreate", cuda.CreateStream);
  library.Find("cuStreamSynchronize", cuda.SynchronizeStream);
  library.Find("cuMemAlloc_v2", cuda.Allocate);
  library.Find("cuMemFree_v2", cuda.Free);
  library.Find("cuMemcpyHtoD_v2", cuda.CopyToDevice);
  library.Find("cuMemcpyDtoH_v2", cuda.CopyToHost);
  return cuda;
}

Nccl LoadNccl() {
  Library library("libnccl.so.2");
  Nccl nccl;
  library.Find("ncclGetVersion", nccl.GetVersion);
  library.Find("ncclGetUniqueId", nccl.GetUniqueId);
  library.Find("ncclCommInitRank", nccl.CommInitRank);
  library.Find("ncclCommDestroy", nccl.CommDestroy);
  library.Find("ncclGroupStart", nccl.GroupStart);
  library.Find("ncclGroupEnd", nccl.GroupEnd);
  library.Find("ncclAllReduce", nccl.AllReduce);
  library.Find("ncclAllGather", nccl.AllGather);
  library.Find("ncclReduceScatter", nccl.ReduceScatter);
  library.Find("ncclBroadcast", nccl.Broadcast);
  library.Find("ncclReduce", nccl.Reduce);
  library.Find("ncclSend", nccl.Send);
  library.Find("ncclRecv", nccl.Receive);
  library.Find("ncclGetErrorString", nccl.GetErrorString);
  library.Find("ncclGetLastError", nccl.GetLastError);
  return nccl;
}

}  // namespace phantora::nccl_perf
