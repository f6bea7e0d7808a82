// NV_ESC_RM_CONTROL: queries and commands on objects, one row per control.
#ifndef PHANTORA_TRAP_RM_RM_CONTROL_H_
#define PHANTORA_TRAP_RM_RM_CONTROL_H_

#include <array>
#include <cstdint>
#include <cstring>
#include <iterator>
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

// Bytes of a parameter block without public type in each interface; kAbsentControl where one lacks
// the control. Sizes are those of the recorded drivers (535, 550 and 580): what one says holds up
// to the next, unless From() says otherwise.
inline constexpr uint32_t kAbsentControl = TypedHandler<ControlHandler>::kAbsent;
class BlockSizes {
 public:
  constexpr BlockSizes(uint32_t all) { sizes_.fill(all); }  // NOLINT: one number is all of them
  constexpr BlockSizes(uint32_t v535, uint32_t v550) : BlockSizes(v535, v550, v550) {}
  constexpr BlockSizes(uint32_t v535, uint32_t v550, uint32_t v580) {
    sizes_.fill(v535);
    Set(DriverAbi::k550, v550);
    Set(DriverAbi::k580, v580);
  }

  [[nodiscard]] constexpr BlockSizes From(DriverAbi abi, uint32_t size) const {
    BlockSizes result = *this;
    result.Set(abi, size);
    return result;
  }
  constexpr uint32_t For(DriverAbi abi) const { return sizes_[IndexOf(abi)]; }

 private:
  constexpr void Set(DriverAbi abi, uint32_t size) {
    for (size_t index = IndexOf(abi); index < sizes_.size(); ++index) sizes_[index] = size;
  }

  std::array<uint32_t, std::size(kDriverAbis)> sizes_{};
};
// Of a control that came with a branch.
constexpr BlockSizes Since(DriverAbi abi, uint32_t size) {
  return BlockSizes(kAbsentControl).From(abi, size);
}

constexpr ControlRow ControlOfSizes(uint32_t command, BlockSizes sizes, ControlHandler serve,
                                    const char* quiet = nullptr) {
  HandlerVersions<ControlHandler> versions{TypedHandler<ControlHandler>{}};
  for (const DriverAbi abi : kDriverAbis) versions = versions.Since(abi, {sizes.For(abi), serve});
  return {command, versions, quiet};
}
// kServe is `uint32_t (ControlCall&, Params&)`, and its Params the oldest block, to which later
// ones only add.
template <auto kServe>
constexpr ControlRow Control(uint32_t command) {
  static_assert(OnlyGrows<ParamsOf<kServe>>());
  return {command, EachVersion<ControlHandler, ParamsOf<kServe>>([]<typename Layout>() {
            return TypedHandler<ControlHandler>{sizeof(Layout), ServeTyped<kServe>};
          })};
}
// kServe is a lambda `[](ControlCall&, auto& params)`, which serves every version of Block.
template <typename Block, auto kServe>
constexpr ControlRow ControlByVersion(uint32_t command) {
  return {command, EachVersion<ControlHandler, Block>([]<typename Layout>() {
            return TypedHandler<ControlHandler>{sizeof(Layout), [](ControlCall& call) -> uint32_t {
                                                  return kServe(call, call.Params<Layout>());
                                                }};
          })};
}
// `serve` takes the block as bytes, or not at all.
template <typename Block>
constexpr ControlRow UntypedControl(uint32_t command, ControlHandler serve,
                                    const char* quiet = nullptr) {
  return {command, EachSize<Block>(serve), quiet};
}
// Succeeds: nothing need be done, because `why`.
constexpr ControlRow AcceptedOfSizes(uint32_t command, BlockSizes sizes, const char* why) {
  return ControlOfSizes(command, sizes, ControlSucceeds, why);
}
template <typename Block>
constexpr ControlRow AcceptedControl(uint32_t command, const char* why) {
  return UntypedControl<Block>(command, ControlSucceeds, why);
}
// Answers zeros: such a machine has none of what is asked for, because `why`.
constexpr ControlRow ZeroOfSizes(uint32_t command, BlockSizes sizes, const char* why) {
  return ControlOfSizes(command, sizes, ControlAnswersZero, why);
}
template <typename Block>
constexpr ControlRow ZeroControl(uint32_t command, const char* why) {
  return UntypedControl<Block>(command, ControlAnswersZero, why);
}
// The driver refuses it, too.
constexpr ControlRow RefusedOfSizes(uint32_t command, BlockSizes sizes) {
  return ControlOfSizes(command, sizes, ControlNotSupported);
}
template <typename Block>
constexpr ControlRow RefusedControl(uint32_t command) {
  return UntypedControl<Block>(command, ControlNotSupported);
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
absl::Span<const ControlRow> ClientControls();      // NV0000: what only clients of their own ask
absl::Span<const ControlRow> UnitControls();        // NV0080, NV2080, channels: the same
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
