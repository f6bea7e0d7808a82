// Barriers in shared memory, and blocks that form a cluster.
#include <cstring>

#include "trap/gpu/sass/memory_access.h"
#include "trap/gpu/sass/memory_barrier.h"
#include "trap/gpu/sass/operations.h"

namespace phantora::sass {
namespace {

// Calls use(lane, barrier) for each active lane.
template <typename Use>
void AtBarriers(Warp& warp, const Instruction& i, bool anywhere, Use use) {
  alignas(64) uint32_t addresses[kLanes];
  SharedAddresses(warp, i, false, i.c, addresses);
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int lane = First(rest);
    uint8_t* const at = anywhere ? ClusterSharedAt(warp, addresses[lane], MemoryBarrier::kBytes)
                                 : SharedAt(warp, addresses[lane], MemoryBarrier::kBytes);
    if (at == nullptr) return;
    use(lane, MemoryBarrier(at));
  }
}

}  // namespace

// One of the threads: the first.
void Elect(Warp& warp, const Instruction& i) {
  uint32_t among = warp.active;
  if (i.Bit(91)) {
    among &= i.a.negate ? ~warp.uniform[i.a.index] : warp.uniform[i.a.index];
  } else {
    among &= PredicateAt(warp, i, 87, 90);
  }
  SetPredicate(warp, static_cast<int>(i.Bits(81, 3)), among & (0 - among));
  SetUniform(warp, i.destination, among == 0 ? 0 : static_cast<uint32_t>(First(among)));
}

// There are always enough.
void ReserveRegisters(Warp& warp, const Instruction& i) {
  SetUniformPredicate(warp, static_cast<int>(i.Bits(81, 3)), true);
}

void SwapMemoryBarrier(Warp& warp, const Instruction& i) {
  const uint32_t address = warp.uniform[i.a.index] + static_cast<uint32_t>(i.offset);
  uint8_t* const at = SharedAt(warp, address, MemoryBarrier::kBytes);
  if (at == nullptr) return;
  uint32_t before[2];
  std::memcpy(before, at, sizeof before);
  const uint32_t now[2] = {warp.uniform[i.b.index], HighScalarOf(warp, i.b, false)};
  std::memcpy(at, now, sizeof now);
  if (i.destination != kNoUniformRegister) {
    SetUniform(warp, i.destination, before[0]);
    SetUniform(warp, i.destination + 1, before[1]);
  }
  ++warp.launch->events;
}

void ArriveAtMemoryBarrier(Warp& warp, const Instruction& i) {
  const bool anywhere = i.Bits(73, 2) == 2, leaves = i.Bit(75);
  const uint32_t* const values = warp.registers[i.b.index];
  AtBarriers(warp, i, anywhere, [&](int lane, MemoryBarrier barrier) {
    const uint64_t before = barrier.bits();
    uint32_t arrivals = 0;
    int64_t bytes = 0;
    switch (i.Bits(84, 3)) {
      case 0:
        arrivals = 1, bytes = values[lane];
        break;
      case 1:
        arrivals = 1;
        break;
      case 2:
        bytes = 1;
        break;
      case 3:
        bytes = values[lane];
        break;
      case 4:
        bytes = -int64_t{values[lane]};
        break;
      default:
        arrivals = values[lane];
        break;
    }
    barrier.Change(arrivals, leaves ? arrivals : 0, bytes);
    warp.registers[i.destination][lane] = static_cast<uint32_t>(before);
    warp.registers[i.destination + 1][lane] = static_cast<uint32_t>(before >> 32);
  });
  ++warp.launch->events;
}

// Is the phase over that the register's highest bit names?
void CheckMemoryBarrier(Warp& warp, const Instruction& i) {
  const uint32_t* const values = warp.registers[i.b.index];
  uint32_t over = 0;
  AtBarriers(warp, i, false, [&](int lane, MemoryBarrier barrier) {
    if (barrier.phase() != (values[lane] >> 31 != 0)) over |= Bit(lane);
  });
  SetPredicate(warp, static_cast<int>(i.Bits(81, 3)), over);
  warp.gives_way = (warp.active & ~over) != 0;
}

// Copies of LDGSTS are over when they are asked for.
void ArriveAfterCopies(Warp& warp, const Instruction& i) {
  const bool arrives = i.Bits(70, 2) == 1;
  AtBarriers(warp, i, false, [&](int, MemoryBarrier barrier) {
    barrier.Change(arrives ? 1 : 0, 0, arrives ? 0 : -1);
  });
  ++warp.launch->events;
}

// To a block of the cluster, whose barrier then has the bytes.
void StoreAsync(Warp& warp, const Instruction& i) {
  const int type = static_cast<int>(i.Bits(73, 3)), bytes = kSizes[type];
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int lane = First(rest);
    const uint32_t address = warp.registers[i.a.index][lane] + static_cast<uint32_t>(i.offset);
    uint8_t* const to = ClusterSharedAt(warp, address, bytes);
    uint8_t* const barrier =
        ClusterSharedAt(warp, warp.registers[i.a.index + 1][lane], MemoryBarrier::kBytes);
    if (to == nullptr || barrier == nullptr) return;
    StoreFrom(warp, i.b.index, lane, to, type);
    MemoryBarrier(barrier).Change(0, 0, -bytes);
  }
  ++warp.launch->events;
}

void ArriveAtCluster(Warp& warp, const Instruction&) {
  ClusterState& cluster = *warp.block->cluster;
  warp.cluster_phase = cluster.phase;
  cluster.arrived += static_cast<uint32_t>(__builtin_popcount(warp.active));
  cluster.EndPhaseIfComplete();
  ++warp.launch->events;
}

void WaitForCluster(Warp& warp, const Instruction&) {
  ClusterState& cluster = *warp.block->cluster;
  // Somebody may have exited since.
  cluster.EndPhaseIfComplete();
  if (cluster.phase == warp.cluster_phase) warp.gives_way = warp.repeats = true;
}

}  // namespace phantora::sass
