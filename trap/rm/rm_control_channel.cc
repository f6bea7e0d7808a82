// Controls of channels and channel groups (ctrlc36f.h, ctrla06c.h, ctrla06f.h,
// ctrl906f.h, ctrl83de.h, ctrl90e6.h).
#include "trap/abi/generated/rm_control_names.h"
#include "trap/abi/generated/rm_controls.h"
#include "trap/rm/rm_control.h"
#include "trap/rm/rm_resources.h"

namespace phantora {
namespace {

using namespace abi;  // NOLINT: NVIDIA's names

uint32_t WorkSubmitToken(ControlCall& call,
                         NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN_PARAMS& params) {
  auto channel = call.object.As<ChannelResource>();
  if (channel == nullptr) return NV_ERR_INVALID_OBJECT;
  params.workSubmitToken = channel->channel->config().id;
  // libcuda takes the token from here (kernel_channel.c
  // kchannelNotifyWorkSubmitToken).
  channel->channel->PublishToken(channel->token_notification);
  return NV_OK;
}

uint32_t TokenNotification(ControlCall& call,
                           NVC36F_CTRL_GPFIFO_SET_WORK_SUBMIT_TOKEN_NOTIF_INDEX_PARAMS& params) {
  auto channel = call.object.As<ChannelResource>();
  if (channel == nullptr) return NV_ERR_INVALID_OBJECT;
  const uint32_t index = params.index;
  if (index > 0xff) return NV_ERR_INVALID_ARGUMENT;
  channel->token_notification = index;
  return NV_OK;
}

template <typename Params>
uint32_t ClassEngineId(ControlCall& call, Params& params) {
  RmObject* object = call.client.Find(params.hObject);
  auto channel = call.object.As<ChannelResource>();
  if (params.hObject != 0 && params.hObject == call.client.handle()) return NV_ERR_INVALID_ARGUMENT;
  if (object == nullptr || channel == nullptr) return NV_ERR_OBJECT_NOT_FOUND;
  params.classEngineID = params.classID = object->class_id;
  auto engine = object->As<EngineResource>();
  params.engineID = engine != nullptr ? engine->engine : channel->channel->config().engine;
  return NV_OK;
}

// What is checked and kept, but changes nothing else.
void CountQuiet(ControlCall& call, const char* why) {
  call.machine().quiet->Count("control", call.command, RmControlName(call.command), why);
}

uint32_t SetTimeslice(ControlCall& call, NVA06C_CTRL_SET_TIMESLICE_PARAMS& params) {
  const auto group = call.object.As<ChannelGroupResource>();
  if (group == nullptr) return NV_ERR_INVALID_OBJECT;
  group->timeslice_us = params.timesliceUs;
  CountQuiet(call, "channels share an engine without time slices");
  return NV_OK;
}

// The driver binds a channel to an engine of its table.
uint32_t Bind(ControlCall& call, NVA06F_CTRL_BIND_PARAMS& params) {
  const uint32_t copy = params.engineType - NV2080_ENGINE_TYPE_COPY0;
  if (params.engineType != NV2080_ENGINE_TYPE_GRAPHICS && copy >= call.profile().copy_engines) {
    return NV_ERR_INVALID_ARGUMENT;
  }
  CountQuiet(call, "a channel is made for its engine");
  return NV_OK;
}

// Lets a channel run, or all channels of a group.
uint32_t Schedule(ControlCall& call) {
  if (auto channel = call.object.As<ChannelResource>()) {
    channel->channel->Enable();
    return NV_OK;
  }
  if (call.object.As<ChannelGroupResource>() == nullptr) return NV_ERR_INVALID_OBJECT;
  for (uint32_t handle : call.object.children) {
    RmObject* child = call.client.Find(handle);
    if (child == nullptr) continue;
    if (auto channel = child->As<ChannelResource>()) channel->channel->Enable();
  }
  return NV_OK;
}

// libcuda asks what killed a channel: a multiprocessor's exception, or an MMU fault, which makes it
// report an illegal address. Which multiprocessor it was nobody knows: the first one.
std::shared_ptr<ChannelResource> TargetChannel(ControlCall& call, uint32_t handle) {
  RmObject* target = call.client.Find(handle);
  return target == nullptr ? nullptr : target->As<ChannelResource>();
}
uint32_t SmErrorStates(ControlCall& call,
                       NV83DE_CTRL_DEBUG_READ_ALL_SM_ERROR_STATES_PARAMS& params) {
  const auto channel = TargetChannel(call, params.hTargetChannel);
  if (channel == nullptr) return NV_ERR_INVALID_OBJECT_HANDLE;
  std::memset(params.smErrorStateArray, 0, sizeof params.smErrorStateArray);
  if (params.startingSM == 0) {
    const WarpError& error = channel->channel->warp_error();
    auto& first = params.smErrorStateArray[0];
    first.hwwWarpEsr = error.warp;
    first.hwwGlobalEsr = error.global;
    first.hwwWarpEsrPc = static_cast<uint32_t>(error.program_counter);
    first.hwwWarpEsrPc64 = error.program_counter;
    first.hwwEsrAddr = error.address;
  }
  const bool mmu_fault = channel->channel->failure() == kMmuFault;
  params.mmuFaultInfo = mmu_fault;
  params.mmuFault.valid = mmu_fault;
  params.mmuFault.faultInfo = mmu_fault;
  return NV_OK;
}

uint32_t ClearSmErrorStates(ControlCall& call,
                            NV83DE_CTRL_DEBUG_CLEAR_ALL_SM_ERROR_STATES_PARAMS& params) {
  const auto channel = TargetChannel(call, params.hTargetChannel);
  if (channel == nullptr) return NV_ERR_INVALID_OBJECT_HANDLE;
  channel->channel->ClearWarpError();
  return NV_OK;
}

constexpr ControlRow kRows[] = {
    Control<WorkSubmitToken>(NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN),
    Control<TokenNotification>(NVC36F_CTRL_CMD_GPFIFO_SET_WORK_SUBMIT_TOKEN_NOTIF_INDEX),
    Control<ClassEngineId<NVC36F_CTRL_GET_CLASS_ENGINEID_PARAMS>>(NVC36F_CTRL_GET_CLASS_ENGINEID),
    Control<ClassEngineId<NV906F_CTRL_GET_CLASS_ENGINEID_PARAMS>>(NV906F_CTRL_GET_CLASS_ENGINEID),
    // The same by names of older channels.
    Control<ClassEngineId<NVA06F_CTRL_GET_CLASS_ENGINEID_PARAMS>>(NVA06F_CTRL_GET_CLASS_ENGINEID),
    Control<ClassEngineId<NVA16F_CTRL_GET_CLASS_ENGINEID_PARAMS>>(NVA16F_CTRL_GET_CLASS_ENGINEID),
    Control<ClassEngineId<NVA26F_CTRL_GET_CLASS_ENGINEID_PARAMS>>(NVA26F_CTRL_GET_CLASS_ENGINEID),
    Control<ClassEngineId<NVB06F_CTRL_GET_CLASS_ENGINEID_PARAMS>>(NVB06F_CTRL_GET_CLASS_ENGINEID),
    Control<ClassEngineId<NVC06F_CTRL_GET_CLASS_ENGINEID_PARAMS>>(NVC06F_CTRL_GET_CLASS_ENGINEID),
    UntypedControl<NVA16F_CTRL_GPFIFO_SCHEDULE_PARAMS>(NVA16F_CTRL_CMD_GPFIFO_SCHEDULE, Schedule),
    UntypedControl<NVA26F_CTRL_GPFIFO_SCHEDULE_PARAMS>(NVA26F_CTRL_CMD_GPFIFO_SCHEDULE, Schedule),
    UntypedControl<NVB06F_CTRL_GPFIFO_SCHEDULE_PARAMS>(NVB06F_CTRL_CMD_GPFIFO_SCHEDULE, Schedule),
    UntypedControl<NVC06F_CTRL_GPFIFO_SCHEDULE_PARAMS>(NVC06F_CTRL_CMD_GPFIFO_SCHEDULE, Schedule),
    UntypedControl<NVC36F_CTRL_GPFIFO_SCHEDULE_PARAMS>(NVC36F_CTRL_CMD_GPFIFO_SCHEDULE, Schedule),
    UntypedControl<NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS>(NVA06C_CTRL_CMD_GPFIFO_SCHEDULE, Schedule),
    UntypedControl<NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS>(NVA06F_CTRL_CMD_GPFIFO_SCHEDULE, Schedule),
    Control<Bind>(NVA06F_CTRL_CMD_BIND),
    Control<Bind>(NVB06F_CTRL_CMD_BIND),
    Control<Bind>(NVC06F_CTRL_CMD_BIND),
    Control<Bind>(NVC36F_CTRL_CMD_BIND),
    Control<Bind>(NVA06C_CTRL_CMD_BIND),
    Control<SetTimeslice>(NVA06C_CTRL_CMD_SET_TIMESLICE),
    AcceptedControl<NVA06C_CTRL_PREEMPT_PARAMS>(
        NVA06C_CTRL_CMD_PREEMPT,
        "work that has begun is finished first, and nothing waits for less"),
    AcceptedControl<NV906F_CTRL_CMD_RESET_CHANNEL_PARAMS>(
        NV906F_CTRL_CMD_RESET_CHANNEL, "a channel that has failed takes no more work"),
    ZeroControl<NV90E6_CTRL_MASTER_GET_VIRTUAL_FUNCTION_ERROR_CONT_INTR_MASK_PARAMS>(
        NV90E6_CTRL_CMD_MASTER_GET_VIRTUAL_FUNCTION_ERROR_CONT_INTR_MASK,
        "no virtual function has an error"),
    AcceptedControl<NV83DE_CTRL_DEBUG_SET_EXCEPTION_MASK_PARAMS>(
        NV83DE_CTRL_CMD_DEBUG_SET_EXCEPTION_MASK, "no exception is raised by computing"),
    Control<SmErrorStates>(NV83DE_CTRL_CMD_DEBUG_READ_ALL_SM_ERROR_STATES),
    Control<ClearSmErrorStates>(NV83DE_CTRL_CMD_DEBUG_CLEAR_ALL_SM_ERROR_STATES),
    // Of the context (class 0x90): promotions that need nothing here.
    AcceptedControl<NV0090_CTRL_PROGRAM_VIDMEM_PROMOTE_PARAMS>(
        NV0090_CTRL_CMD_PROGRAM_VIDMEM_PROMOTE, "there is no cache to promote reads into"),
};

}  // namespace

absl::Span<const ControlRow> ChannelControls() { return kRows; }

}  // namespace phantora
