#include "trap/rm/rm_control.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_format.h"
#include "trap/abi/generated/rm_control_names.h"
#include "trap/rm/control_exports.h"
#include "trap/rm/fixed_answers.h"

namespace phantora {
namespace {

using namespace abi;  // NOLINT: NVIDIA's names

// RMAPI_PARAM_COPY_MAX_PARAMS_SIZE in rmapi/param_copy.h.
constexpr uint32_t kLargestParams = 1 << 20;

std::string Describe(uint32_t command, const RmObject& object) {
  const char* name = RmControlName(command);
  return absl::StrFormat("control %s (0x%x) on object 0x%x", name ? name : "without public name",
                         command, object.handle);
}

// NVXXXX_CTRL_CMD_NULL of any class: category and index are zero (rmapi/control.c).
bool IsNull(uint32_t command) { return (command & 0x3fff) == 0; }

// What the driver finds out before it makes the control: a port of resControlLookup (rs_resource.c)
// and serverControl_ValidateCookie (rmapi/control.c). What is not exported may still be answered,
// by the firmware (controls without public name) or by one that took its place
// (interface/deprecated/rmapi_deprecated_control.c).
uint32_t MayControl(DriverAbi abi, const RmObject& object, uint32_t command, uint32_t params_size) {
  const ControlExport* found = FindExport(abi, object.class_id, command);
  if (found == nullptr) {
    const bool is_of_gpu = command >> 16 != 0;
    return IsExported(abi, command) || (is_of_gpu && object.gpu < 0) ? NV_ERR_NOT_SUPPORTED : NV_OK;
  }
  if (found->size != 0 && found->size != params_size) return NV_ERR_INVALID_PARAM_STRUCT;
  if ((found->rights & ~object.owner_rights) != 0) return NV_ERR_INSUFFICIENT_PERMISSIONS;
  switch (found->access) {
    case ControlAccess::kAnyone:
      return NV_OK;
    // No client here is privileged, whoever runs it: so are containers' users.
    case ControlAccess::kAdministrator:
    case ControlAccess::kKernel:
      return NV_ERR_INSUFFICIENT_PERMISSIONS;
    case ControlAccess::kInternal:
    case ControlAccess::kNobody:
      break;
  }
  return NV_ERR_NOT_SUPPORTED;
}

uint32_t Answer(Machine& machine, ControlCall& control, const FixedAnswer& answer) {
  if (answer.kind == FixedAnswer::Kind::kRefuses) return answer.status;
  if (answer.kind == FixedAnswer::Kind::kZeros) ControlAnswersZero(control);
  machine.quiet->Count("control", control.command, RmControlName(control.command), answer.why);
  return NV_OK;
}

// Makes a control that the client may make: by its row.
uint32_t Serve(Machine& machine, ControlCall& control) {
  const uint32_t command = control.command;
  const auto size = static_cast<uint32_t>(control.params.size());
  const ControlRow* row = FindControl(command);
  const TypedHandler<ControlHandler> handler =
      row == nullptr ? TypedHandler<ControlHandler>() : row->versions.For(machine.driver.abi);
  if (handler.size == handler.kAbsent) {
    const FixedAnswer* answer = FindFixedAnswer(command);
    if (answer != nullptr && IsExported(machine.driver.abi, command)) {
      return Answer(machine, control, *answer);
    }
    const char* name = RmControlName(command);
    machine.unknowns->Count("control", command,
                            absl::StrFormat("%s, %d bytes; answered NV_ERR_NOT_SUPPORTED",
                                            name ? name : "no public name", size));
    return NV_ERR_NOT_SUPPORTED;
  }
  if (handler.size != size) {
    machine.unknowns->Count(
        "control size", command,
        absl::StrFormat("%d bytes instead of %d: another driver version?", size, handler.size));
    return NV_ERR_INVALID_ARGUMENT;
  }
  const uint32_t status = handler.serve(control);
  if (row->quiet != nullptr && status == NV_OK) {
    machine.quiet->Count("control", command, RmControlName(command), row->quiet);
  }
  return status;
}

}  // namespace

std::vector<absl::Span<const ControlRow>> AllControls() {
  return {SystemControls(), ExportControls(), DeviceControls(),     GpuControls(),
          EngineControls(), NvlinkControls(), ChannelControls(),    ClockControls(),
          PerfControls(),   NvmlControls(),   ThirdPartyControls(), ClientControls(),
          UnitControls()};
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
  if (IsNull(command)) return NV_OK;
  Machine& machine = *rm.machine;
  const DriverAbi abi = machine.driver.abi;
  const ControlExport* size_first = FindSizeFirst(abi, command);
  if ((params_size != 0) != (static_cast<uint64_t>(params) != 0) || params_size > kLargestParams ||
      (size_first != nullptr && size_first->size != params_size)) {
    return NV_ERR_INVALID_ARGUMENT;
  }
  std::vector<uint8_t> block(params_size);
  if (!call.memory().Read(params, block.data(), block.size())) return NV_ERR_INVALID_ADDRESS;
  RmObject* object = client.Find(object_handle);
  if (object == nullptr) return NV_ERR_OBJECT_NOT_FOUND;

  std::string before;
  if (machine.log->enabled()) before = CallLog::Hex(block);
  uint32_t status = MayControl(abi, *object, command, params_size);
  if (status == NV_OK) {
    ControlCall control{rm, call, client, *object, command, absl::MakeSpan(block)};
    status = Serve(machine, control);
    if (status == NV_OK && !call.memory().Write(params, block.data(), block.size())) {
      status = NV_ERR_INVALID_ADDRESS;
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
