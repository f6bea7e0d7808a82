#include "fabric/collectives/nccl_operation.h"

#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace phantora {
namespace {

using nccl::Entry;

// What NVSwitch does with them.
enum class Switch { kMoves, kAdds, kAddsAndCompares };
constexpr struct {
  const char* name;
  int64_t bytes;
  Switch nvls;
} kTypes[] = {{"int8", 1, Switch::kMoves},
              {"uint8", 1, Switch::kMoves},
              {"int32", 4, Switch::kAddsAndCompares},
              {"uint32", 4, Switch::kAddsAndCompares},
              {"int64", 8, Switch::kAddsAndCompares},
              {"uint64", 8, Switch::kAddsAndCompares},
              {"float16", 2, Switch::kAddsAndCompares},
              {"float32", 4, Switch::kAdds},
              {"float64", 8, Switch::kAdds},
              {"bfloat16", 2, Switch::kAddsAndCompares},
              {"float8e4m3", 1, Switch::kMoves},
              {"float8e5m2", 1, Switch::kMoves}};
constexpr const char* kReductions[] = {"sum", "prod", "max", "min", "avg", "premulsum"};
constexpr const char* kOperationNames[nccl::kOperations] = {
    "Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce", "Send", "Recv"};
}  // namespace

bool IsMessage(const Entry& entry) {
  return entry.operation == nccl::Operation::kSend || entry.operation == nccl::Operation::kReceive;
}

bool HasRoot(const Entry& entry) {
  return entry.operation == nccl::Operation::kBroadcast ||
         entry.operation == nccl::Operation::kReduce;
}

bool Reduces(const Entry& entry) {
  return entry.operation == nccl::Operation::kReduce ||
         entry.operation == nccl::Operation::kReduceScatter ||
         entry.operation == nccl::Operation::kAllReduce;
}

bool NvlsCombines(const Entry& entry) {
  if (!Reduces(entry)) return true;
  const Switch can = entry.type < std::size(kTypes) ? kTypes[entry.type].nvls : Switch::kMoves;
  if (entry.reduction == nccl::kSum) return can != Switch::kMoves;
  const bool compares = entry.reduction == nccl::kMin || entry.reduction == nccl::kMax;
  return compares && can == Switch::kAddsAndCompares;
}

int64_t NcclTypeBytes(uint8_t type) { return type < std::size(kTypes) ? kTypes[type].bytes : 0; }

int64_t OperationBytes(const Entry& entry, int ranks) {
  const bool all = entry.operation == nccl::Operation::kAllGather ||
                   entry.operation == nccl::Operation::kReduceScatter;
  return static_cast<int64_t>(entry.count) * NcclTypeBytes(entry.type) * (all ? ranks : 1);
}

CollectiveWork WorkOf(const Entry& entry, int ranks, const std::optional<NcclGiven>& given) {
  return {entry.operation, OperationBytes(entry, ranks), NvlsCombines(entry), given};
}

const char* NameOf(nccl::Operation operation) {
  return kOperationNames[static_cast<int>(operation)];
}

std::string Describe(const Entry& entry) {
  std::string text =
      absl::StrFormat("%s of %d %s", NameOf(entry.operation), entry.count, kTypes[entry.type].name);
  if (Reduces(entry)) absl::StrAppend(&text, ", ", kReductions[entry.reduction]);
  if (HasRoot(entry)) absl::StrAppend(&text, ", root ", entry.peer);
  if (entry.operation == nccl::Operation::kSend) absl::StrAppend(&text, " to rank ", entry.peer);
  if (entry.operation == nccl::Operation::kReceive) {
    absl::StrAppend(&text, " from rank ", entry.peer);
  }
  return text;
}

}  // namespace phantora
