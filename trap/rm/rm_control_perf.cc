// Clocks, performance states and the power limit as NVML asks for them. All but one
// of these controls have no public name: the layouts are what NVML makes of each
// field of a reply. rm_control_clock.cc has the ones that libcuda uses, too.
#include <algorithm>

#include "trap/abi/generated/rm_controls.h"
#include "trap/rm/rm_control.h"

namespace phantora {
namespace {

using namespace abi;  // NOLINT: NVIDIA's names

// The GPU runs in its highest state, at its highest clocks: states are bits, of
// which P0 is the lowest.
constexpr uint32_t kP0 = 1;

uint32_t* Words(ControlCall& call) { return reinterpret_cast<uint32_t*>(call.params.data()); }

// kHz, or 0 for a domain that is not known.
uint32_t ClockOf(const GpuProfile& profile, uint32_t domain) {
  switch (domain) {
    case kGpcClock:
      return profile.sm_clock_mhz * 1000;
    case kMemoryClock:
      return profile.memory.clock_mhz * 1000;
    case kVideoClock:
      return profile.board.video_clock_mhz * 1000;
    default:
      return 0;
  }
}

// 4 bytes. 550 has a public name for it, PERF_GET_CURRENT_PSTATE.
uint32_t CurrentState(ControlCall& call) {
  Words(call)[0] = kP0;
  return NV_OK;
}

// 1544 bytes: a count in word 1, then up to 32 entries of 12 words: word 1 is the
// domain, word 3 the frequency in kHz. NVML asks for one at a time.
uint32_t CurrentClocks(ControlCall& call) {
  constexpr uint32_t kEntryWords = 12;
  uint32_t* words = Words(call);
  if (words[1] > 32) return NV_ERR_INVALID_ARGUMENT;
  for (uint32_t i = 0; i < words[1]; ++i) {
    uint32_t* entry = words + 2 + kEntryWords * i;
    const uint32_t clock = ClockOf(call.profile(), entry[1]);
    if (clock == 0) return NV_ERR_NOT_SUPPORTED;
    entry[3] = clock;
  }
  return NV_OK;
}

// 12 bytes: a domain, and the ratio (two words) that its frequency is multiplied by.
uint32_t ClockRatio(ControlCall& call) {
  Words(call)[1] = Words(call)[2] = 1;
  return NV_OK;
}

// 14988 bytes: word 2 is the kind of performance states.
uint32_t StatesInfo(ControlCall& call) {
  std::fill(call.params.begin(), call.params.end(), 0);
  Words(call)[2] = 0x20;
  return NV_OK;
}

// 28 bytes: in word 1 the mask of states, in word 4 that of clock domains.
uint32_t StatesAndDomains(ControlCall& call) {
  std::fill(call.params.begin(), call.params.end(), 0);
  Words(call)[1] = kP0;
  Words(call)[4] = kGpcClock | kMemoryClock | kVideoClock;
  return NV_OK;
}

// 42264 bytes: the clocks of the state in word 2: a count in word 4, then entries
// with the domain in word 6 and the frequency in word 9. NVML asks for one at a time.
uint32_t StateClocks(ControlCall& call) {
  uint32_t* words = Words(call);
  const uint32_t clock = ClockOf(call.profile(), words[6]);
  if (words[2] != kP0 || words[4] != 1 || clock == 0) return NV_ERR_NOT_SUPPORTED;
  words[9] = clock;
  return NV_OK;
}

// 12 bytes: word 1 is the power limit in mW.
uint32_t PowerLimit(ControlCall& call) {
  Words(call)[1] = call.profile().power_limit_watts * 1000;
  return NV_OK;
}

constexpr ControlRow kRows[] = {
    ControlOfSizes(NV2080_CTRL_CMD_PERF_GET_CURRENT_PSTATE,
                   {kAbsentControl, sizeof(NV2080_CTRL_PERF_GET_CURRENT_PSTATE_PARAMS)},
                   CurrentState),
    ControlOfSizes(0x2080a068, {4, kAbsentControl}, CurrentState),
    ControlOfSizes(0x20809004, 1544, CurrentClocks),
    ControlOfSizes(0x20808545, 12, ClockRatio),
    {0x2080a0a7, HandlerVersions<ControlHandler>({14988, StatesInfo})
                     .Since(DriverAbi::k595, {17676, ControlNotSupported})},
    ControlOfSizes(0x2080a060, 28, StatesAndDomains),
    ControlOfSizes(0x2080a06b, 42264, StateClocks),
    ControlOfSizes(0x2080a61d, 12, PowerLimit),
};

}  // namespace

absl::Span<const ControlRow> PerfControls() { return kRows; }

}  // namespace phantora
