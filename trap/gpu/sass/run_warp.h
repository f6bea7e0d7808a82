// Lets a warp run: who goes where, and who waits for whom.
#ifndef PHANTORA_TRAP_GPU_SASS_RUN_WARP_H_
#define PHANTORA_TRAP_GPU_SASS_RUN_WARP_H_

#include "absl/types/span.h"
#include "trap/gpu/sass/program.h"
#include "trap/gpu/sass/warp.h"

namespace phantora::sass {

enum class WarpState {
  kExited,   // all its threads
  kWaiting,  // for other warps, at a barrier
  kPaused,   // after as many instructions as it might take
  kLooking,  // whether others have done something, in vain
  kStopped,  // see Warp::stop
};

// At most `most` instructions of the warp.
WarpState RunWarp(Warp& warp, const Program& program, uint64_t most);

// The barriers that are complete let their threads go on. `warps` are all of the block.
// True if there was one.
bool ReleaseBarriers(absl::Span<Warp* const> warps, BlockState& block);

}  // namespace phantora::sass

#endif  // PHANTORA_TRAP_GPU_SASS_RUN_WARP_H_
