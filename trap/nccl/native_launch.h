// What a launch of NVIDIA's own NCCL is to do, from its kernel's parameters.
#ifndef PHANTORA_TRAP_NCCL_NATIVE_LAUNCH_H_
#define PHANTORA_TRAP_NCCL_NATIVE_LAUNCH_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "fabric/collectives/nccl_world.h"
#include "fabric/library/wire.h"
#include "trap/nccl/native_library.h"

namespace phantora {

// Where things are in what NCCL's host side gives its kernels, in bytes. From the structures of
// src/include/device.h of each release, as a compiler lays them out.
struct NativeLayout {
  int first, last;  // versions, as in NativeNccl
  // From 2.22 on: work in batches, in the kernel's parameters or in a ring; before: in structures
  // of 512 bytes in memory.
  bool batches;

  // ncclDevComm begins with int rank, nRanks. Behind it:
  uint32_t channels_at, channel_bytes;  // ncclDevChannel, which begins with the peers' pointer
  uint32_t connection_bytes;            // ncclConnInfo; ncclDevChannelPeer is send[2], recv[2]
  // Where the kernel tells the host which work it has read: of ncclDevChannel the pointer
  // workFifoDone, of ncclDevComm the pointer workConsumed. 0: it does not.
  uint32_t consumed_at;

  // ncclWorkElem, or ncclDevWorkColl, whose size is collective_bytes.
  uint32_t collective_bytes, registered_bytes;
  uint32_t root_at, send_at, receive_at, count_at, argument_at;
  bool by_number;  // of ncclWorkElem: parts are bid of nChannels, in bytes; else see chunks
};

// nullptr for a release that is not known.
const NativeLayout* FindNativeLayout(int version);

// Reads GPU memory as the kernel would; false if it is not mapped.
using GpuReader = std::function<bool(uint64_t address, void* to, uint64_t bytes)>;

struct NativeOperation {
  nccl::Entry entry;
  NcclGiven given;  // of a collective
};

struct NativeLaunch {
  uint64_t communicator = 0;  // address of its ncclDevComm
  uint64_t channel_mask = 0;
  int rank = 0, ranks = 0;
  // Collectives first, in an order that is the same for all ranks; then sends and receives, those
  // with one peer in an order that is the same for both.
  std::vector<NativeOperation> operations;
  // What the kernel writes for the host, which waits for it before it uses that memory anew.
  struct Store {
    uint64_t address;
    uint32_t value;
  };
  std::vector<Store> stores;
};

// `symbol`: of the kernel; `parameters`: all of them. Everything is untrusted. Errors say what
// does not fit: nothing is guessed.
//
// Source: NVIDIA/nccl src/device/common.h (how kernels find their work) and src/enqueue.cc (how it
// gets there), 2.19 to 2.27.
absl::StatusOr<NativeLaunch> DecodeNativeLaunch(const NativeNccl& library,
                                                const std::string& symbol,
                                                absl::Span<const uint8_t> parameters,
                                                const GpuReader& read);

}  // namespace phantora

#endif  // PHANTORA_TRAP_NCCL_NATIVE_LAUNCH_H_
