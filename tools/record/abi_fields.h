// The members of the structures in trap/abi, as data: name, offset, size and kind of each.
// Generated from these headers by abi_fields.py.
#ifndef PHANTORA_TOOLS_RECORD_ABI_FIELDS_H_
#define PHANTORA_TOOLS_RECORD_ABI_FIELDS_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace phantora::record {

enum class FieldKind : uint8_t { kUnsigned, kSigned, kChar, kPointer, kDescriptor, kRecord };

struct AbiRecord;

struct AbiField {
  const char* name;
  uint32_t offset;
  uint32_t bytes;  // of one element
  uint32_t count;  // of an array's elements, of all dimensions; 1 if it is none
  bool array;
  FieldKind kind;
  const AbiRecord* record;  // of kRecord
};

struct AbiRecord {
  const char* name;
  uint32_t bytes;
  // Its members lie over each other.
  bool is_union;
  const AbiField* fields;
  uint32_t field_count;

  absl::Span<const AbiField> Fields() const { return {fields, field_count}; }
};

// nullptr if there is no structure of that name.
const AbiRecord* FindRecord(absl::string_view name);

// The parameters of a control, or nullptr. `size` tells the versions of a layout apart.
const AbiRecord* ControlRecord(uint32_t command, uint32_t size);

// The number of the control with a public name. False if there is none.
bool CommandOf(absl::string_view name, uint32_t* command);

// What is asked with `index` in a list of {index, data} pairs, such as "grInfoList"; without the
// prefix that all of them have. nullptr if it has no public name.
const char* IndexName(absl::string_view list, uint32_t index);

}  // namespace phantora::record

#endif  // PHANTORA_TOOLS_RECORD_ABI_FIELDS_H_
