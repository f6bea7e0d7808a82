#include "fabric/collectives/nccl_trees.h"

#include <cstddef>

namespace phantora {
namespace {

// In-order: odd nodes are leaves, and every further zero bit is a level up.
int BinaryParent(int nodes, int node) {
  if (node == 0) return -1;
  int bit = 1;
  while ((node & bit) == 0) bit <<= 1;
  const int up = (node ^ bit) | (bit << 1);
  return up < nodes ? up : node ^ bit;
}

}  // namespace

std::array<std::vector<int>, 2> DoubleBinaryTree(int nodes) {
  std::array<std::vector<int>, 2> parents;
  for (int node = 0; node < nodes; ++node) {
    parents[0].push_back(BinaryParent(nodes, node));
    // The other is the mirror image, or of an odd number shifted by one.
    if (nodes % 2 == 0) {
      const int up = BinaryParent(nodes, nodes - 1 - node);
      parents[1].push_back(up < 0 ? -1 : nodes - 1 - up);
    } else {
      const int up = BinaryParent(nodes, (node - 1 + nodes) % nodes);
      parents[1].push_back(up < 0 ? -1 : (up + 1) % nodes);
    }
  }
  return parents;
}

}  // namespace phantora
