#include "trap/gpu/sass/warp.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "trap/gpu/sass/memory_access.h"

namespace phantora::sass {
namespace {

constexpr uint32_t kLeastLocal = 1024;  // bytes of a thread

}  // namespace

void ClusterState::EndPhaseIfComplete() {
  uint32_t living = 0;
  for (const BlockState* block : blocks) living += block->living;
  if (arrived == 0 || arrived < living) return;
  arrived = 0;
  ++phase;
}

// Rows beyond a program's registers are zeros for good: no result goes there but to kDiscard, which
// nobody reads.
Warp::Warp() {
  std::memset(registers, 0, sizeof registers);
  std::memset(convergence, 0, sizeof convergence);
}

void Warp::Start(LaunchState& launch_state, BlockState& block_state, uint32_t index) {
  launch = &launch_state;
  block = &block_state;
  warp_index = index;
  first_thread = index * kLanes;
  const uint64_t threads = launch->block.count();
  const uint64_t here = std::min<uint64_t>(kLanes, threads - first_thread);
  valid = here == kLanes ? kAllLanes : (uint32_t{1} << here) - 1;
  exited = ~valid;
  active = running = pc = 0;
  const auto rows = static_cast<size_t>(std::clamp(launch->registers, 0, kNoRegister));
  std::memset(registers, 0, rows * sizeof registers[0]);
  std::memset(predicates, 0, sizeof predicates);
  predicates[kTrue] = kAllLanes;
  std::memset(uniform, 0, sizeof uniform);
  std::fill(std::begin(uniform_predicates), std::end(uniform_predicates), false);
  uniform_predicates[kTrue] = true;
  std::memset(convergence, 0,
              static_cast<size_t>(launch->convergence_registers) * sizeof convergence[0]);
  regions = {};
  paths.clear();
  paths.push_back({.pc = 0, .threads = valid});
  cluster_phase = group_phase = 0;
  waits_for_group = false;
  gives_way = repeats = false;
  barrier_count = 0;
  barrier_result = false;
  thread_state = {};
  stop = {};
  std::fill(local_.begin(), local_.end(), 0);
}

void Warp::End() {
  if (local_bytes_ <= kLeastLocal) return;
  launch->local_bytes -= std::min(launch->local_bytes, uint64_t{kLanes} * local_bytes_);
  local_ = {};
  local_bytes_ = 0;
}

bool Warp::GrowLocal(uint32_t bytes) {
  if (bytes > kMostLocal) return false;
  const uint32_t size = std::max(std::bit_ceil(bytes), kLeastLocal);
  const uint64_t more = uint64_t{kLanes} * (size - local_bytes_);
  if (launch->local_bytes + more > launch->most_local) {
    Fail(Stop::Reason::kNoMemory);
    return false;
  }
  launch->local_bytes += more;
  std::vector<uint8_t> larger(static_cast<size_t>(kLanes) * size);
  for (size_t lane = 0; lane < kLanes && local_bytes_ > 0; ++lane) {
    std::copy_n(&local_[lane * local_bytes_], local_bytes_,
                &larger[(lane + 1) * size - local_bytes_]);
  }
  local_ = std::move(larger);
  local_bytes_ = size;
  return true;
}

uint8_t* NoAccess(Warp& warp, bool writes, uint64_t address, int bytes, uint64_t count, int lane) {
  LaunchMemory& memory = *warp.launch->memory;
  if (!memory.met_wrong()) {
    warp.Fail(memory.out_of_memory() ? Stop::Reason::kNoMemory
              : memory.met_taint()   ? Stop::Reason::kTainted
                                     : Stop::Reason::kUnmapped,
              address);
    return nullptr;
  }
  const Dims& block = warp.block->index;
  WrongAccess place = {.instruction = warp.pc,
                       .block = {block.x, block.y, block.z},
                       .thread = warp.first_thread + static_cast<uint32_t>(lane)};
  if (bytes == 1 || count == 1) return memory.GoOn(place);
  // Which of the lanes it is.
  uint8_t* const at = memory.GoOn();
  const auto size = static_cast<uint64_t>(bytes);
  for (uint64_t each = 0; each < count; ++each, ++place.thread) {
    const uint64_t there = address + each * size;
    const bool right =
        writes ? memory.Write(there, size) != nullptr : memory.Read(there, size) != nullptr;
    if (!right && memory.met_wrong()) memory.GoOn(place);
  }
  return at;
}

}  // namespace phantora::sass
