// ncclGroupStart and ncclGroupEnd: what is collected in between, for each thread.
#ifndef PHANTORA_FABRIC_LIBRARY_GROUP_H_
#define PHANTORA_FABRIC_LIBRARY_GROUP_H_

#include <memory>

#include "fabric/library/communicator.h"
#include "fabric/library/nccl_api.h"

namespace phantora::nccl {

void StartGroup();
// Ends the innermost group; if it was the outermost, waits for communicators that are being made,
// launches operations and ends communicators, in this order.
ncclResult_t EndGroup();
// Ends it without doing anything of it.
ncclResult_t DropGroup();

// Makes the open group fail at its end, unless it is no error.
void FailGroup(ncclResult_t error);

// What `call` does is in a group of its own, or in the one that is open. An error fails that too.
template <typename Call>
ncclResult_t InGroup(Call call) {
  StartGroup();
  const ncclResult_t result = call();
  FailGroup(result);
  const ncclResult_t end = EndGroup();
  return end != ncclSuccess ? end : result;
}

// Within a group.
void AddMaking(Task task);
void AddEnding(Task task);
ncclResult_t AddOperation(const std::shared_ptr<Communicator>& communicator, const Entry& entry,
                          CudaStream stream);

}  // namespace phantora::nccl

#endif  // PHANTORA_FABRIC_LIBRARY_GROUP_H_
