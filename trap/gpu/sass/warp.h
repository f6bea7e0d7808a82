// A warp: 32 threads that execute one instruction at a time, with all that it can see.
#ifndef PHANTORA_TRAP_GPU_SASS_WARP_H_
#define PHANTORA_TRAP_GPU_SASS_WARP_H_

#include <array>
#include <bitset>
#include <cstdint>
#include <vector>

#include "trap/gpu/sass/instruction.h"
#include "trap/gpu/sass/launch_memory.h"

namespace phantora::sass {

inline constexpr int kLanes = 32;
inline constexpr uint32_t kAllLanes = ~0u;
inline constexpr int kConstantBanks = 32;       // that a word can name
inline constexpr int kConstantBytes = 1 << 16;  // of each

// Bit `lane` of `mask`.
constexpr bool Has(uint32_t mask, int lane) { return (mask >> lane & 1) != 0; }
constexpr uint32_t Bit(int lane) { return uint32_t{1} << lane; }
inline int First(uint32_t mask) { return __builtin_ctz(mask); }

// Why a launch does not go on.
struct Stop {
  enum class Reason : uint8_t {
    kNone,
    kUnmapped,     // an access to memory that is not there
    kMisaligned,   // an address that is not a multiple of the access's size
    kOutOfRange,   // beyond shared, local or constant memory
    kTrap,         // the program says so: an assertion
    kBadTarget,    // a jump to where there is no instruction
    kElsewhere,    // to `address`, whose code is not in the program
    kRefused,      // an instruction that is not understood, with certain operands
    kDeadlock,     // nobody can go on
    kTooLong,      // more instructions than the launch may take
    kNoMemory,     // of this machine
    kInterrupted,  // the run is to end
    kTainted,      // it reads what a launch that was not executed should have made
    kOrder,        // only in order with the blocks before it, see LaunchState::is_part
  };
  Reason reason = Reason::kNone;
  uint64_t address = 0;      // of the access
  uint32_t instruction = 0;  // its index
  const char* what = "";     // for kRefused
};

struct Dims {
  uint32_t x = 1, y = 1, z = 1;
  uint64_t count() const { return uint64_t{x} * y * z; }
};

// Which bytes of a bank of constants were read.
using ConstantsNoted = std::bitset<kConstantBytes>;

// What is the same for all threads of a launch.
struct LaunchState {
  Architecture architecture = 80;
  Dims grid, block, cluster;
  std::array<const uint8_t*, kConstantBanks> constants{};  // kConstantBytes + 16 each
  int registers = kNoRegister;                             // that a thread may name
  int convergence_registers = 16;                          // likewise
  uint32_t shared_bytes = 0;                               // of a block
  uint64_t shared_window = 0;                              // of generic addresses, 16 MiB each
  uint64_t local_window = 0;
  LaunchMemory* memory = nullptr;
  uint64_t code_address = 0;  // of the first instruction
  uint64_t clock = 0;         // warp instructions so far
  uint64_t began = 0;         // ns, what the GPU's timer said
  uint64_t thread_instructions = 0;
  uint64_t local_bytes = 0;  // of all warps under way, of this machine's memory
  uint64_t most_local = uint64_t{1} << 30;
  uint64_t events = 0;             // that somebody who looks again may see
  bool is_part = false;            // other blocks may run at the same time, unseen
  bool met_order = false;          // a block did what only makes sense in order with others
  uint64_t constants_address = 0;  // of bank 0
  // If given: what was read of bank 0.
  ConstantsNoted* constants_noted = nullptr;
};
inline constexpr uint32_t kWindowBytes = 1 << 24;
// Of a thread's local memory, which its stack takes from the upper end of its window.
inline constexpr uint32_t kMostLocal = 1 << 19;

struct BlockState;

// What the blocks of a cluster share. Every block is in one, most are alone there.
struct ClusterState {
  std::vector<BlockState*> blocks;  // by rank
  uint32_t arrived = 0;             // threads, in this phase
  uint64_t phase = 0;

  // Has everybody arrived who has not exited?
  void EndPhaseIfComplete();
};
inline constexpr uint32_t kMostBlocksOfCluster = 16;

// What the threads of a block share.
struct BlockState {
  Dims index;
  ClusterState* cluster = nullptr;
  uint32_t rank = 0;  // in the cluster
  std::vector<uint8_t> shared;
  struct Barrier {
    uint32_t arrived = 0;   // threads
    uint32_t expected = 0;  // 0: all that have not exited
    uint32_t count = 0;     // of those for whom a reduction's predicate holds
    bool all = true, any = false;
  };
  std::array<Barrier, 16> barriers{};
  // Four warps that make products together.
  struct Warpgroup {
    uint32_t arrived = 0;  // warps, in this phase
    uint64_t phase = 0;
  };
  static constexpr uint32_t kWarpsOfGroup = 4;
  std::array<Warpgroup, 8> warpgroups{};
  uint32_t warps = 0;
  uint32_t living = 0;  // threads that have not exited
};

class Warp {
 public:
  // Threads that are at one place.
  struct Path {
    enum class State : uint8_t { kReady, kConverging, kWarpSync, kBarrier, kReduction };
    uint32_t pc = 0;
    uint32_t threads = 0;
    State state = State::kReady;
    uint8_t barrier = 0;  // kConverging: the register; kBarrier, kReduction: the barrier
    uint32_t wanted = 0;  // kConverging, kWarpSync: who has to come
  };

  // Rows of registers. Beyond those that a word can name: zeros, for the second half of a wide RZ,
  // and where results go that nobody wants.
  static constexpr int kZeroRows = 8;
  static constexpr int kRows = kDiscard + 8;
  alignas(64) uint32_t registers[kRows][kLanes];
  uint32_t predicates[8];  // a bit for each lane; [7] is all ones
  uint32_t uniform[kNoUniformRegister + 4];
  bool uniform_predicates[8];
  // Convergence registers, as each thread has them: who is to come together with it.
  uint32_t convergence[16][kLanes];
  // Of each: where it was set last, and who is between there and where they come together. Threads
  // that come there later are waited for, too, if their stack is as deep: in a function that calls
  // itself the place is the same, and they have another.
  struct Region {
    uint32_t pc = 0, stack = 0, threads = 0;
  };
  std::array<Region, 16> regions;

  uint32_t active = 0;   // threads that execute the instruction at hand
  uint32_t running = 0;  // threads of the path at hand, guarded out or not
  uint32_t valid = 0;    // threads that there are
  uint32_t exited = 0;   // all others included
  uint32_t pc = 0;
  uint64_t address = 0;  // of the instruction at hand, if it reads that
  std::vector<Path> paths;

  LaunchState* launch = nullptr;
  BlockState* block = nullptr;
  uint32_t first_thread = 0;  // of lane 0, in the block
  uint32_t warp_index = 0;
  uint32_t yields = 0;         // in a row, while all others wait
  uint64_t cluster_phase = 0;  // of the last arrival
  uint64_t group_phase = 0;    // likewise
  bool waits_for_group = false;
  // Of an instruction that looks whether something has happened, and it has not.
  bool gives_way = false;      // others go first
  bool repeats = false;        // it has to look again itself
  uint32_t barrier_count = 0;  // results of BAR.RED, for B2R.RESULT
  bool barrier_result = false;
  // Bits of threads' states, as BMOV has them; the last holds threads back.
  std::array<uint32_t, 5> thread_state{};
  Stop stop;

  Warp();
  // Begins anew as the threads from `first_thread` on, as many as `lanes` says.
  void Start(LaunchState& launch_state, BlockState& block_state, uint32_t index);

  // Gives back what a launch had of this machine's memory, but for a little.
  void End();

  void Fail(Stop::Reason reason, uint64_t address = 0, const char* what = "") {
    if (stop.reason == Stop::Reason::kNone) stop = {reason, address, pc, what};
  }
  // An instruction by which blocks can see each other, or the clock of them all.
  void MeetOrder() {
    launch->met_order = true;
    if (launch->is_part) Fail(Stop::Reason::kOrder);
  }
  bool failed() const { return stop.reason != Stop::Reason::kNone; }

  // A row of 32 masks, ones where the lane is active.
  const uint32_t* ActiveRow() {
    if (row_of_ != active) {
      for (int lane = 0; lane < kLanes; ++lane) row_[lane] = 0u - (active >> lane & 1);
      row_of_ = active;
    }
    return row_;
  }
  // Where a lane's local memory at `address` is, at least `bytes` of it; nullptr beyond its ends.
  uint8_t* Local(int lane, uint32_t address, uint32_t bytes) {
    // From the upper end it is counted by negative numbers, too: the driver's functions have there
    // what is theirs.
    if (address >= 0u - kWindowBytes / 2) address &= kWindowBytes - 1;
    if (address >= kWindowBytes || bytes > kWindowBytes - address) return nullptr;
    const uint32_t below_end = kWindowBytes - address;
    if (below_end > local_bytes_ && !GrowLocal(below_end)) return nullptr;
    return &local_[(static_cast<size_t>(lane) + 1) * local_bytes_ - below_end];
  }

 private:
  bool GrowLocal(uint32_t bytes);

  std::vector<uint8_t> local_;  // of all lanes, as much as has been used
  uint32_t local_bytes_ = 0;    // of each
  alignas(64) uint32_t row_[kLanes] = {};
  uint32_t row_of_ = 0;
};

inline void NoteConstants(const Warp& warp, uint32_t bank, uint32_t at, uint32_t bytes) {
  ConstantsNoted* const noted = warp.launch->constants_noted;
  if (noted == nullptr || bank != 0) [[likely]]
    return;
  for (uint32_t byte = at; byte < at + bytes && byte < noted->size(); ++byte) noted->set(byte);
}

}  // namespace phantora::sass

#endif  // PHANTORA_TRAP_GPU_SASS_WARP_H_
