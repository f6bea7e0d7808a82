// RmDevice's escapes about clients and objects.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "trap/abi/generated/escapes.h"
#include "trap/abi/generated/nv_status.h"
#include "trap/abi/generated/rm_classes.h"
#include "trap/rm/effective_user.h"
#include "trap/rm/escape_block.h"
#include "trap/rm/event_device.h"
#include "trap/rm/rm_control.h"
#include "trap/rm/rm_device.h"
#include "trap/rm/rm_resources.h"
#include "trap/rm/rm_sharing.h"

namespace phantora {
namespace {

using namespace abi;  // NOLINT: NVIDIA's names

bool IsRootClass(uint32_t class_id) {
  return class_id == NV01_ROOT || class_id == NV01_ROOT_NON_PRIV || class_id == NV01_ROOT_CLIENT;
}

}  // namespace

uint32_t RmDevice::AllocClient(CallContext& call, uint32_t* handle, RemoteAddress params) {
  const uint32_t status = rm_->server.AddClient(
      {.process = call.process(), .opener = this, .user = EffectiveUser(call.process())}, handle);
  if (status != NV_OK) return status;
  if (clients_.size() == clients_.capacity()) {
    std::erase_if(clients_, [this](uint32_t other) { return !Opened(other); });
  }
  clients_.push_back(*handle);
  if (params != RemoteAddress{0}) call.memory().WriteObject(params, *handle);
  return NV_OK;
}

int RmDevice::Alloc(CallContext& call, Block& block) {
  // NVOS21 is a shorter NVOS64 (nvos.h); both name the same things.
  const auto run = [&](auto& params, uint32_t params_size) {
    const RemoteAddress at{params.pAllocParms};
    uint32_t handle = params.hObjectNew;
    if (IsRootClass(params.hClass)) {
      params.status = AllocClient(call, &handle, at);
      if (params.status == NV_OK && params.hRoot == 0) params.hRoot = handle;
    } else if (RmClient* client = rm_->server.FindFor(call.process(), params.hRoot)) {
      params.status = AllocObject(*rm_, call, *client, params.hObjectParent, &handle, params.hClass,
                                  at, params_size);
    } else {
      params.status = NV_ERR_INVALID_CLIENT;
    }
    if (params.status == NV_OK) params.hObjectNew = handle;
    const char* class_name = RmClassName(params.hClass);
    Trace(call, NV_ESC_RM_ALLOC,
          absl::StrFormat("%s (0x%x) client 0x%x parent 0x%x new 0x%x: %s",
                          class_name ? class_name : "?", params.hClass, params.hRoot,
                          params.hObjectParent, handle, StatusText(params.status)));
    return 0;
  };
  if (block.size() == sizeof(NVOS64_PARAMETERS)) {
    auto& params = As<NVOS64_PARAMETERS>(block);
    return run(params, params.paramsSize);
  }
  if (block.size() == sizeof(NVOS21_PARAMETERS)) {
    auto& params = As<NVOS21_PARAMETERS>(block);
    return run(params, params.paramsSize);
  }
  rm_->machine->unknowns->Count("escape size", uint64_t{NV_ESC_RM_ALLOC} << 32 | block.size(),
                                "NV_ESC_RM_ALLOC of unknown layout");
  return -EINVAL;
}

int RmDevice::AllocMemoryEscape(CallContext& call, nv_ioctl_nvos02_parameters_with_fd& with_fd) {
  auto& params = with_fd.params;
  RmClient* client = rm_->server.FindFor(call.process(), params.hRoot);
  RmObject* parent = client == nullptr ? nullptr : client->Find(params.hObjectParent);
  if (client == nullptr) {
    params.status = NV_ERR_INVALID_CLIENT;
  } else if (parent == nullptr || parent->gpu < 0) {
    params.status = NV_ERR_INVALID_OBJECT_PARENT;
  } else if (params.hClass != NV01_MEMORY_SYSTEM_OS_DESCRIPTOR) {
    rm_->machine->unknowns->Count("class", params.hClass,
                                  "in NV_ESC_RM_ALLOC_MEMORY; refused as NV_ERR_INVALID_CLASS");
    params.status = NV_ERR_INVALID_CLASS;
  } else {
    RmObject object{.handle = params.hObjectNew,
                    .parent = params.hObjectParent,
                    .class_id = params.hClass,
                    .gpu = parent->gpu,
                    .children = {},
                    .resource = {}};
    params.status = AllocOsDescriptor(*rm_, call, parent->gpu, RemoteAddress{params.pMemory},
                                      params.limit + 1, &object.resource);
    if (params.status == NV_OK) {
      params.status = client->Insert(std::move(object), &params.hObjectNew);
    }
  }
  Trace(call, NV_ESC_RM_ALLOC_MEMORY,
        absl::StrFormat("address 0x%x limit 0x%x new 0x%x: %s", params.pMemory, params.limit,
                        params.hObjectNew, StatusText(params.status)));
  return 0;
}

int RmDevice::Free(CallContext& call, NVOS00_PARAMETERS& params) {
  RmClient* client = rm_->server.FindFor(call.process(), params.hRoot);
  if (client == nullptr) {
    params.status = NV_ERR_INVALID_CLIENT;
  } else if (params.hObjectOld == params.hRoot) {
    rm_->server.FreeClient(params.hRoot);
    params.status = NV_OK;
  } else {
    params.status = client->Free(params.hObjectOld);
    // What does not exist need not be freed (rs_server.c, RS_COMPATABILITY_MODE).
    if (params.status == NV_ERR_INVALID_OBJECT_HANDLE) params.status = NV_OK;
  }
  Trace(call, NV_ESC_RM_FREE,
        absl::StrFormat("client 0x%x object 0x%x: %s", params.hRoot, params.hObjectOld,
                        StatusText(params.status)));
  return 0;
}

int RmDevice::Control(CallContext& call, NVOS54_PARAMETERS& params) {
  RmClient* client = rm_->server.FindFor(call.process(), params.hClient);
  params.status = client == nullptr
                      ? NV_ERR_INVALID_CLIENT
                      : ControlObject(*rm_, call, *client, params.hObject, params.cmd,
                                      RemoteAddress{params.params}, params.paramsSize);
  return 0;
}

int RmDevice::DupObject(CallContext& call, NVOS55_PARAMETERS& params) {
  RmClient* client = rm_->server.FindFor(call.process(), params.hClient);
  RmObject* parent = client == nullptr ? nullptr : client->Find(params.hParent);
  // The source may be another process's, which must have shared it: that is how IPC handles are
  // opened (serverCopyResource in rs_server.c).
  RmClient* source_client = rm_->server.FindAny(params.hClientSrc);
  RmObject* source = source_client == nullptr ? nullptr : source_client->Find(params.hObjectSrc);
  if (client == nullptr) {
    params.status = NV_ERR_INVALID_CLIENT;
  } else if (source == nullptr || source->resource == nullptr ||
             source->As<DeviceResource>() != nullptr ||
             source->As<SubdeviceResource>() != nullptr) {
    params.status = NV_ERR_INVALID_OBJECT_HANDLE;
  } else if (const uint32_t status = CheckDuplication(rm_->server, *source_client, *source, *client,
                                                      parent == nullptr ? -1 : parent->gpu);
             status != NV_OK) {
    params.status = status;
  } else if (source_client->process() != call.process() &&
             source->As<MemoryResource>() == nullptr) {
    // The driver lets channel groups and address spaces be shared, too; no library does, and here
    // they are of one process.
    params.status = NV_ERR_INSUFFICIENT_PERMISSIONS;
  } else {
    params.status = client->Insert({.handle = params.hObject,
                                    .parent = params.hParent,
                                    .class_id = source->class_id,
                                    .gpu = source->gpu,
                                    .children = {},
                                    .resource = source->resource},
                                   &params.hObject);
  }
  Trace(call, NV_ESC_RM_DUP_OBJECT,
        absl::StrFormat("0x%x of client 0x%x as 0x%x: %s", params.hObjectSrc, params.hClientSrc,
                        params.hObject, StatusText(params.status)));
  return 0;
}

int RmDevice::Share(CallContext& call, NVOS57_PARAMETERS& params) {
  RmClient* client = rm_->server.FindFor(call.process(), params.hClient);
  const auto& policy = params.sharePolicy;
  params.status = client == nullptr ? NV_ERR_INVALID_CLIENT
                                    : ShareObject(rm_->server, *client, params.hObject, policy);
  Trace(call, NV_ESC_RM_SHARE,
        absl::StrFormat("0x%x type %d target 0x%x rights 0x%x action 0x%x: %s", params.hObject,
                        policy.type, policy.target, policy.accessMask.limbs[0], policy.action,
                        StatusText(params.status)));
  return 0;
}

int RmDevice::IdleChannels(CallContext& call, NVOS30_PARAMETERS& params) {
  const bool known = rm_->server.FindFor(call.process(), params.hClient) != nullptr;
  params.status = known ? NV_OK : NV_ERR_INVALID_CLIENT;
  return 0;
}

int RmDevice::UpdateDeviceMappingInfo(CallContext& call, NVOS56_PARAMETERS& params) {
  const bool known = rm_->server.FindFor(call.process(), params.hClient) != nullptr;
  params.status = known ? NV_OK : NV_ERR_INVALID_CLIENT;
  return 0;
}

}  // namespace phantora
