// Sharing objects between processes (ctrl0000unix.h, ctrl0041.h).
#include <algorithm>
#include <cerrno>

#include "trap/abi/generated/escapes.h"
#include "trap/abi/generated/rm_classes.h"
#include "trap/abi/generated/rm_controls.h"
#include "trap/rm/export_file.h"
#include "trap/rm/rm_control.h"
#include "trap/rm/rm_resources.h"

namespace phantora {

int ExportFile::Ioctl(CallContext&, uint32_t, RemoteAddress) { return -EINVAL; }

namespace {

using namespace abi;  // NOLINT: NVIDIA's names

// Objects behind one descriptor; libcuda exports one.
constexpr size_t kMostExported = 1024;

std::shared_ptr<ExportFile> ExportAt(ControlCall& call, int fd) {
  return std::dynamic_pointer_cast<ExportFile>(call.call.DeviceAt(fd));
}

// The export at `fd`, made in place of the plain device there if need be.
std::shared_ptr<ExportFile> MakeExport(ControlCall& call, int fd) {
  if (auto file = ExportAt(call, fd)) return file;
  // Only a descriptor of ours may be replaced.
  if (call.call.DeviceAt(fd) == nullptr) return nullptr;
  auto file = std::make_shared<ExportFile>();
  return call.call.ReplaceByDevice(fd, file).ok() ? file : nullptr;
}

ExportFile::Exported Export(const RmObject& object) {
  return {object.class_id, object.gpu, object.resource};
}

uint32_t Import(ControlCall& call, const ExportFile::Exported& exported, uint32_t parent,
                uint32_t* handle) {
  if (exported.resource == nullptr) return NV_ERR_INVALID_ARGUMENT;
  return call.client.Insert({.handle = *handle,
                             .parent = parent,
                             .class_id = exported.class_id,
                             .gpu = exported.gpu,
                             .children = {},
                             .resource = exported.resource},
                            handle);
}

uint32_t ExportObject(ControlCall& call, NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS& params) {
  RmObject* object = call.client.Find(params.object.data.rmObject.hObject);
  if (object == nullptr || object->resource == nullptr) return NV_ERR_INVALID_OBJECT_HANDLE;
  auto file = MakeExport(call, params.fd);
  if (file == nullptr) return NV_ERR_INVALID_ARGUMENT;
  file->objects = {Export(*object)};
  file->gpu = object->gpu;
  return NV_OK;
}

uint32_t ImportObject(ControlCall& call, NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS& params) {
  auto file = ExportAt(call, params.fd);
  if (file == nullptr || file->objects.empty()) return NV_ERR_INVALID_ARGUMENT;
  auto& object = params.object.data.rmObject;
  return Import(call, file->objects[0], object.hParent, &object.hObject);
}

template <typename Params>
uint32_t ExportInfo(ControlCall& call, Params& params) {
  auto file = ExportAt(call, params.fd);
  if (file == nullptr) return NV_ERR_INVALID_ARGUMENT;
  params.deviceInstance = file->gpu;
  if constexpr (requires { params.gpuInstanceId; }) {
    params.gpuInstanceId = NV0000_CTRL_GPU_INVALID_ID;  // no MIG instance
  }
  params.maxObjects = static_cast<uint16_t>(file->objects.size());
  std::memcpy(params.metadata, file->metadata.data(), file->metadata.size());
  return NV_OK;
}

uint32_t ExportObjects(ControlCall& call, NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS& params) {
  if (params.numObjects > std::size(params.objects)) return NV_ERR_INVALID_ARGUMENT;
  auto file = MakeExport(call, params.fd);
  if (file == nullptr) return NV_ERR_INVALID_ARGUMENT;
  std::memcpy(file->metadata.data(), params.metadata, file->metadata.size());
  const size_t end = size_t{params.index} + params.numObjects;
  if (end > kMostExported) return NV_ERR_INVALID_ARGUMENT;
  file->objects.resize(
      std::max({file->objects.size(), end, std::min(size_t{params.maxObjects}, kMostExported)}));
  for (uint32_t i = 0; i < params.numObjects; ++i) {
    RmObject* object = call.client.Find(params.objects[i]);
    if (object == nullptr || object->resource == nullptr) return NV_ERR_INVALID_OBJECT_HANDLE;
    file->objects[params.index + i] = Export(*object);
    file->gpu = object->gpu;
  }
  return NV_OK;
}

uint32_t ImportObjects(ControlCall& call,
                       NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS& params) {
  auto file = ExportAt(call, params.fd);
  if (file == nullptr || params.numObjects > std::size(params.objects) ||
      size_t{params.index} + params.numObjects > file->objects.size()) {
    return NV_ERR_INVALID_ARGUMENT;
  }
  for (uint32_t i = 0; i < params.numObjects; ++i) {
    const auto& exported = file->objects[params.index + i];
    const uint32_t status = Import(call, exported, params.hParent, &params.objects[i]);
    if (status != NV_OK) return status;
    auto memory = std::dynamic_pointer_cast<MemoryResource>(exported.resource);
    const bool vidmem = memory != nullptr && memory->memory->kind() == MemoryKind::kVidmem;
    params.objectTypes[i] = vidmem ? NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_TYPE_VIDMEM
                                   : NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_TYPE_SYSMEM;
  }
  return NV_OK;
}

uint32_t SurfaceInfo(ControlCall& call, const NV0041_CTRL_GET_SURFACE_INFO_PARAMS& params) {
  auto resource = call.object.As<MemoryResource>();
  if (resource == nullptr) return NV_ERR_INVALID_OBJECT;
  const bool vidmem = resource->memory->kind() == MemoryKind::kVidmem;
  return AnswerRemoteList(
      call, params.surfaceInfoListSize, params.surfaceInfoList, [&](uint32_t index) -> uint32_t {
        switch (index) {
          case NV0041_CTRL_SURFACE_INFO_INDEX_PHYS_SIZE:
            return static_cast<uint32_t>(resource->memory->size() >> 12);
          case NV0041_CTRL_SURFACE_INFO_INDEX_PHYS_ATTR: {
            const uint32_t page = !vidmem ? NVOS32_ATTR_PAGE_SIZE_4KB
                                  : resource->memory->size() % (2 << 20) == 0
                                      ? NVOS32_ATTR_PAGE_SIZE_HUGE
                                      : NVOS32_ATTR_PAGE_SIZE_BIG;
            return page << NVOS32_ATTR_PAGE_SIZE_SHIFT |
                   (vidmem ? NVOS32_ATTR_LOCATION_VIDMEM : NVOS32_ATTR_LOCATION_PCI)
                       << NVOS32_ATTR_LOCATION_SHIFT;
          }
          case NV0041_CTRL_SURFACE_INFO_INDEX_ADDR_SPACE_TYPE:
            return vidmem ? NV0000_CTRL_CMD_CLIENT_GET_ADDR_SPACE_TYPE_VIDMEM
                          : NV0000_CTRL_CMD_CLIENT_GET_ADDR_SPACE_TYPE_SYSMEM;
          default:
            return 0;
        }
      });
}

constexpr ControlRow kRows[] = {
    Control<ExportObject>(NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECT_TO_FD),
    Control<ImportObject>(NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_FROM_FD),
    ControlByVersion<NV0000_CTRL_OS_UNIX_GET_EXPORT_OBJECT_INFO_PARAMS,
                     [](ControlCall& call, auto& params) { return ExportInfo(call, params); }>(
        NV0000_CTRL_CMD_OS_UNIX_GET_EXPORT_OBJECT_INFO),
    Control<ExportObjects>(NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECTS_TO_FD),
    Control<ImportObjects>(NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECTS_FROM_FD),
    Control<SurfaceInfo>(NV0041_CTRL_CMD_GET_SURFACE_INFO),
};

}  // namespace

absl::Span<const ControlRow> ExportControls() { return kRows; }

}  // namespace phantora
