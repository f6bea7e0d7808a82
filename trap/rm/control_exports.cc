#include "trap/rm/control_exports.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>

namespace phantora {
namespace {

constexpr ControlExport kExports[] = {
#define RM_CLASS(name)
#define RM_OBJECTS(number, since, ...)
#define RM_EXPORT(command, since, exporter, access, by_firmware, size_first, rights, size) \
  {command,                                                                                \
   since,                                                                                  \
   RmInternalClass::k##exporter,                                                           \
   ControlAccess::access,                                                                  \
   by_firmware != 0,                                                                       \
   size_first != 0,                                                                        \
   rights,                                                                                 \
   size},
#include "trap/abi/generated/rm_exports.inc"
#undef RM_OBJECTS
#undef RM_EXPORT
};

// Whose controls objects of a class answer: its own, and those of what it derives from.
struct ObjectClass {
  constexpr ObjectClass(uint32_t number, uint16_t since,
                        std::initializer_list<RmInternalClass> exporters)
      : number(number), since(since), count(exporters.size()) {
    std::copy(exporters.begin(), exporters.end(), this->exporters);
  }

  uint32_t number;
  uint16_t since;
  size_t count;
  RmInternalClass exporters[3] = {};
};

constexpr ObjectClass kObjectClasses[] = {
#define RM_OBJECTS(number, since, ...) ObjectClass(number, since, __VA_ARGS__),
#define RM_EXPORT(command, since, exporter, access, by_firmware, size_first, rights, size)
#include "trap/abi/generated/rm_exports.inc"
#undef RM_CLASS
#undef RM_OBJECTS
#undef RM_EXPORT
};

bool IsIn(DriverAbi abi, uint16_t since) { return since <= static_cast<int>(abi); }

// The rows of the command.
absl::Span<const ControlExport> RowsOf(uint32_t command) {
  const auto less = [](const ControlExport& row, uint32_t number) { return row.command < number; };
  const auto* begin = std::lower_bound(std::begin(kExports), std::end(kExports), command, less);
  const auto* end = begin;
  while (end != std::end(kExports) && end->command == command) ++end;
  return {begin, static_cast<size_t>(end - begin)};
}

// The newest row of the interface that `matches`; nullptr where the driver has dropped it.
template <typename Matches>
const ControlExport* Newest(DriverAbi abi, uint32_t command, Matches matches) {
  const ControlExport* newest = nullptr;
  for (const ControlExport& row : RowsOf(command)) {
    if (IsIn(abi, row.since) && matches(row)) newest = &row;
  }
  return newest == nullptr || newest->access == ControlAccess::kNobody ? nullptr : newest;
}

}  // namespace

const ControlExport* FindExport(DriverAbi abi, uint32_t class_id, uint32_t command) {
  const ObjectClass* object = nullptr;
  for (const ObjectClass& row : kObjectClasses) {
    if (row.number == class_id && IsIn(abi, row.since)) object = &row;
  }
  if (object == nullptr) return nullptr;
  for (size_t i = 0; i < object->count; ++i) {
    const RmInternalClass exporter = object->exporters[i];
    const ControlExport* found = Newest(
        abi, command, [exporter](const ControlExport& row) { return row.exporter == exporter; });
    if (found != nullptr) return found;
  }
  return nullptr;
}

const ControlExport* FindSizeFirst(DriverAbi abi, uint32_t command) {
  const ControlExport* found = FindExport(abi, command >> 16, command);
  return found != nullptr && found->size_first ? found : nullptr;
}

bool IsExported(DriverAbi abi, uint32_t command) {
  // Rows of one class may say that it has dropped what another still has.
  const auto rows = RowsOf(command);
  return std::any_of(rows.begin(), rows.end(), [&](const ControlExport& row) {
    return Newest(abi, command, [&row](const ControlExport& other) {
             return other.exporter == row.exporter;
           }) != nullptr;
  });
}

absl::Span<const ControlExport> AllExports() { return kExports; }

}  // namespace phantora
