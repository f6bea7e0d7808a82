#include "fabric/collectives/nccl_operation.h"

#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace phantora {
namespace {

using nccl::Entry;

constexpr struct {
  const char* name;
  int64_t bytes;
} kTypes[] = {{"int8", 1},    {"uint8", 1},    {"int32", 4},      {"uint32", 4},
              {"int64", 8},   {"uint64", 8},   {"float16", 2},    {"float32", 4},
              {"float64", 8}, {"bfloat16", 2}, {"float8e4m3", 1}, {"float8e5m2", 1}};
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

int64_t NcclTypeBytes(uint8_t type) { return type < std::size(kTypes) ? kTypes[type].bytes : 0; }

int64_t OperationBytes(const Entry& entry, int ranks) {
  const bool all = entry.operation == nccl::Operation::kAllGather ||
                   entry.operation == nccl::Operation::kReduceScatter;
  return static_cast<int64_t>(entry.count) * NcclTypeBytes(entry.type) * (all ? ranks : 1);
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
