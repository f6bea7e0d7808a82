// What NCCL has since 2.28 and is not simulated, so that programs that were linked against it
// start. Each says so when it is called, and fails as NCCL does where something is not supported.
#include "fabric/library/communicator.h"
#include "fabric/library/last_error.h"
#include "fabric/library/nccl_api.h"

namespace nccl = phantora::nccl;

namespace {

ncclResult_t NotSimulated(const char* function) {
  return nccl::FailLoudly(ncclInvalidUsage, "%s is not simulated", function);
}

ncclResult_t NotSimulatedOf(ncclComm_t comm, const char* function) {
  return nccl::Find(comm, function) == nullptr ? ncclInvalidArgument : NotSimulated(function);
}

}  // namespace

extern "C" {

ncclResult_t pncclCommRevoke(ncclComm_t comm, int) {
  return NotSimulatedOf(comm, "ncclCommRevoke");
}
ncclResult_t pncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId*) {
  return NotSimulatedOf(comm, "ncclCommGetUniqueId");
}
// New ranks have no communicator yet.
ncclResult_t pncclCommGrow(ncclComm_t, int, const ncclUniqueId*, int, ncclComm_t*, ncclConfig_t*) {
  return NotSimulated("ncclCommGrow");
}
ncclResult_t pncclCommSuspend(ncclComm_t comm, int) {
  return NotSimulatedOf(comm, "ncclCommSuspend");
}
ncclResult_t pncclCommResume(ncclComm_t comm) { return NotSimulatedOf(comm, "ncclCommResume"); }
ncclResult_t pncclCommMemStats(ncclComm_t comm, int, uint64_t*) {
  return NotSimulatedOf(comm, "ncclCommMemStats");
}
ncclResult_t pncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t, void**) {
  return NotSimulatedOf(comm, "ncclWinGetUserPtr");
}
ncclResult_t pncclPutSignal(const void*, size_t, ncclDataType_t, int, ncclWindow_t, size_t, int,
                            int, unsigned, ncclComm_t comm, cudaStream_t) {
  return NotSimulatedOf(comm, "ncclPutSignal");
}
ncclResult_t pncclSignal(int, int, int, unsigned, ncclComm_t comm, cudaStream_t) {
  return NotSimulatedOf(comm, "ncclSignal");
}
ncclResult_t pncclWaitSignal(int, void*, ncclComm_t comm, cudaStream_t) {
  return NotSimulatedOf(comm, "ncclWaitSignal");
}
ncclResult_t pncclGetLsaMultimemDevicePointer(ncclWindow_t, size_t, void**) {
  return NotSimulated("ncclGetLsaMultimemDevicePointer");
}
ncclResult_t pncclGetPeerDevicePointer(ncclWindow_t, size_t, int, void**) {
  return NotSimulated("ncclGetPeerDevicePointer");
}

}  // extern "C"

PHANTORA_NCCL_EXPORT(CommRevoke);
PHANTORA_NCCL_EXPORT(CommGetUniqueId);
PHANTORA_NCCL_EXPORT(CommGrow);
PHANTORA_NCCL_EXPORT(CommSuspend);
PHANTORA_NCCL_EXPORT(CommResume);
PHANTORA_NCCL_EXPORT(CommMemStats);
PHANTORA_NCCL_EXPORT(WinGetUserPtr);
PHANTORA_NCCL_EXPORT(PutSignal);
PHANTORA_NCCL_EXPORT(Signal);
PHANTORA_NCCL_EXPORT(WaitSignal);
PHANTORA_NCCL_EXPORT(GetLsaMultimemDevicePointer);
PHANTORA_NCCL_EXPORT(GetPeerDevicePointer);
