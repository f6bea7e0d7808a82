// How communicators are made, asked and ended.
#include <sys/random.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "fabric/library/communicator.h"
#include "fabric/library/device_calls.h"
#include "fabric/library/gpu.h"
#include "fabric/library/group.h"
#include "fabric/library/last_error.h"
#include "fabric/library/nccl_api.h"
#include "fabric/library/settings.h"
#include "fabric/library/wire.h"

namespace phantora::nccl {
namespace {

void Set(ncclComm_t* out, ncclComm_t value) { __atomic_store_n(out, value, __ATOMIC_RELEASE); }

ncclResult_t MissingArgument(const char* function, const char* name) {
  return Fail(ncclInvalidArgument, "%s : %s argument is NULL", function, name);
}

// --- Joining --------------------------------------------------------------------------

ncclResult_t JoinInGroup(ncclComm_t* out, int ranks, const ncclUniqueId& id, int rank,
                         const Config& config) {
  ShowVersionOnce(rank);
  if (out == nullptr) return MissingArgument("CommInitRank", "newcomm");
  Set(out, nullptr);
  if (ranks < 1 || rank < 0 || rank >= ranks) {
    return Fail(ncclInvalidArgument, "Invalid rank requested : %d/%d", rank, ranks);
  }
  if (Cuda() == nullptr) return ncclUnhandledCudaError;
  Gpu gpu;
  if (const ncclResult_t result = CurrentGpu(gpu); result != ncclSuccess) return result;

  Join join = {};
  memcpy(join.id, id.internal, sizeof(join.id));
  join.ranks = ranks;
  join.rank = rank;
  memcpy(join.gpu, gpu.uuid, sizeof(join.gpu));
  join.settings = MakeSettings(config);
  if (const int error = CallDevice(kJoin, &join); error != 0) {
    return CheckCall(error, "ncclCommInitRank");
  }
  auto communicator = std::make_shared<Communicator>(gpu, config, join.handle);
  Register(communicator);
  // Already now, so that another thread can abort the wait.
  Set(out, communicator->id());
  AddMaking({communicator, [communicator] { return communicator->StepJoin(); },
             [communicator, out] {
               communicator->Abort();
               Unregister(*communicator);
               Set(out, nullptr);
             }});
  return ncclSuccess;
}

ncclResult_t JoinWith(ncclComm_t* out, int ranks, const ncclUniqueId& id, int rank,
                      const ncclConfig_t* given) {
  return InGroup([&] {
    Config config;
    if (const ncclResult_t result = ReadConfig(given, config); result != ncclSuccess) {
      return result;
    }
    ApplyEnvironment(config);
    return JoinInGroup(out, ranks, id, rank, config);
  });
}

// --- Splitting and shrinking ----------------------------------------------------------

// The configuration of a communicator that is made of `parent`.
ncclResult_t ChildConfig(const Communicator& parent, const ncclConfig_t* given, Config& config) {
  config = parent.config();
  if (given != nullptr) {
    if (const ncclResult_t result = ReadConfig(given, config); result != ncclSuccess) {
      return result;
    }
  }
  ApplyEnvironment(config);
  return ncclSuccess;
}

// Waits, on behalf of `parent`, for the child that it has asked for. The program gets it only then;
// nothing, if this rank is in none.
void AddChild(std::shared_ptr<Communicator> parent, std::shared_ptr<Communicator> child,
              ncclComm_t* out, bool takes_part) {
  auto step = [parent, child, out, takes_part] {
    if (parent->aborted()) child->Abort();
    const ncclResult_t result = child->StepJoin();
    if (result == ncclInProgress) return result;
    if (result != ncclSuccess) {
      child->Leave(Leaving::kAbort);
    } else if (takes_part) {
      Register(child);
      Set(out, child->id());
    } else {
      child->Leave(Leaving::kDestroy);
    }
    return result;
  };
  AddMaking({std::move(parent), std::move(step), [child] { child->Abort(); }});
}

ncclResult_t SplitInGroup(ncclComm_t comm, int color, int key, ncclComm_t* out,
                          const ncclConfig_t* given) {
  const std::shared_ptr<Communicator> parent = Find(comm, "CommSplit");
  if (parent == nullptr) return ncclInvalidArgument;
  if (out == nullptr) return MissingArgument("CommSplit", "newcomm");
  if (const ncclResult_t result = parent->EnsureReady(); result != ncclSuccess) return result;
  Set(out, nullptr);
  Config config;
  if (const ncclResult_t result = ChildConfig(*parent, given, config); result != ncclSuccess) {
    return result;
  }
  if (color < 0 && color != kNcclNoColor) {
    return Fail(ncclInvalidArgument, "CommSplit : invalid color %d", color);
  }
  Split split = {};
  split.parent = parent->handle();
  split.color = color;
  split.key = key;
  split.settings = MakeSettings(config);
  if (const int error = CallDevice(kSplit, &split); error != 0) {
    return CheckCall(error, "ncclCommSplit");
  }
  AddChild(parent, std::make_shared<Communicator>(parent->gpu(), config, split.handle), out,
           color != kNcclNoColor);
  return ncclSuccess;
}

ncclResult_t ShrinkInGroup(ncclComm_t comm, int* excluded, int excluded_count, ncclComm_t* out,
                           const ncclConfig_t* given, int flags) {
  const std::shared_ptr<Communicator> parent = Find(comm, "CommShrink");
  if (parent == nullptr) return ncclInvalidArgument;
  if (out == nullptr) return MissingArgument("CommShrink", "newcomm");
  if (excluded == nullptr) return MissingArgument("CommShrink", "excludeRanksList");
  // A communicator whose peers have failed can still be shrunk if it gives up what it was doing.
  const bool abort = (flags & kNcclShrinkAbort) != 0;
  if (const ncclResult_t result = parent->EnsureReady(); result != ncclSuccess) {
    if (!abort || parent->rank() < 0) return result;
  }
  if (excluded_count <= 0) {
    return Fail(ncclInvalidArgument, "CommShrink : no ranks to exclude");
  }
  if (std::find(excluded, excluded + excluded_count, parent->rank()) != excluded + excluded_count) {
    return Fail(ncclInvalidArgument, "CommShrink : called by a rank that is to be excluded");
  }
  Set(out, nullptr);
  Config config;
  if (const ncclResult_t result = ChildConfig(*parent, given, config); result != ncclSuccess) {
    return result;
  }
  Shrink shrink = {};
  shrink.parent = parent->handle();
  shrink.excluded_count = excluded_count;
  shrink.excluded = reinterpret_cast<uint64_t>(excluded);
  shrink.abort = abort ? 1 : 0;
  shrink.settings = MakeSettings(config);
  if (const int error = CallDevice(kShrink, &shrink); error != 0) {
    return CheckCall(error, "ncclCommShrink");
  }
  AddChild(parent, std::make_shared<Communicator>(parent->gpu(), config, shrink.handle), out, true);
  return ncclSuccess;
}

// --- Ending ---------------------------------------------------------------------------

ncclResult_t FinalizeInGroup(ncclComm_t comm) {
  const std::shared_ptr<Communicator> communicator = Find(comm, "CommFinalize");
  if (communicator == nullptr) return ncclInvalidArgument;
  if (const ncclResult_t result = communicator->EnsureReady(); result != ncclSuccess) {
    return result;
  }
  if (!communicator->StartFinalizing()) {
    return Fail(ncclInvalidArgument, "CommFinalize : called a second time");
  }
  AddEnding({communicator,
             [communicator] { return communicator->Flushed() ? ncclSuccess : ncclInProgress; },
             [] {}});
  return ncclSuccess;
}

// Blocks whatever the communicator's configuration says, as in NCCL.
ncclResult_t EndInGroup(ncclComm_t comm) {
  const std::shared_ptr<Communicator> communicator = Find(comm, "CommDestroy");
  if (communicator == nullptr) return ncclInvalidArgument;
  if (communicator->rank() < 0 && !communicator->failed()) {
    if (const ncclResult_t result = communicator->EnsureReady(); result != ncclSuccess) {
      return result;
    }
  }
  AddEnding({nullptr,
             [communicator] {
               if (!communicator->failed() && !communicator->Flushed()) return ncclInProgress;
               communicator->Leave(communicator->failed() ? Leaving::kAbort : Leaving::kDestroy);
               Unregister(*communicator);
               return ncclSuccess;
             },
             [] {}});
  return ncclSuccess;
}

// --- Identifiers ----------------------------------------------------------------------

// NCCL_COMM_ID replaces what ranks would tell each other: all derive the same from it.
ncclResult_t MakeId(ncclUniqueId& id) {
  static constexpr char kPrefix[] = "phantora";
  memset(&id, 0, sizeof(id));
  memcpy(id.internal, kPrefix, sizeof(kPrefix) - 1);
  char* rest = id.internal + sizeof(kPrefix) - 1;
  const size_t room = sizeof(id) - (sizeof(kPrefix) - 1);
  if (const char* given = getenv("NCCL_COMM_ID"); given != nullptr && *given != 0) {
    strncpy(rest, given, room - 1);
    return ncclSuccess;
  }
  if (getrandom(rest, room, 0) == static_cast<ssize_t>(room)) return ncclSuccess;
  return FailLoudly(ncclSystemError, "no random numbers");
}

}  // namespace
}  // namespace phantora::nccl

namespace nccl = phantora::nccl;

extern "C" {

ncclResult_t pncclGetUniqueId(ncclUniqueId* id) {
  if (id == nullptr) return nccl::MissingArgument("GetUniqueId", "out");
  return nccl::MakeId(*id);
}

ncclResult_t pncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return nccl::JoinWith(comm, ranks, id, rank, nullptr);
}

ncclResult_t pncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                     ncclConfig_t* config) {
  return nccl::JoinWith(comm, ranks, id, rank, config);
}

// Several identifiers only spread the work of finding each other; all ranks have the same first.
ncclResult_t pncclCommInitRankScalable(ncclComm_t* comm, int ranks, int rank, int ids,
                                       ncclUniqueId* id, ncclConfig_t* config) {
  if (ids <= 0 || ids > ranks || id == nullptr) {
    return nccl::Fail(ncclInvalidArgument,
                      "improper usage of ncclCommInitRank: nId = %d, nranks=%d", ids, ranks);
  }
  return nccl::JoinWith(comm, ranks, id[0], rank, config);
}

ncclResult_t pncclCommInitAll(ncclComm_t* comms, int count, const int* devices) {
  if (comms == nullptr) return nccl::MissingArgument("CommInitAll", "comms");
  if (count < 0) {
    return nccl::Fail(ncclInvalidArgument, "Invalid device count requested : %d", count);
  }
  const nccl::CudaDriver* cuda = nccl::Cuda();
  if (cuda == nullptr) return ncclUnhandledCudaError;
  int present = 0;
  if (nccl::CheckCuda(cuda->Init(0), "cuInit") != ncclSuccess ||
      nccl::CheckCuda(cuda->DeviceGetCount(&present), "cuDeviceGetCount") != ncclSuccess) {
    return ncclUnhandledCudaError;
  }
  std::vector<int> chosen;
  for (int i = 0; i < count; ++i) {
    const int device = devices == nullptr ? i : devices[i];
    if (device < 0 || device >= present) {
      return nccl::Fail(ncclInvalidArgument, "Invalid device %d (totalnDev=%d)", device, present);
    }
    if (std::find(chosen.begin(), chosen.end(), device) != chosen.end()) {
      return nccl::Fail(ncclInvalidUsage, "CommInitAll : device %d twice", device);
    }
    chosen.push_back(device);
  }
  ncclUniqueId id;
  if (const ncclResult_t result = nccl::MakeId(id); result != ncclSuccess) return result;
  return nccl::InGroup([&] {
    nccl::Config config;
    nccl::ApplyEnvironment(config);
    for (int i = 0; i < count; ++i) {
      int device;
      nccl::CudaContext context;
      if (nccl::CheckCuda(cuda->DeviceGet(&device, chosen[i]), "cuDeviceGet") != ncclSuccess ||
          nccl::CheckCuda(cuda->DevicePrimaryCtxRetain(&context, device),
                          "cuDevicePrimaryCtxRetain") != ncclSuccess) {
        return ncclUnhandledCudaError;
      }
      const nccl::ScopedContext current(context);
      const ncclResult_t result = nccl::JoinInGroup(comms + i, count, id, i, config);
      if (result != ncclSuccess) return result;
    }
    return ncclSuccess;
  });
}

ncclResult_t pncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* child,
                            ncclConfig_t* config) {
  return nccl::InGroup([&] { return nccl::SplitInGroup(comm, color, key, child, config); });
}

ncclResult_t pncclCommShrink(ncclComm_t comm, int* excluded, int excluded_count, ncclComm_t* child,
                             ncclConfig_t* config, int flags) {
  return nccl::InGroup(
      [&] { return nccl::ShrinkInGroup(comm, excluded, excluded_count, child, config, flags); });
}

ncclResult_t pncclCommFinalize(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  return nccl::InGroup([&] { return nccl::FinalizeInGroup(comm); });
}

ncclResult_t pncclCommDestroy(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  return nccl::InGroup([&] { return nccl::EndInGroup(comm); });
}

ncclResult_t pncclCommAbort(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  const std::shared_ptr<nccl::Communicator> communicator = nccl::Find(comm, "CommAbort");
  if (communicator == nullptr) return ncclInvalidArgument;
  communicator->Abort();
  nccl::Unregister(*communicator);
  return ncclSuccess;
}

ncclResult_t pncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  const std::shared_ptr<nccl::Communicator> communicator = nccl::Find(comm, "ncclGetAsyncError");
  if (communicator == nullptr) return ncclInvalidArgument;
  if (error == nullptr) return nccl::MissingArgument("ncclGetAsyncError", "asyncError");
  *error = communicator->AsyncError();
  return ncclSuccess;
}

}  // extern "C"

namespace {

// What is known of a communicator that is ready.
template <typename Value>
ncclResult_t AnswerWith(ncclComm_t comm, int* out, const char* function, Value value) {
  const std::shared_ptr<nccl::Communicator> communicator = nccl::Find(comm, function);
  if (communicator == nullptr) return ncclInvalidArgument;
  if (out == nullptr) return nccl::MissingArgument(function, "out");
  if (const ncclResult_t result = communicator->EnsureReady(); result != ncclSuccess) {
    return result;
  }
  *out = value(*communicator);
  return ncclSuccess;
}

}  // namespace

extern "C" {

ncclResult_t pncclCommCount(ncclComm_t comm, int* count) {
  return AnswerWith(comm, count, "CommCount", [](const auto& c) { return c.ranks(); });
}

ncclResult_t pncclCommCuDevice(ncclComm_t comm, int* device) {
  return AnswerWith(comm, device, "CommCuDevice", [](const auto& c) { return c.gpu().device; });
}

ncclResult_t pncclCommUserRank(ncclComm_t comm, int* rank) {
  return AnswerWith(comm, rank, "CommUserRank", [](const auto& c) { return c.rank(); });
}

}  // extern "C"

PHANTORA_NCCL_EXPORT(GetUniqueId);
PHANTORA_NCCL_EXPORT(CommInitRank);
PHANTORA_NCCL_EXPORT(CommInitRankConfig);
PHANTORA_NCCL_EXPORT(CommInitRankScalable);
PHANTORA_NCCL_EXPORT(CommInitAll);
PHANTORA_NCCL_EXPORT(CommSplit);
PHANTORA_NCCL_EXPORT(CommShrink);
PHANTORA_NCCL_EXPORT(CommFinalize);
PHANTORA_NCCL_EXPORT(CommDestroy);
PHANTORA_NCCL_EXPORT(CommAbort);
PHANTORA_NCCL_EXPORT(CommGetAsyncError);
PHANTORA_NCCL_EXPORT(CommCount);
PHANTORA_NCCL_EXPORT(CommCuDevice);
PHANTORA_NCCL_EXPORT(CommUserRank);
