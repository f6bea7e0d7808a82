// The kernels with which libcuda schedules the branches of CUDA graphs.
#ifndef PHANTORA_TRAP_GPU_KERNELS_GRAPH_FORK_H_
#define PHANTORA_TRAP_GPU_KERNELS_GRAPH_FORK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "trap/gpu/front/engine_object.h"

namespace phantora {

// A PCAS that the kernel sends: `action` in the numbering of
// SEND_SIGNALING_PCAS2_B.
struct ForkAction {
  uint64_t qmd;
  uint32_t action;
};

bool IsGraphFork(const std::string& kernel);

// Does what ampereForkScheduler and forkJoinScheduler do. Their parameters are
// {first edge:4, edges:4, node table:8, edge table:8}. Each edge names a node of
// the table; a node holds its in-degree (word 3), how many of those are still to
// come (word 4), the address of its QMD >> 8 (word 6) and the action (word 7) that
// is due when none is left; then the count starts anew. `node_bytes` is the
// distance of nodes: 48 for 535, 72 for 550, 64 for 580. Appends the actions that are due;
// they take effect after the kernel's own completion. kFault when the tables lie
// outside mapped memory or make no sense.
Progress RunGraphFork(ExecutionContext& context, absl::Span<const uint8_t> parameters,
                      uint64_t node_bytes, std::vector<ForkAction>& actions);

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_KERNELS_GRAPH_FORK_H_
