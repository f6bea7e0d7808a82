// What went wrong, in words: for ncclGetLastError, and on stderr where the user must see it.
#ifndef PHANTORA_FABRIC_LIBRARY_LAST_ERROR_H_
#define PHANTORA_FABRIC_LIBRARY_LAST_ERROR_H_

#include "fabric/library/nccl_api.h"

namespace phantora::nccl {

// Remembers the message and returns `result`. Prints it if NCCL_DEBUG asks for warnings, as NCCL.
[[gnu::format(printf, 2, 3)]] ncclResult_t Fail(ncclResult_t result, const char* format, ...);

// The same, printed whatever NCCL_DEBUG says: for what is no mistake of the calling program.
[[gnu::format(printf, 2, 3)]] ncclResult_t FailLoudly(ncclResult_t result, const char* format, ...);

// Prints without being an error.
[[gnu::format(printf, 1, 2)]] void Warn(const char* format, ...);

// Never null. Stays readable while the next few messages are written.
const char* LastError();

// Prints NCCL's version the first time, if NCCL_DEBUG asks for it.
void ShowVersionOnce(int rank);

void RereadDebugLevel();

}  // namespace phantora::nccl

#endif  // PHANTORA_FABRIC_LIBRARY_LAST_ERROR_H_
