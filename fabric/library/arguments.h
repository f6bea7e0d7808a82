// Checks an operation's arguments as NCCL does, and makes an entry of a marker of them.
#ifndef PHANTORA_FABRIC_LIBRARY_ARGUMENTS_H_
#define PHANTORA_FABRIC_LIBRARY_ARGUMENTS_H_

#include <cstddef>

#include "fabric/library/communicator.h"
#include "fabric/library/nccl_api.h"
#include "fabric/library/wire.h"

namespace phantora::nccl {

// As the program gave them; what an operation does not have is 0.
struct Call {
  const char* name;
  Operation operation;
  const void* send = nullptr;
  void* receive = nullptr;
  size_t count = 0;
  ncclDataType_t type = ncclInt8;
  ncclRedOp_t op = ncclSum;
  int peer = 0;  // or root
};

inline bool IsCollective(Operation operation) {
  return operation != Operation::kSend && operation != Operation::kReceive;
}

// In bytes; 0 if there is no such type.
size_t SizeOf(ncclDataType_t type);

ncclResult_t MakeEntry(const Communicator& communicator, const Call& call, Entry& entry);

}  // namespace phantora::nccl

#endif  // PHANTORA_FABRIC_LIBRARY_ARGUMENTS_H_
