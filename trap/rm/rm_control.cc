#include "trap/rm/rm_control.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_format.h"
#include "trap/abi/generated/rm_control_names.h"

namespace phantora {
namespace {

using namespace abi;  // NOLINT: NVIDIA's names

// Larger than any parameter block of the supported drivers.
constexpr uint32_t kLargestParams = 1 << 20;

std::string Describe(uint32_t command, const RmObject& object) {
  const char* name = RmControlName(command);
  return absl::StrFormat("control %s (0x%x) on object 0x%x", name ? name : "without public name",
                         command, object.handle);
}

// Controls of devices and subdevices (class number in the upper half) need an
// object that has a GPU.
bool NeedsGpu(uint32_t command) { return command >> 16 != 0 && command >> 16 != 0xcb33; }

}  // namespace

std::vector<absl::Span<const ControlRow>> AllControls() {
  return {SystemControls(), ExportControls(), DeviceControls(),    GpuControls(),
          EngineControls(), NvlinkControls(), ChannelControls(),   ClockControls(),
          PerfControls(),   NvmlControls(),   ThirdPartyControls()};
}

const ControlRow* FindControl(uint32_t command) {
  static const auto* const table = [] {
    auto* map = new absl::flat_hash_map<uint32_t, const ControlRow*>();
    for (const auto& family : AllControls()) {
      for (const ControlRow& row : family) (*map)[row.command] = &row;
    }
    return map;
  }();
  auto it = table->find(command);
  return it == table->end() ? nullptr : it->second;
}

uint32_t ControlSucceeds(ControlCall&) { return NV_OK; }

uint32_t ControlAnswersZero(ControlCall& call) {
  std::fill(call.params.begin(), call.params.end(), 0);
  return NV_OK;
}

uint32_t ControlNotSupported(ControlCall&) { return NV_ERR_NOT_SUPPORTED; }

uint32_t ControlObject(ResourceManager& rm, CallContext& call, RmClient& client,
                       uint32_t object_handle, uint32_t command, RemoteAddress params,
                       uint32_t params_size) {
  RmObject* object = client.Find(object_handle);
  if (object == nullptr) return NV_ERR_INVALID_OBJECT_HANDLE;
  if (params_size > kLargestParams) return NV_ERR_INVALID_ARGUMENT;
  std::vector<uint8_t> block(params_size);
  if (!call.memory().Read(params, block.data(), block.size())) return NV_ERR_INVALID_POINTER;

  Machine& machine = *rm.machine;
  const ControlRow* row = FindControl(command);
  const TypedHandler<ControlHandler> handler =
      row == nullptr ? TypedHandler<ControlHandler>() : row->versions.For(machine.driver.abi);
  uint32_t status;
  std::string before;
  if (machine.log->enabled()) before = CallLog::Hex(block);
  if (handler.size == handler.kAbsent) {
    const char* name = RmControlName(command);
    machine.unknowns->Count("control", command,
                            absl::StrFormat("%s, %d bytes; answered NV_ERR_NOT_SUPPORTED",
                                            name ? name : "no public name", params_size));
    status = NV_ERR_NOT_SUPPORTED;
  } else if (handler.size != params_size) {
    machine.unknowns->Count("control size", command,
                            absl::StrFormat("%d bytes instead of %d: another driver version?",
                                            params_size, handler.size));
    status = NV_ERR_INVALID_ARGUMENT;
  } else if (NeedsGpu(command) && object->gpu < 0) {
    status = NV_ERR_INVALID_OBJECT;
  } else {
    ControlCall control{rm, call, client, *object, command, absl::MakeSpan(block)};
    status = handler.serve(control);
    if (row->quiet != nullptr && status == NV_OK) {
      machine.quiet->Count("control", command, RmControlName(command), row->quiet);
    }
    if (status == NV_OK && !call.memory().Write(params, block.data(), block.size())) {
      status = NV_ERR_INVALID_POINTER;
    }
  }
  if (machine.log->enabled()) {
    const char* name = NvStatusName(status);
    machine.log->Line(
        call.process(),
        absl::StrFormat("%s %d bytes: %s\n      in  %s\n      out %s", Describe(command, *object),
                        params_size, name ? name : "?", before, CallLog::Hex(block)));
  }
  return status;
}

}  // namespace phantora
