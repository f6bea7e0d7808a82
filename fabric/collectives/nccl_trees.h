// The two trees over machines that NCCL sends each half of the data through.
#ifndef PHANTORA_FABRIC_COLLECTIVES_NCCL_TREES_H_
#define PHANTORA_FABRIC_COLLECTIVES_NCCL_TREES_H_

#include <array>
#include <vector>

namespace phantora {

// Parents, by machine; -1 is the root's. Whoever has children in one is a leaf of the other.
//
// Source: NVIDIA/nccl src/graph/trees.cc, ncclGetDtree (Sanders, Speck and Traeff, Two-tree
// algorithms for full bandwidth broadcast, reduction and scan, 2009).
std::array<std::vector<int>, 2> DoubleBinaryTree(int nodes);

}  // namespace phantora

#endif  // PHANTORA_FABRIC_COLLECTIVES_NCCL_TREES_H_
