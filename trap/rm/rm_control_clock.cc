// Clock rates. None of these controls has a public name; the layouts are what
// libcuda and libcudart accept. They come in one sequence, at the end of which
// cuDeviceGetAttribute(CLOCK_RATE) and (MEMORY_CLOCK_RATE) are known; libcudart
// refuses to start without them.
#include "trap/rm/rm_control.h"

namespace phantora {
namespace {

using namespace abi;  // NOLINT: NV_OK

uint32_t* Words(ControlCall& call) { return reinterpret_cast<uint32_t*>(call.params.data()); }

// 8 bytes: the masks of domains that exist and that can be set.
uint32_t Domains(ControlCall& call) {
  Words(call)[0] = 0x03fc007f;
  Words(call)[1] = 0;
  return NV_OK;
}

// 8 bytes: index and value of a performance state.
uint32_t State(ControlCall& call) {
  Words(call)[0] = 0;
  Words(call)[1] = 0xd;
  return NV_OK;
}

// 520 bytes: a count in word 1, then up to 32 entries of {public domain, domain, flag,
// percent}. The public domains are 1 (graphics), 4 (memory) and 8 (video).
uint32_t DomainSources(ControlCall& call) {
  uint32_t* words = Words(call);
  if (words[1] > 32) return NV_ERR_INVALID_ARGUMENT;
  for (uint32_t i = 0; i < words[1]; ++i) {
    uint32_t* entry = words + 2 + 4 * i;
    entry[1] = entry[0] == 4 ? kMemoryClock : entry[0] == 8 ? kVideoClock : kGpcClock;
    entry[2] = 1;
    entry[3] = 100;
  }
  return NV_OK;
}

// 532 bytes: a count in word 4, then up to 32 entries of {domain, -, kHz, -}.
uint32_t Frequencies(ControlCall& call) {
  uint32_t* words = Words(call);
  if (words[4] > 32) return NV_ERR_INVALID_ARGUMENT;
  call.params[4] = call.machine().driver.abi >= DriverAbi::k580 ? 3 : 2;
  words[2] = 4;
  words[3] = 1;
  for (uint32_t i = 0; i < words[4]; ++i) {
    uint32_t* entry = words + 5 + 4 * i;
    switch (entry[0]) {
      case kGpcClock:
        entry[2] = call.profile().sm_clock_mhz * 1000;
        break;
      case kMemoryClock:
        entry[2] = call.profile().memory.clock_mhz * 1000;
        break;
      case kVideoClock:
        entry[2] = call.profile().board.video_clock_mhz * 1000;
        break;
      default:
        entry[2] = 1000000;
        break;
    }
  }
  return NV_OK;
}

// 16 bytes: what the clock interface can do.
uint32_t Capabilities(ControlCall& call) {
  static constexpr uint32_t kAnswer[4] = {1, 5, 2, 0x11};
  std::memcpy(call.params.data(), kAnswer, sizeof kAnswer);
  return NV_OK;
}

// 4 bytes, undocumented: a switch of the clocks, which are fixed.
uint32_t Switch(ControlCall& call) {
  // What an H100 with 580 answers.
  if (call.machine().driver.abi >= DriverAbi::k580) Words(call)[0] = 0x01000001;
  return NV_OK;
}

constexpr ControlRow kRows[] = {
    ControlOfSizes(0x20809001, 8, Domains),         ControlOfSizes(0x20809009, 8, State),
    ControlOfSizes(0x20809064, 520, DomainSources), ControlOfSizes(0x2080a001, 16, Capabilities),
    ControlOfSizes(0x2080a026, 532, Frequencies),   ControlOfSizes(0x2080a084, 4, Switch),
};

}  // namespace

absl::Span<const ControlRow> ClockControls() { return kRows; }

}  // namespace phantora
