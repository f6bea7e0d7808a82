// NCCL's memory: to allocate it, to announce it, and to let kernels of the program reach other
// ranks' through it. Announcing serves NCCL's transports, of which there are none here.
#include <atomic>

#include "fabric/library/communicator.h"
#include "fabric/library/cuda_driver.h"
#include "fabric/library/gpu.h"
#include "fabric/library/last_error.h"
#include "fabric/library/nccl_api.h"

namespace nccl = phantora::nccl;

namespace {

// What stands for a registration; programs only hand it back, and some expect it not to be null.
template <typename Handle>
Handle NewHandle() {
  static std::atomic<uintptr_t> last{0};
  return reinterpret_cast<Handle>((last += 64));
}

}  // namespace

extern "C" {

ncclResult_t pncclMemAlloc(void** pointer, size_t size) {
  if (pointer == nullptr) return nccl::Fail(ncclInvalidArgument, "MemAlloc : ptr argument is NULL");
  *pointer = nullptr;
  if (size == 0) return ncclSuccess;
  if (nccl::Cuda() == nullptr) return ncclUnhandledCudaError;
  if (const ncclResult_t result = nccl::EnsureContext(); result != ncclSuccess) return result;
  nccl::CudaAddress address = 0;
  const ncclResult_t result =
      nccl::CheckCuda(nccl::Cuda()->MemAlloc(&address, size), "ncclMemAlloc");
  if (result == ncclSuccess) *pointer = reinterpret_cast<void*>(address);
  return result;
}

ncclResult_t pncclMemFree(void* pointer) {
  if (pointer == nullptr) return ncclSuccess;
  if (nccl::Cuda() == nullptr) return ncclUnhandledCudaError;
  if (const ncclResult_t result = nccl::EnsureContext(); result != ncclSuccess) return result;
  return nccl::CheckCuda(nccl::Cuda()->MemFree(reinterpret_cast<nccl::CudaAddress>(pointer)),
                         "ncclMemFree");
}

ncclResult_t pncclCommRegister(ncclComm_t comm, void* buffer, size_t size, void** handle) {
  const auto communicator = nccl::Find(comm, "ncclCommRegister");
  if (communicator == nullptr) return ncclInvalidArgument;
  if (handle == nullptr) {
    return nccl::Fail(ncclInvalidArgument, "ncclCommRegister : handle argument is NULL");
  }
  *handle = NewHandle<void*>();
  return ncclSuccess;
}

ncclResult_t pncclCommDeregister(ncclComm_t comm, void* handle) {
  return nccl::Find(comm, "ncclCommDeregister") == nullptr ? ncclInvalidArgument : ncclSuccess;
}

ncclResult_t pncclCommWindowRegister(ncclComm_t comm, void* buffer, size_t size,
                                     ncclWindow_t* window, int flags) {
  const auto communicator = nccl::Find(comm, "ncclCommWindowRegister");
  if (communicator == nullptr) return ncclInvalidArgument;
  if (window == nullptr) {
    return nccl::Fail(ncclInvalidArgument, "ncclCommWindowRegister : win argument is NULL");
  }
  *window = nullptr;
  if (const ncclResult_t result = communicator->EnsureReady(); result != ncclSuccess) {
    return result;
  }
  if (buffer != nullptr && size != 0) *window = NewHandle<ncclWindow_t>();
  return ncclSuccess;
}

ncclResult_t pncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  if (window == nullptr) return ncclSuccess;
  return nccl::Find(comm, "ncclCommWindowDeregister") == nullptr ? ncclInvalidArgument
                                                                 : ncclSuccess;
}

// Answered as where GPUs cannot reach each other's memory. Nobody would see what such kernels send,
// so they would communicate in no time.
ncclResult_t pncclDevCommCreate(ncclComm_t comm, const ncclDevCommRequirements* requirements,
                                ncclDevComm* device_comm) {
  const auto communicator = nccl::Find(comm, "ncclDevCommCreate");
  if (communicator == nullptr) return ncclInvalidArgument;
  return nccl::FailLoudly(
      ncclInvalidUsage,
      "Communicator does not support symmetric memory! Communication by kernels "
      "of the program (ncclDevCommCreate, rank %d) is not simulated",
      communicator->rank());
}

ncclResult_t pncclDevCommDestroy(ncclComm_t comm, const ncclDevComm* device_comm) {
  if (device_comm == nullptr) return ncclSuccess;
  return nccl::Fail(ncclInvalidArgument, "ncclDevCommDestroy : none was created");
}

}  // extern "C"

PHANTORA_NCCL_EXPORT(MemAlloc);
PHANTORA_NCCL_EXPORT(MemFree);
PHANTORA_NCCL_EXPORT(CommRegister);
PHANTORA_NCCL_EXPORT(CommDeregister);
PHANTORA_NCCL_EXPORT(CommWindowRegister);
PHANTORA_NCCL_EXPORT(CommWindowDeregister);
PHANTORA_NCCL_EXPORT(DevCommCreate);
PHANTORA_NCCL_EXPORT(DevCommDestroy);
