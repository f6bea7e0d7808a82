#include <algorithm>

#include "trap/gpu/sass/lanes.h"
#include "trap/gpu/sass/operations.h"
#include "trap/gpu/sass/special_registers.h"

namespace phantora::sass {
namespace {

uint32_t Special(Warp& warp, int number, int lane) {
  const LaunchState& launch = *warp.launch;
  const uint32_t thread = warp.first_thread + static_cast<uint32_t>(lane);
  switch (number) {
    case kLaneId:
      return static_cast<uint32_t>(lane);
    case kThread:
      return thread % launch.block.x | thread / launch.block.x % launch.block.y << 16 |
             thread / (launch.block.x * launch.block.y) << 26;
    case kThreadX:
      return thread % launch.block.x;
    case kThreadY:
      return thread / launch.block.x % launch.block.y;
    case kThreadZ:
      return thread / (launch.block.x * launch.block.y);
    case kBlockX:
      return warp.block->index.x;
    case kBlockY:
      return warp.block->index.y;
    case kBlockZ:
      return warp.block->index.z;
    case kSharedWindowHigh:
      return static_cast<uint32_t>(launch.shared_window >> 32);
    case kSharedWindowLow:
      return static_cast<uint32_t>(launch.shared_window);
    case kSharedSize:
      return static_cast<uint32_t>(warp.block->shared.size());
    case kClusterBlockId:
      return warp.block->rank;
    case kEqualMask:
      return Bit(lane);
    case kLowerMask:
      return Bit(lane) - 1;
    case kLowerEqualMask:
      return Bit(lane) | (Bit(lane) - 1);
    case kGreaterMask:
      return ~(Bit(lane) | (Bit(lane) - 1));
    case kGreaterEqualMask:
      return ~(Bit(lane) - 1);
    // Time passes by instructions, so that it repeats.
    case kClockLow:
      warp.MeetOrder();
      return static_cast<uint32_t>(launch.clock);
    case kClockHigh:
      warp.MeetOrder();
      return static_cast<uint32_t>(launch.clock >> 32);
    case kGlobalTimerLow:
      warp.MeetOrder();
      return static_cast<uint32_t>(launch.began + launch.clock);
    case kGlobalTimerHigh:
      warp.MeetOrder();
      return static_cast<uint32_t>((launch.began + launch.clock) >> 32);
    // As if there were one multiprocessor, which takes one block after the other.
    case kVirtualId:
      return warp.warp_index << 8;
    case kVirtualSm:
    default:
      return 0;
  }
}

void ReadSpecial(Warp& warp, const Instruction& i) {
  const int number = static_cast<int>(i.Bits(72, 8));
  Store(warp, i.destination, [&](int lane) { return Special(warp, number, lane); });
}
void ReadThreadX(Warp& warp, const Instruction& i) {
  const Dims& block = warp.launch->block;
  const uint32_t first = warp.first_thread;
  if (block.y == 1 && block.z == 1) {
    Store(warp, i.destination, [&](int lane) { return first + static_cast<uint32_t>(lane); });
  } else {
    ReadSpecial(warp, i);
  }
}
void ReadSpecial64(Warp& warp, const Instruction& i) {
  const int number = static_cast<int>(i.Bits(72, 8));
  Store(warp, i.destination, [&](int lane) { return Special(warp, number, lane); });
  if (!i.Bit(80)) return;
  const bool time = number == kClockLow || number == kGlobalTimerLow;
  Store(warp, i.destination + 1,
        [&](int lane) { return time ? Special(warp, number + 1, lane) : 0; });
}
// The same for all threads.
void ReadBlockIndex(Warp& warp, const Instruction& i) {
  const uint32_t value = Special(warp, static_cast<int>(i.Bits(72, 8)), 0);
  Store(warp, i.destination, [&](int) { return value; });
}
void ReadSpecialUniform(Warp& warp, const Instruction& i) {
  SetUniform(warp, i.destination,
             Special(warp, static_cast<int>(i.Bits(72, 8)), First(warp.active)));
}

bool Voted(uint32_t mode, uint32_t votes, uint32_t voters) {
  switch (mode) {
    case 0:
      return votes == voters;
    case 1:
      return votes != 0;
    default:
      return votes == 0 || votes == voters;
  }
}

}  // namespace

Handler SelectReadSpecial(const Instruction& i) {
  const int number = static_cast<int>(i.Bits(72, 8));
  if (SpecialRegisterName(number) == nullptr) return nullptr;
  if (number == kThreadX) return &ReadThreadX;
  const bool is_block = number == kBlockX || number == kBlockY || number == kBlockZ;
  return is_block ? &ReadBlockIndex : &ReadSpecial;
}
Handler SelectReadSpecial64(const Instruction& i) {
  return SpecialRegisterName(static_cast<int>(i.Bits(72, 8))) != nullptr ? &ReadSpecial64 : nullptr;
}
Handler SelectReadSpecialUniform(const Instruction& i) {
  return SpecialRegisterName(static_cast<int>(i.Bits(72, 8))) != nullptr ? &ReadSpecialUniform
                                                                         : nullptr;
}

void Vote(Warp& warp, const Instruction& i) {
  const uint32_t votes = PredicateAt(warp, i, 87, 90) & warp.active;
  Store(warp, i.destination, [&](int) { return votes; });
  SetPredicate(warp, static_cast<int>(i.Bits(81, 3)),
               Voted(i.Bits(72, 2), votes, warp.active) ? ~0u : 0);
}
void VoteUniform(Warp& warp, const Instruction& i) {
  const uint32_t votes = PredicateAt(warp, i, 87, 90) & warp.active;
  SetUniform(warp, i.destination, votes);
  SetUniformPredicate(warp, static_cast<int>(i.Bits(81, 3)),
                      Voted(i.Bits(72, 2), votes, warp.active));
}

// As the PTX ISA spells shfl.sync out. A lane that does not take part gives what it has.
void Shuffle(Warp& warp, const Instruction& i) {
  const uint32_t* const a = warp.registers[i.a.index];
  const bool lane_in_register = i.b.kind == Source::Kind::kRegister;
  const bool limit_in_register = i.c.kind == Source::Kind::kRegister;
  const uint32_t* const lanes = warp.registers[i.b.index];
  const uint32_t* const limits = warp.registers[i.c.index];
  const uint32_t fixed_lane = i.Bits(53, 5), fixed_limit = i.Bits(40, 13), mode = i.Bits(58, 2);
  alignas(64) uint32_t result[kLanes];
  uint32_t inside = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    const int by = static_cast<int>((lane_in_register ? lanes[lane] : fixed_lane) & 31);
    const uint32_t limit = limit_in_register ? limits[lane] : fixed_limit;
    const int clamp = static_cast<int>(limit & 31), segment = static_cast<int>(limit >> 8 & 31);
    const int last = (lane & segment) | (clamp & ~segment), first = lane & segment;
    int from;
    bool is_inside;
    switch (mode) {
      case 0:
        from = first | (by & ~segment), is_inside = from <= last;
        break;
      case 1:
        from = lane - by, is_inside = from >= last;
        break;
      case 2:
        from = lane + by, is_inside = from <= last;
        break;
      default:
        from = lane ^ by, is_inside = from <= last;
        break;
    }
    if (!is_inside) from = lane;
    result[lane] = a[from & 31];
    inside |= static_cast<uint32_t>(is_inside) << lane;
  }
  Store(warp, i.destination, [&](int lane) { return result[lane]; });
  SetPredicate(warp, static_cast<int>(i.Bits(81, 3)), inside);
}

void Match(Warp& warp, const Instruction& i) {
  const uint32_t* const low = warp.registers[i.a.index];
  const uint32_t* const high = warp.registers[i.Bit(73) ? i.a.index + 1 : kNoRegister];
  const bool any = i.Bit(79);
  alignas(64) uint32_t result[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) {
    uint32_t equal = 0;
    for (uint32_t left = warp.active; left != 0; left &= left - 1) {
      const int other = First(left);
      if (low[other] == low[lane] && high[other] == high[lane]) equal |= Bit(other);
    }
    result[lane] = any || equal == warp.active ? equal : 0;
  }
  Store(warp, i.destination, [&](int lane) { return result[lane]; });
  SetPredicate(warp, static_cast<int>(i.Bits(81, 3)),
               MaskOf([&](int lane) { return result[lane] == warp.active; }));
}

// The first thread's value. The predicate holds for those that have another: this is what fits the
// use that compilers make of it, before votes of threads that may have named different masks.
void RegisterToUniform(Warp& warp, const Instruction& i) {
  const uint32_t* const a = warp.registers[i.a.index];
  const uint32_t value = a[First(warp.active)];
  SetUniform(warp, i.destination, value);
  SetPredicate(warp, static_cast<int>(i.Bits(81, 3)),
               MaskOf([&](int lane) { return a[lane] != value; }));
}

void ReduceWarp(Warp& warp, const Instruction& i) {
  const uint32_t* const a = warp.registers[i.a.index];
  const uint32_t operation = i.Bits(78, 3);
  const bool is_signed = i.Bit(73);
  uint32_t result = a[First(warp.active)];
  for (uint32_t left = warp.active & (warp.active - 1); left != 0; left &= left - 1) {
    const uint32_t value = a[First(left)];
    const bool less =
        is_signed ? static_cast<int32_t>(value) < static_cast<int32_t>(result) : value < result;
    switch (operation) {
      case 0:
        result &= value;
        break;
      case 1:
        result |= value;
        break;
      case 2:
        result ^= value;
        break;
      case 3:
        result += value;
        break;
      case 4:
        result = less ? value : result;
        break;
      default:
        result = less ? result : value;
        break;
    }
  }
  SetUniform(warp, i.destination, result);
}

void ReadConvergence(Warp& warp, const Instruction& i) {
  uint32_t* const row = warp.convergence[i.Bits(24, 4)];
  Store(warp, i.destination, [&](int lane) { return row[lane]; });
  if (!i.Bit(84)) return;
  for (int lane = 0; lane < kLanes; ++lane) {
    if (Has(warp.active, lane)) row[lane] = 0;
  }
  warp.regions[i.Bits(24, 4)].threads &= ~warp.active;
}
uint32_t WarpStateOf(const Warp& warp, int number) {
  if (number >= kThreadState && number < kThreadStateEnd) {
    return warp.thread_state[number - kThreadState];
  }
  return number == kThreadsExited ? warp.exited : number == kThreadsActive ? warp.active : 0;
}
void ReadWarpState(Warp& warp, const Instruction& i) {
  const uint32_t value = WarpStateOf(warp, static_cast<int>(i.Bits(24, 8)));
  Store(warp, i.destination, [&](int) { return value; });
}
// Functions of the driver's have threads wait that did not call them, and others not wait for
// those. What else a write would do is not known, unless it is of what was there.
void WriteWarpState(Warp& warp, const Instruction& i) {
  const auto number = static_cast<int>(i.Bits(24, 8));
  const uint32_t value = warp.registers[i.b.index][First(warp.active)];
  if (value == WarpStateOf(warp, number)) return;
  if (number == kThreadsExited) {
    warp.exited = value | ~warp.valid;
  } else if (number == kThreadsHeld) {
    warp.thread_state[number - kThreadState] = value;
  } else {
    warp.Fail(Stop::Reason::kRefused, static_cast<uint64_t>(number) << 32 | value,
              "another value for a register of the warp");
  }
}
void WriteConvergence(Warp& warp, const Instruction& i) {
  uint32_t* const row = warp.convergence[i.Bits(24, 4)];
  const uint32_t* const from = warp.registers[i.b.index];
  for (int lane = 0; lane < kLanes; ++lane) {
    if (Has(warp.active, lane)) row[lane] = from[lane];
  }
}

void ReadBarrierResult(Warp& warp, const Instruction& i) {
  Store(warp, i.destination, [&](int) { return warp.barrier_count; });
  SetPredicate(warp, static_cast<int>(i.Bits(81, 3)), warp.barrier_result ? ~0u : 0);
}

// The address of this instruction; since sm_90 of one that it names.
void LoadProgramCounter(Warp& warp, const Instruction& i) {
  uint64_t address = warp.address;
  if (i.word.form() == 4) address += kWordBytes + static_cast<uint64_t>(i.word.Signed(24, 58));
  Store(warp, i.destination, [&](int) { return static_cast<uint32_t>(address); });
  Store(warp, i.destination + 1, [&](int) { return static_cast<uint32_t>(address >> 32); });
}

}  // namespace phantora::sass
