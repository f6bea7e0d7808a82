#include "test/fuzz/hostile_attacker.h"

namespace phantora::hostile {

using namespace abi;  // NOLINT: NVIDIA's names

void Attacker::FreeSome() {
  if (rig_.objects.size() > 16) {
    // Also twice.
    const uint32_t handle = rig_.objects[16 + random_.Below(rig_.objects.size() - 16)];
    rig_.Free(handle);
    if (random_.OneIn(4)) rig_.Free(handle);
  }
  if (random_.OneIn(64)) rig_.Free(SomeHandle());
}

void Attacker::One() {
  static constexpr uint8_t kWeights[kKinds] = {4, 8,  16, 16, 8, 4, 4, 4, 4, 8, 8, 6,
                                               6, 24, 2,  6,  2, 1, 4, 6, 3, 4, 0};
  using Attack = void (Attacker::*)();
  static constexpr Attack kAttacks[kKinds] = {
      &Attacker::OpenClose,     &Attacker::RandomEscape, &Attacker::MutatedEscape,
      &Attacker::RandomControl, &Attacker::RandomAlloc,  &Attacker::FreeSome,
      &Attacker::Duplicate,     &Attacker::Exports,      &Attacker::Events,
      &Attacker::RandomUvm,     &Attacker::MutatedUvm,   &Attacker::Mappings,
      &Attacker::Memfds,        &Attacker::Push,         &Attacker::Channels,
      &Attacker::Paths,         &Attacker::Pass,         &Attacker::Fork,
      &Attacker::Sleeps,        &Attacker::Waits,        &Attacker::Timers,
      &Attacker::Ports,         &Attacker::Bomb};
  uint32_t sum = 0;
  for (uint8_t weight : kWeights) sum += weight;
  uint32_t pick = random_.Below(sum);
  int kind = 0;
  while (pick >= kWeights[kind]) pick -= kWeights[kind++];
  if (random_.OneIn(greedy_ ? 500 : 2000)) kind = kBomb;
  const uint64_t start = NowNs();
  (this->*kAttacks[kind])();
  const uint64_t took = NowNs() - start;
  ++shared->calls[kind];
  ++shared->total;
  if (kind != kFork && kind != kBomb && kind != kSleeps && kind != kWaits) {
    uint64_t longest = shared->longest_ns;
    while (took > longest && !shared->longest_ns.compare_exchange_weak(longest, took)) {
    }
  }
}

}  // namespace phantora::hostile
