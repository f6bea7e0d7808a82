// NV_ESC_RM_CONTROL: queries and commands on objects, one row per control.
#ifndef PHANTORA_TRAP_RM_RM_CONTROL_H_
#define PHANTORA_TRAP_RM_RM_CONTROL_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "trap/abi/generated/nv_status.h"
#include "trap/rm/rm_alloc.h"
#include "trap/rm/typed_handler.h"

namespace phantora {

struct ControlCall {
  ResourceManager& rm;
  CallContext& call;
  RmClient& client;
  RmObject& object;
  uint32_t command;
  absl::Span<uint8_t> params;  // copied in; copied out again on success

  Machine& machine() const { return *rm.machine; }
  const GpuProfile& profile() const { return rm.machine->profile; }
  // Of the object; the tables let only objects of a GPU reach its controls.
  Gpu& gpu() const { return rm.machine->gpus[object.gpu]; }

  // The parameter block as `T`; its row guarantees the size.
  template <typename T>
  T& Params() const {
    return *reinterpret_cast<T*>(params.data());
  }
};

// Returns an NV_STATUS.
using ControlHandler = uint32_t (*)(ControlCall&);

struct ControlRow {
  uint32_t command;
  HandlerVersions<ControlHandler> versions;
  // Of a control that is answered with success and for which nothing is done: why nothing need be.
  const char* quiet = nullptr;
};

// Handlers that many rows share.
uint32_t ControlSucceeds(ControlCall&);     // leaves the parameters as they are
uint32_t ControlAnswersZero(ControlCall&);  // clears them
// What the driver answers on such a machine, too. Not counted as unknown.
uint32_t ControlNotSupported(ControlCall&);

template <auto kServe>
uint32_t ServeTyped(ControlCall& call) {
  return kServe(call, call.Params<ParamsOf<kServe>>());
}

// Bytes of a parameter block in each interface; kAbsentControl where one lacks the control. What
// 580 does not say otherwise is as in 550.
inline constexpr uint32_t kAbsentControl = TypedHandler<ControlHandler>::kAbsent;
struct BlockSizes {
  uint32_t v535, v550, v580;

  constexpr BlockSizes(uint32_t all) : BlockSizes(all, all) {}  // NOLINT: one number is all three
  constexpr BlockSizes(uint32_t v535, uint32_t v550) : BlockSizes(v535, v550, v550) {}
  constexpr BlockSizes(uint32_t v535, uint32_t v550, uint32_t v580)
      : v535(v535), v550(v550), v580(v580) {}
};
template <typename P535, typename P550 = P535, typename P580 = P550>
inline constexpr BlockSizes kSizesOf{sizeof(P535), sizeof(P550), sizeof(P580)};
// Of a control that came with 580.
constexpr BlockSizes Since580(uint32_t size) { return {kAbsentControl, kAbsentControl, size}; }

// For blocks without a public type.
constexpr ControlRow ControlOfSizes(uint32_t command, BlockSizes sizes, ControlHandler serve,
                                    const char* quiet = nullptr) {
  return {command, {{sizes.v535, serve}, {sizes.v550, serve}, {sizes.v580, serve}}, quiet};
}
// kServe is `uint32_t (ControlCall&, Params&)`, and its Params the block of all interfaces. That
// of a later one may be longer: it only adds to the end.
template <auto kServe, typename P550 = ParamsOf<kServe>, typename P580 = P550>
constexpr ControlRow Control(uint32_t command) {
  using P535 = ParamsOf<kServe>;
  static_assert(sizeof(P550) >= sizeof(P535) && sizeof(P580) >= sizeof(P535));
  return ControlOfSizes(command, kSizesOf<P535, P550, P580>, ServeTyped<kServe>);
}
// The interfaces differ.
template <auto k535, auto k550, auto k580 = k550>
constexpr ControlRow ControlByVersion(uint32_t command) {
  return {command,
          {{sizeof(ParamsOf<k535>), ServeTyped<k535>},
           {sizeof(ParamsOf<k550>), ServeTyped<k550>},
           {sizeof(ParamsOf<k580>), ServeTyped<k580>}}};
}
// `serve` takes the block as bytes, or not at all.
template <typename P535, typename P550 = P535, typename P580 = P550>
constexpr ControlRow UntypedControl(uint32_t command, ControlHandler serve) {
  return ControlOfSizes(command, kSizesOf<P535, P550, P580>, serve);
}
// Succeeds: nothing need be done, because `why`.
constexpr ControlRow AcceptedOfSizes(uint32_t command, BlockSizes sizes, const char* why) {
  return ControlOfSizes(command, sizes, ControlSucceeds, why);
}
template <typename P535, typename P550 = P535, typename P580 = P550>
constexpr ControlRow AcceptedControl(uint32_t command, const char* why) {
  return AcceptedOfSizes(command, kSizesOf<P535, P550, P580>, why);
}
// Answers zeros: such a machine has none of what is asked for, because `why`.
constexpr ControlRow ZeroOfSizes(uint32_t command, BlockSizes sizes, const char* why) {
  return ControlOfSizes(command, sizes, ControlAnswersZero, why);
}
template <typename P535, typename P550 = P535, typename P580 = P550>
constexpr ControlRow ZeroControl(uint32_t command, const char* why) {
  return ZeroOfSizes(command, kSizesOf<P535, P550, P580>, why);
}
// The driver refuses it, too.
constexpr ControlRow RefusedOfSizes(uint32_t command, BlockSizes sizes) {
  return ControlOfSizes(command, sizes, ControlNotSupported);
}
template <typename P535, typename P550 = P535, typename P580 = P550>
constexpr ControlRow RefusedControl(uint32_t command) {
  return RefusedOfSizes(command, kSizesOf<P535, P550, P580>);
}

// One table per family; rm_control.cc searches them.
absl::Span<const ControlRow> SystemControls();      // NV0000: the machine
absl::Span<const ControlRow> ExportControls();      // NV0000 and NV0041: sharing
absl::Span<const ControlRow> DeviceControls();      // NV0080
absl::Span<const ControlRow> GpuControls();         // NV2080: identity, memory, bus
absl::Span<const ControlRow> EngineControls();      // NV2080: GR, CE, FIFO, timer
absl::Span<const ControlRow> NvlinkControls();      // NV2080: NVLink and fabric
absl::Span<const ControlRow> ChannelControls();     // channels and their groups
absl::Span<const ControlRow> ClockControls();       // clocks; all undocumented
absl::Span<const ControlRow> PerfControls();        // clocks and power for NVML
absl::Span<const ControlRow> NvmlControls();        // what else only NVML asks
absl::Span<const ControlRow> ThirdPartyControls();  // NV503C: GPUDirect RDMA

// All of them.
std::vector<absl::Span<const ControlRow>> AllControls();

// nullptr if the command is not known.
const ControlRow* FindControl(uint32_t command);

// Clock domains, as bits, in the undocumented controls. The drivers say in an earlier
// reply what the third is called (rm_control_clock.cc), so that any free bit will do.
inline constexpr uint32_t kGpcClock = 0x01, kMemoryClock = 0x10, kVideoClock = 0x40;

// Returns an NV_STATUS.
uint32_t ControlObject(ResourceManager& rm, CallContext& call, RmClient& client, uint32_t object,
                       uint32_t command, RemoteAddress params, uint32_t params_size);

// Copies `text` into a fixed array, NUL-terminated.
template <typename Char, size_t N>
void CopyText(Char (&to)[N], std::string_view text) {
  static_assert(sizeof(Char) == 1);
  std::memset(to, 0, N);
  std::memcpy(to, text.data(), text.size() < N ? text.size() : N - 1);
}

// Answers a list of {index, data} pairs that lies in the parameter block: a count
// (32 bits) and then the pairs, as many as fit.
template <typename Answer>
uint32_t AnswerInlineList(ControlCall& call, Answer answer) {
  uint32_t count;
  std::memcpy(&count, call.params.data(), 4);
  if (count > (call.params.size() - 4) / 8) return abi::NV_ERR_INVALID_ARGUMENT;
  for (uint32_t i = 0; i < count; ++i) {
    uint8_t* pair = call.params.data() + 4 + i * 8;
    uint32_t index;
    std::memcpy(&index, pair, 4);
    const uint32_t data = answer(index);
    std::memcpy(pair + 4, &data, 4);
  }
  return abi::NV_OK;
}

// The same for a list behind a pointer.
template <typename Answer>
uint32_t AnswerRemoteList(ControlCall& call, uint32_t count, uint64_t pointer, Answer answer) {
  constexpr uint32_t kMostPairs = 4096;
  if (count > kMostPairs) return abi::NV_ERR_INVALID_ARGUMENT;
  std::vector<uint32_t> pairs(count * 2);
  const RemoteAddress at{pointer};
  if (!call.call.memory().Read(at, pairs.data(), pairs.size() * 4)) {
    return abi::NV_ERR_INVALID_POINTER;
  }
  for (uint32_t i = 0; i < count; ++i) pairs[i * 2 + 1] = answer(pairs[i * 2]);
  return call.call.memory().Write(at, pairs.data(), pairs.size() * 4) ? abi::NV_OK
                                                                      : abi::NV_ERR_INVALID_POINTER;
}

}  // namespace phantora

#endif  // PHANTORA_TRAP_RM_RM_CONTROL_H_
