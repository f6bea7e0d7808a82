#include "fabric/library/arguments.h"

#include "fabric/library/last_error.h"

namespace phantora::nccl {
namespace {

uint64_t Address(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

bool Reduces(Operation operation) {
  return operation == Operation::kReduce || operation == Operation::kReduceScatter ||
         operation == Operation::kAllReduce;
}

ncclResult_t SetReduction(const Communicator& communicator, const Call& call, Entry& entry) {
  if (call.op < 0) {
    return Fail(ncclInvalidArgument, "%s : invalid reduction operation %d", call.name, call.op);
  }
  entry.reduction = static_cast<uint8_t>(call.op);
  if (call.op < kNcclBuiltInReductions) return ncclSuccess;
  const Communicator::Reduction* made = communicator.FindReduction(call.op);
  if (made == nullptr) {
    return Fail(ncclInvalidArgument, "%s : reduction operation %d unknown to this communicator",
                call.name, call.op);
  }
  // NCCL too does not notice in a call that has nothing to do.
  if (call.count != 0 && made->type != call.type) {
    return Fail(ncclInvalidArgument,
                "Data type supplied to user-created ncclRedOp_t does not match type given to "
                "reduction operation");
  }
  entry.reduction = kPreMulSum;
  entry.scalar_on_device = made->on_device ? 1 : 0;
  entry.scalar = made->scalar;
  return ncclSuccess;
}

}  // namespace

size_t SizeOf(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
    case ncclFloat8e4m3:
    case ncclFloat8e5m2:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
  }
  return 0;
}

ncclResult_t MakeEntry(const Communicator& communicator, const Call& call, Entry& entry) {
  entry = {};
  entry.operation = call.operation;
  if (call.peer < 0 || call.peer >= communicator.ranks()) {
    return Fail(ncclInvalidArgument, "%s : invalid root %d (root should be in the 0..%d range)",
                call.name, call.peer, communicator.ranks());
  }
  entry.peer = call.peer;
  if (SizeOf(call.type) == 0) {
    return Fail(ncclInvalidArgument, "%s : invalid type %d", call.name, call.type);
  }
  entry.type = static_cast<uint8_t>(call.type);
  if (Reduces(call.operation)) {
    const ncclResult_t result = SetReduction(communicator, call, entry);
    if (result != ncclSuccess) return result;
  }
  // NCCL says so of every collective, reducing or not.
  if (IsCollective(call.operation) && call.count != 0 && communicator.gpu().compute_major < 9 &&
      (call.type == ncclFloat8e4m3 || call.type == ncclFloat8e5m2)) {
    return Fail(ncclInvalidArgument, "FP8 reduction support begins with sm90 capable devices.");
  }
  entry.count = call.count;
  // What is not used may be anything, and is kept from the supervisor.
  const bool is_root = call.peer == communicator.rank();
  if (call.operation != Operation::kBroadcast || is_root) entry.send = Address(call.send);
  if (call.operation != Operation::kReduce || is_root) entry.receive = Address(call.receive);
  return ncclSuccess;
}

}  // namespace phantora::nccl
