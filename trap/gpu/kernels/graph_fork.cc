#include "trap/gpu/kernels/graph_fork.h"

#include <cstring>

namespace phantora {
namespace {

constexpr uint32_t kMostEdges = 1 << 16;
// Word 5 of every node.
constexpr uint32_t kNodeMark = 0xffffffff;
constexpr uint64_t kRemainingOffset = 16;

}  // namespace

bool IsGraphFork(const std::string& kernel) {
  return kernel == "ampereForkScheduler" || kernel == "forkJoinScheduler";
}

Progress RunGraphFork(ExecutionContext& context, absl::Span<const uint8_t> parameters,
                      uint64_t node_bytes, std::vector<ForkAction>& actions) {
  struct {
    uint32_t first, count;
    uint64_t nodes, edges;
  } params;
  if (parameters.size() < sizeof params) {
    return context.Fail(kGrClassError, 0, "graph fork without parameters");
  }
  std::memcpy(&params, parameters.data(), sizeof params);
  if (params.count > kMostEdges) {
    return context.Fail(kGrClassError, params.count, "graph fork with too many edges");
  }
  context.budget -= int64_t{params.count} * 4;
  std::vector<uint32_t> edges(params.count);
  if (auto fault = context.memory().Read(params.edges + uint64_t{params.first} * 4, edges.data(),
                                         edges.size() * 4)) {
    return context.Check(fault, "graph's edges");
  }
  for (uint32_t edge : edges) {
    const uint64_t address = params.nodes + edge * node_bytes;
    uint32_t node[8];
    if (auto fault = context.memory().Read(address, node, sizeof node)) {
      return context.Check(fault, "graph's nodes");
    }
    const uint32_t in_degree = node[3];
    uint32_t remaining = node[4];
    if (node[5] != kNodeMark || remaining == 0 || remaining > in_degree) {
      context.services.unknowns->Count("graph node", node[5],
                                       "a graph's node table has another layout");
      return context.Fail(kGrClassError, address, "graph's node table");
    }
    if (--remaining == 0) {
      remaining = in_degree;
      actions.push_back({uint64_t{node[6]} << 8, node[7]});
    }
    if (auto fault = context.memory().Write(address + kRemainingOffset, &remaining, 4)) {
      return context.Check(fault, "graph's nodes");
    }
  }
  return Progress::kDone;
}

}  // namespace phantora
