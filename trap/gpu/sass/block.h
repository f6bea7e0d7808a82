// A block, and the blocks of a cluster: warps that take turns.
#ifndef PHANTORA_TRAP_GPU_SASS_BLOCK_H_
#define PHANTORA_TRAP_GPU_SASS_BLOCK_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "trap/gpu/sass/program.h"
#include "trap/gpu/sass/run_warp.h"
#include "trap/gpu/sass/warp.h"

namespace phantora::sass {

class Block {
 public:
  // Begins anew as the block at `index` of the grid, the next of its cluster.
  void Start(LaunchState& launch, Dims index, ClusterState& cluster);
  // Gives back what it had of this machine's memory, but for a little.
  void End();

  // kExited when all are, kPaused after `most` instructions, kLooking when nobody does anything but
  // look whether others have done something.
  WarpState Run(const Program& program, uint64_t most, Stop& stop);

  LaunchState& launch() const { return *warps_.front()->launch; }
  // An instruction where somebody waits.
  uint32_t FirstWaiting() const;

 private:
  BlockState state_;
  std::vector<std::unique_ptr<Warp>> all_;  // that were made
  std::vector<Warp*> warps_;                // of this block
  std::vector<WarpState> states_;
};

// Blocks that run together, since each may wait for any other.
class Cluster {
 public:
  // The launch's cluster with that number. Blocks are taken from `idle` as far as there are any.
  Cluster(LaunchState& launch, uint64_t number, std::vector<std::unique_ptr<Block>>& idle);
  // Gives blocks to `idle`, so that there are `most` at most.
  void End(std::vector<std::unique_ptr<Block>>& idle, size_t most);

  // As Block::Run.
  WarpState Run(const Program& program, uint64_t most, Stop& stop);

 private:
  struct Member {
    std::unique_ptr<Block> block;
    WarpState now = WarpState::kPaused;
  };
  ClusterState state_;
  std::vector<Member> members_;
  uint32_t looks_ = 0;  // in a row, in which nothing happened
};

}  // namespace phantora::sass

#endif  // PHANTORA_TRAP_GPU_SASS_BLOCK_H_
