// What one entry of an NCCL call asks for: its kind, its size, and its name.
#ifndef PHANTORA_FABRIC_COLLECTIVES_NCCL_OPERATION_H_
#define PHANTORA_FABRIC_COLLECTIVES_NCCL_OPERATION_H_

#include <cstdint>
#include <optional>
#include <string>

#include "fabric/collectives/collective_work.h"
#include "fabric/library/wire.h"

namespace phantora {

// A send or a receive, which two ranks of a communicator take part in; all others are collectives.
bool IsMessage(const nccl::Entry& entry);
// `peer` is the root of a broadcast or a reduction.
bool HasRoot(const nccl::Entry& entry);
// `reduction` says how contributions are combined.
bool Reduces(const nccl::Entry& entry);

// Can NVSwitch combine what ranks bring to it (NVLS), if they bring anything to be combined? Not
// bytes, nor products, nor means of numbers with a point, which are scaled beforehand.
//
// Source: NVIDIA/nccl src/include/device.h (ncclNvlsSupported), src/enqueue.cc (hostToDevRedOp).
bool NvlsCombines(const nccl::Entry& entry);

// Bytes of one element; 0 if there is no such ncclDataType_t.
int64_t NcclTypeBytes(uint8_t type);
// Bytes of the larger of what a rank sends and receives, in a communicator of `ranks` ranks.
int64_t OperationBytes(const nccl::Entry& entry, int ranks);
// Of a collective, in a communicator of `ranks` ranks.
CollectiveWork WorkOf(const nccl::Entry& entry, int ranks,
                      const std::optional<NcclGiven>& given = std::nullopt);
// "AllReduce".
const char* NameOf(nccl::Operation operation);
// "AllReduce of 1024 float32, sum". The type and the reduction are ones that there are.
std::string Describe(const nccl::Entry& entry);

}  // namespace phantora

#endif  // PHANTORA_FABRIC_COLLECTIVES_NCCL_OPERATION_H_
