// NCCL's collectives, sends and receives, reductions and groups.
#include <cstring>
#include <memory>

#include "fabric/library/arguments.h"
#include "fabric/library/communicator.h"
#include "fabric/library/cuda_driver.h"
#include "fabric/library/group.h"
#include "fabric/library/last_error.h"
#include "fabric/library/nccl_api.h"

namespace phantora::nccl {
namespace {

// A communicator of one rank has nobody to talk to: NCCL copies, at once even within a group. Only
// a multiplication is more than that.
ncclResult_t CopyAlone(const Communicator& communicator, const Entry& entry, CudaStream stream) {
  if (entry.send == entry.receive) return ncclSuccess;
  const ScopedContext context(communicator.gpu().context);
  const size_t bytes = entry.count * SizeOf(static_cast<ncclDataType_t>(entry.type));
  return CheckCuda(Cuda()->MemcpyAsync(entry.receive, entry.send, bytes, stream),
                   "copying within a communicator of one rank");
}

ncclResult_t Do(ncclComm_t comm, cudaStream_t stream, const Call& call) {
  return InGroup([&] {
    const std::shared_ptr<Communicator> communicator = Find(comm, call.name);
    if (communicator == nullptr) return ncclInvalidArgument;
    if (const ncclResult_t result = communicator->EnsureReady(); result != ncclSuccess) {
      return result;
    }
    Entry entry;
    if (const ncclResult_t result = MakeEntry(*communicator, call, entry); result != ncclSuccess) {
      return result;
    }
    if (IsCollective(call.operation)) {
      if (call.count == 0) return ncclSuccess;  // as in NCCL, without any ordering of streams
      if (communicator->ranks() == 1 && entry.reduction != kPreMulSum) {
        return CopyAlone(*communicator, entry, stream);
      }
    }
    return AddOperation(communicator, entry, stream);
  });
}

constexpr int kEverybody = -1;

// `count` elements of `type` from each of `senders` to each of `receivers` (a rank, or kEverybody):
// piece r of the memory of who has several is for, or from, rank r. NCCL too makes sends and
// receives of it (source: src/enqueue.cc of 2.28, taskAppend).
ncclResult_t Exchange(const char* name, const void* send, void* receive, size_t count,
                      ncclDataType_t type, int senders, int receivers, ncclComm_t comm,
                      cudaStream_t stream) {
  return InGroup([&] {
    const std::shared_ptr<Communicator> communicator = Find(comm, name);
    if (communicator == nullptr) return ncclInvalidArgument;
    if (const ncclResult_t result = communicator->EnsureReady(); result != ncclSuccess) {
      return result;
    }
    const int ranks = communicator->ranks();
    for (const int root : {senders, receivers}) {
      if (root < kEverybody || root >= ranks) {
        return Fail(ncclInvalidArgument, "%s : invalid root %d (root should be in the 0..%d range)",
                    name, root, ranks);
      }
    }
    const size_t bytes = count * SizeOf(type);
    if (SizeOf(type) == 0 || bytes / SizeOf(type) != count) {
      return Fail(ncclInvalidArgument, "%s : invalid type %d or count %zu", name, type, count);
    }
    if (count == 0) return ncclSuccess;
    const auto includes = [](int who, int rank) { return who == kEverybody || who == rank; };
    const int me = communicator->rank();
    for (int peer = 0; peer < ranks; ++peer) {
      // Who sends to everybody, or receives from everybody, has a piece for each.
      const auto piece = [&](const void* memory, int others) {
        return static_cast<char*>(const_cast<void*>(memory)) +
               (others == kEverybody ? bytes * static_cast<size_t>(peer) : 0);
      };
      if (includes(senders, me) && includes(receivers, peer)) {
        const ncclResult_t result = Do(
            comm, stream,
            {name, Operation::kSend, piece(send, receivers), nullptr, count, type, ncclSum, peer});
        if (result != ncclSuccess) return result;
      }
      if (includes(receivers, me) && includes(senders, peer)) {
        const ncclResult_t result = Do(comm, stream,
                                       {name, Operation::kReceive, nullptr, piece(receive, senders),
                                        count, type, ncclSum, peer});
        if (result != ncclSuccess) return result;
      }
    }
    return ncclSuccess;
  });
}

}  // namespace
}  // namespace phantora::nccl

using phantora::nccl::Call;
using phantora::nccl::Communicator;
using phantora::nccl::Do;
using phantora::nccl::Exchange;
using phantora::nccl::Fail;
using phantora::nccl::Find;
using phantora::nccl::kEverybody;
using phantora::nccl::Operation;

extern "C" {

ncclResult_t pncclReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                         ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return Do(comm, stream, {"Reduce", Operation::kReduce, send, receive, count, type, op, root});
}

ncclResult_t pncclBcast(void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                        cudaStream_t stream) {
  return Do(comm, stream,
            {"Bcast", Operation::kBroadcast, buffer, buffer, count, type, ncclSum, root});
}

ncclResult_t pncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type,
                            int root, ncclComm_t comm, cudaStream_t stream) {
  return Do(comm, stream,
            {"Broadcast", Operation::kBroadcast, send, receive, count, type, ncclSum, root});
}

ncclResult_t pncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                            ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return Do(comm, stream, {"AllReduce", Operation::kAllReduce, send, receive, count, type, op});
}

ncclResult_t pncclReduceScatter(const void* send, void* receive, size_t count, ncclDataType_t type,
                                ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return Do(comm, stream,
            {"ReduceScatter", Operation::kReduceScatter, send, receive, count, type, op});
}

ncclResult_t pncclAllGather(const void* send, void* receive, size_t count, ncclDataType_t type,
                            ncclComm_t comm, cudaStream_t stream) {
  return Do(comm, stream, {"AllGather", Operation::kAllGather, send, receive, count, type});
}

ncclResult_t pncclAlltoAll(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return Exchange("AlltoAll", send, receive, count, type, kEverybody, kEverybody, comm, stream);
}

ncclResult_t pncclGather(const void* send, void* receive, size_t count, ncclDataType_t type,
                         int root, ncclComm_t comm, cudaStream_t stream) {
  if (root < 0) return Fail(ncclInvalidArgument, "Gather : invalid root %d", root);
  return Exchange("Gather", send, receive, count, type, kEverybody, root, comm, stream);
}

ncclResult_t pncclScatter(const void* send, void* receive, size_t count, ncclDataType_t type,
                          int root, ncclComm_t comm, cudaStream_t stream) {
  if (root < 0) return Fail(ncclInvalidArgument, "Scatter : invalid root %d", root);
  return Exchange("Scatter", send, receive, count, type, root, kEverybody, comm, stream);
}

ncclResult_t pncclSend(const void* send, size_t count, ncclDataType_t type, int peer,
                       ncclComm_t comm, cudaStream_t stream) {
  return Do(comm, stream, {"Send", Operation::kSend, send, nullptr, count, type, ncclSum, peer});
}

ncclResult_t pncclRecv(void* receive, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                       cudaStream_t stream) {
  return Do(comm, stream,
            {"Recv", Operation::kReceive, nullptr, receive, count, type, ncclSum, peer});
}

ncclResult_t pncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                       ncclScalarResidence_t residence, ncclComm_t comm) {
  const std::shared_ptr<Communicator> communicator = Find(comm, "ncclRedOpCreatePreMulSum");
  if (communicator == nullptr) return ncclInvalidArgument;
  if (const ncclResult_t result = communicator->EnsureReady(); result != ncclSuccess) {
    return result;
  }
  const size_t size = phantora::nccl::SizeOf(type);
  if (op == nullptr || scalar == nullptr || size == 0) {
    return Fail(ncclInvalidArgument, "ncclRedOpCreatePreMulSum : invalid argument");
  }
  Communicator::Reduction reduction;
  reduction.type = type;
  reduction.on_device = residence != ncclScalarHostImmediate;
  if (reduction.on_device) {
    reduction.scalar = reinterpret_cast<uint64_t>(scalar);
  } else {
    memcpy(&reduction.scalar, scalar, size);
  }
  *op = communicator->AddReduction(reduction);
  return ncclSuccess;
}

ncclResult_t pncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  if (op >= 0 && op < kNcclBuiltInReductions) {
    return Fail(ncclInvalidArgument, "ncclRedOpDestroy : operator is a NCCL builtin.");
  }
  const std::shared_ptr<Communicator> communicator = Find(comm, "ncclRedOpDestroy");
  if (communicator == nullptr) return ncclInvalidArgument;
  if (communicator->RemoveReduction(op)) return ncclSuccess;
  return Fail(ncclInvalidArgument, "ncclRedOpDestroy : operator unknown to this communicator.");
}

ncclResult_t pncclGroupStart() {
  phantora::nccl::StartGroup();
  return ncclSuccess;
}

ncclResult_t pncclGroupEnd() { return phantora::nccl::EndGroup(); }

// There is no estimate: the supervisor makes it when all ranks are there. The time stays as it was
// initialised, which means that it is not known.
ncclResult_t pncclGroupSimulateEnd(ncclSimInfo_t* info) {
  if (info != nullptr && info->magic != kNcclSimInfoMagic) {
    phantora::nccl::DropGroup();
    return Fail(ncclInvalidArgument,
                "ncclSimInfo_t argument not initialized via NCCL_SIM_INFO_INITIALIZER");
  }
  return info == nullptr ? phantora::nccl::EndGroup() : phantora::nccl::DropGroup();
}

}  // extern "C"

PHANTORA_NCCL_EXPORT(Reduce);
PHANTORA_NCCL_EXPORT(Bcast);
PHANTORA_NCCL_EXPORT(Broadcast);
PHANTORA_NCCL_EXPORT(AllReduce);
PHANTORA_NCCL_EXPORT(ReduceScatter);
PHANTORA_NCCL_EXPORT(AllGather);
PHANTORA_NCCL_EXPORT(AlltoAll);
PHANTORA_NCCL_EXPORT(Gather);
PHANTORA_NCCL_EXPORT(Scatter);
PHANTORA_NCCL_EXPORT(Send);
PHANTORA_NCCL_EXPORT(Recv);
PHANTORA_NCCL_EXPORT(RedOpCreatePreMulSum);
PHANTORA_NCCL_EXPORT(RedOpDestroy);
PHANTORA_NCCL_EXPORT(GroupStart);
PHANTORA_NCCL_EXPORT(GroupEnd);
PHANTORA_NCCL_EXPORT(GroupSimulateEnd);
