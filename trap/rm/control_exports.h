// Which controls the published driver has, on objects of which classes, and for whom.
#ifndef PHANTORA_TRAP_RM_CONTROL_EXPORTS_H_
#define PHANTORA_TRAP_RM_CONTROL_EXPORTS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "trap/rm/driver_version.h"

namespace phantora {

// A class within the driver. Programs know several by other numbers.
enum class RmInternalClass : uint8_t {
#define RM_CLASS(name) k##name,
#define RM_OBJECTS(number, since, ...)
#define RM_EXPORT(command, since, exporter, access, by_firmware, size_first, rights, size)
#include "trap/abi/generated/rm_exports.inc"
#undef RM_CLASS
#undef RM_OBJECTS
#undef RM_EXPORT
};

// Who may make a control (serverControl_ValidateCookie in rmapi/control.c).
enum class ControlAccess : uint8_t {
  kNobody,  // it is not in the interface
  kAnyone,
  kAdministrator,
  kKernel,    // other parts of the kernel
  kInternal,  // the driver itself
};

struct ControlExport {
  uint32_t command;
  uint16_t since;  // the branch of the driver that brought it, or changed what stands here
  RmInternalClass exporter;
  ControlAccess access;
  // The GPU's firmware answers it, whose source is not published.
  bool by_firmware;
  // The driver looks at the size before it looks for the object (rmapiutilGetControlInfo).
  bool size_first;
  uint32_t rights;  // to the object: bits RS_ACCESS_*
  uint32_t size;    // bytes of the parameter block; 0: it has none
};

// In one of the driver's interfaces. nullptr: objects of the class do not answer the control.
const ControlExport* FindExport(DriverAbi abi, uint32_t class_id, uint32_t command);
// The one of the class that the control's number names, if it exports it.
const ControlExport* FindSizeFirst(DriverAbi abi, uint32_t command);
// Do objects of any class answer it?
bool IsExported(DriverAbi abi, uint32_t command);
// All there ever were, by command; of each the oldest branch first.
absl::Span<const ControlExport> AllExports();

}  // namespace phantora

#endif  // PHANTORA_TRAP_RM_CONTROL_EXPORTS_H_
