// NCCL's public interface as of 2.27.7: its names, numbers and layouts, which programs are compiled
// against. Of 2.28 it has what programs that were compiled against that need without asking for the
// version: the collectives (XLA), and to be refused communication by their own kernels
// (PyTorch 2.11 does not load without these functions). Each function exists a second time with a
// "p" in front, as in NCCL, for profilers.
#ifndef PHANTORA_FABRIC_LIBRARY_NCCL_API_H_
#define PHANTORA_FABRIC_LIBRARY_NCCL_API_H_

#include <climits>
#include <cstddef>
#include <cstdint>

inline constexpr int kNcclVersion = 22707;

struct ncclComm;
struct ncclWindow;
struct ncclDevComm;
struct ncclDevCommRequirements;
struct CUstream_st;
using ncclComm_t = ncclComm*;
using ncclWindow_t = ncclWindow*;
using cudaStream_t = CUstream_st*;

struct ncclUniqueId {
  char internal[128];
};

enum ncclResult_t {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
};
inline constexpr int kNcclResults = 8;

// C programs pass any number as these three, so they must be as wide as int.
enum ncclDataType_t : int {
  ncclInt8,
  ncclUint8,
  ncclInt32,
  ncclUint32,
  ncclInt64,
  ncclUint64,
  ncclFloat16,
  ncclFloat32,
  ncclFloat64,
  ncclBfloat16,
  ncclFloat8e4m3,
  ncclFloat8e5m2,
};
inline constexpr int kNcclTypes = 12;

enum ncclRedOp_t : int { ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg };
inline constexpr int kNcclBuiltInReductions = 5;

enum ncclScalarResidence_t : int { ncclScalarDevice, ncclScalarHostImmediate };

inline constexpr int kNcclUndefined = INT_MIN;
inline constexpr unsigned kNcclConfigMagic = 0xcafebeef;
inline constexpr unsigned kNcclSimInfoMagic = 0x74685283;
inline constexpr int kNcclNoColor = -1;
inline constexpr int kNcclShrinkAbort = 1;

// Programs compiled against an older version have a shorter one, which `size` tells.
struct ncclConfig_t {
  size_t size = sizeof(ncclConfig_t);
  unsigned magic = kNcclConfigMagic;
  unsigned version = kNcclVersion;
  int blocking = kNcclUndefined;        // since 2.14
  int cgaClusterSize = kNcclUndefined;  // since 2.17, and the next three
  int minCTAs = kNcclUndefined;
  int maxCTAs = kNcclUndefined;
  const char* netName = nullptr;
  int splitShare = kNcclUndefined;
  int trafficClass = kNcclUndefined;  // since 2.25, and the next
  const char* commName = nullptr;
  int collnetEnable = kNcclUndefined;  // since 2.27, and the rest
  int CTAPolicy = kNcclUndefined;
  int shrinkShare = kNcclUndefined;
  int nvlsCTAs = kNcclUndefined;
};
static_assert(sizeof(ncclConfig_t) == 72 && offsetof(ncclConfig_t, netName) == 32 &&
              offsetof(ncclConfig_t, commName) == 48 && offsetof(ncclConfig_t, nvlsCTAs) == 68);

struct ncclSimInfo_t {
  size_t size;
  unsigned magic;
  unsigned version;
  float estimatedTime;
};

// X(return type, name, parameters): the list of what is exported.
#define PHANTORA_NCCL_FUNCTIONS(X)                                                                 \
  X(ncclResult_t, MemAlloc, (void** ptr, size_t size))                                             \
  X(ncclResult_t, MemFree, (void* ptr))                                                            \
  X(ncclResult_t, GetVersion, (int* version))                                                      \
  X(ncclResult_t, GetUniqueId, (ncclUniqueId * id))                                                \
  X(ncclResult_t, CommInitRank, (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank))         \
  X(ncclResult_t, CommInitRankConfig,                                                              \
    (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config))               \
  X(ncclResult_t, CommInitRankScalable,                                                            \
    (ncclComm_t * comm, int ranks, int rank, int ids, ncclUniqueId* id, ncclConfig_t* config))     \
  X(ncclResult_t, CommInitAll, (ncclComm_t * comms, int count, const int* devices))                \
  X(ncclResult_t, CommFinalize, (ncclComm_t comm))                                                 \
  X(ncclResult_t, CommDestroy, (ncclComm_t comm))                                                  \
  X(ncclResult_t, CommAbort, (ncclComm_t comm))                                                    \
  X(ncclResult_t, CommSplit,                                                                       \
    (ncclComm_t comm, int color, int key, ncclComm_t* child, ncclConfig_t* config))                \
  X(ncclResult_t, CommShrink,                                                                      \
    (ncclComm_t comm, int* excluded, int excluded_count, ncclComm_t* child, ncclConfig_t* config,  \
     int flags))                                                                                   \
  X(const char*, GetErrorString, (ncclResult_t result))                                            \
  X(const char*, GetLastError, (ncclComm_t comm))                                                  \
  X(void, ResetDebugInit, ())                                                                      \
  X(ncclResult_t, CommGetAsyncError, (ncclComm_t comm, ncclResult_t * error))                      \
  X(ncclResult_t, CommCount, (ncclComm_t comm, int* count))                                        \
  X(ncclResult_t, CommCuDevice, (ncclComm_t comm, int* device))                                    \
  X(ncclResult_t, CommUserRank, (ncclComm_t comm, int* rank))                                      \
  X(ncclResult_t, CommRegister, (ncclComm_t comm, void* buffer, size_t size, void** handle))       \
  X(ncclResult_t, CommDeregister, (ncclComm_t comm, void* handle))                                 \
  X(ncclResult_t, CommWindowRegister,                                                              \
    (ncclComm_t comm, void* buffer, size_t size, ncclWindow_t* window, int flags))                 \
  X(ncclResult_t, CommWindowDeregister, (ncclComm_t comm, ncclWindow_t window))                    \
  X(ncclResult_t, DevCommCreate,                                                                   \
    (ncclComm_t comm, const ncclDevCommRequirements* requirements, ncclDevComm* device_comm))      \
  X(ncclResult_t, DevCommDestroy, (ncclComm_t comm, const ncclDevComm* device_comm))               \
  X(ncclResult_t, RedOpCreatePreMulSum,                                                            \
    (ncclRedOp_t * op, void* scalar, ncclDataType_t type, ncclScalarResidence_t residence,         \
     ncclComm_t comm))                                                                             \
  X(ncclResult_t, RedOpDestroy, (ncclRedOp_t op, ncclComm_t comm))                                 \
  X(ncclResult_t, Reduce,                                                                          \
    (const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t op, int root, \
     ncclComm_t comm, cudaStream_t stream))                                                        \
  X(ncclResult_t, Bcast,                                                                           \
    (void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,                   \
     cudaStream_t stream))                                                                         \
  X(ncclResult_t, Broadcast,                                                                       \
    (const void* send, void* receive, size_t count, ncclDataType_t type, int root,                 \
     ncclComm_t comm, cudaStream_t stream))                                                        \
  X(ncclResult_t, AllReduce,                                                                       \
    (const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t op,           \
     ncclComm_t comm, cudaStream_t stream))                                                        \
  X(ncclResult_t, ReduceScatter,                                                                   \
    (const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t op,           \
     ncclComm_t comm, cudaStream_t stream))                                                        \
  X(ncclResult_t, AllGather,                                                                       \
    (const void* send, void* receive, size_t count, ncclDataType_t type, ncclComm_t comm,          \
     cudaStream_t stream))                                                                         \
  X(ncclResult_t, AlltoAll,                                                                        \
    (const void* send, void* receive, size_t count, ncclDataType_t type, ncclComm_t comm,          \
     cudaStream_t stream))                                                                         \
  X(ncclResult_t, Gather,                                                                          \
    (const void* send, void* receive, size_t count, ncclDataType_t type, int root,                 \
     ncclComm_t comm, cudaStream_t stream))                                                        \
  X(ncclResult_t, Scatter,                                                                         \
    (const void* send, void* receive, size_t count, ncclDataType_t type, int root,                 \
     ncclComm_t comm, cudaStream_t stream))                                                        \
  X(ncclResult_t, Send,                                                                            \
    (const void* send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,               \
     cudaStream_t stream))                                                                         \
  X(ncclResult_t, Recv,                                                                            \
    (void* receive, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,                  \
     cudaStream_t stream))                                                                         \
  X(ncclResult_t, GroupStart, ())                                                                  \
  X(ncclResult_t, GroupEnd, ())                                                                    \
  X(ncclResult_t, GroupSimulateEnd, (ncclSimInfo_t * info))                                        \
  /* Since 2.28 to 2.30, and not simulated (api_unsimulated.cc). */                                \
  X(ncclResult_t, CommRevoke, (ncclComm_t comm, int flags))                                        \
  X(ncclResult_t, CommGetUniqueId, (ncclComm_t comm, ncclUniqueId * id))                           \
  X(ncclResult_t, CommGrow,                                                                        \
    (ncclComm_t comm, int ranks, const ncclUniqueId* id, int rank, ncclComm_t* grown,              \
     ncclConfig_t* config))                                                                        \
  X(ncclResult_t, CommSuspend, (ncclComm_t comm, int flags))                                       \
  X(ncclResult_t, CommResume, (ncclComm_t comm))                                                   \
  X(ncclResult_t, CommMemStats, (ncclComm_t comm, int which, uint64_t* value))                     \
  X(ncclResult_t, WinGetUserPtr, (ncclComm_t comm, ncclWindow_t window, void** pointer))           \
  X(ncclResult_t, PutSignal,                                                                       \
    (const void* send, size_t count, ncclDataType_t type, int peer, ncclWindow_t window,           \
     size_t offset, int signal, int context, unsigned flags, ncclComm_t comm,                      \
     cudaStream_t stream))                                                                         \
  X(ncclResult_t, Signal,                                                                          \
    (int peer, int signal, int context, unsigned flags, ncclComm_t comm, cudaStream_t stream))     \
  X(ncclResult_t, WaitSignal, (int count, void* signals, ncclComm_t comm, cudaStream_t stream))    \
  X(ncclResult_t, GetLsaMultimemDevicePointer,                                                     \
    (ncclWindow_t window, size_t offset, void** pointer))                                          \
  X(ncclResult_t, GetPeerDevicePointer,                                                            \
    (ncclWindow_t window, size_t offset, int peer, void** pointer))

#define PHANTORA_NCCL_DECLARE(type, name, parameters)                 \
  __attribute__((visibility("default"))) type pnccl##name parameters; \
  __attribute__((visibility("default"))) type nccl##name parameters;
extern "C" {
PHANTORA_NCCL_FUNCTIONS(PHANTORA_NCCL_DECLARE)
}
#undef PHANTORA_NCCL_DECLARE

// Stands in the file that defines pncclNAME. Profilers define ncclNAME themselves.
#define PHANTORA_NCCL_EXPORT(name) \
  decltype(pnccl##name) nccl##name __attribute__((weak, alias("pnccl" #name)))

#endif  // PHANTORA_FABRIC_LIBRARY_NCCL_API_H_
