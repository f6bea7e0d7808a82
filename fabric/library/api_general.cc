// What NCCL says of itself and of errors.
#include "fabric/library/last_error.h"
#include "fabric/library/nccl_api.h"

extern "C" {

ncclResult_t pncclGetVersion(int* version) {
  if (version == nullptr) return ncclInvalidArgument;
  *version = kNcclVersion;
  return ncclSuccess;
}

// NCCL's words, which programs look for.
const char* pncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
      return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
  }
  return "unknown result code";
}

const char* pncclGetLastError(ncclComm_t comm) { return phantora::nccl::LastError(); }

void pncclResetDebugInit() { phantora::nccl::RereadDebugLevel(); }

}  // extern "C"

PHANTORA_NCCL_EXPORT(GetVersion);
PHANTORA_NCCL_EXPORT(GetErrorString);
PHANTORA_NCCL_EXPORT(GetLastError);
PHANTORA_NCCL_EXPORT(ResetDebugInit);
