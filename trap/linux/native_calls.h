// System calls that no supervisor sees, by the reason why: the other half of call_table.h.
#ifndef PHANTORA_TRAP_LINUX_NATIVE_CALLS_H_
#define PHANTORA_TRAP_LINUX_NATIVE_CALLS_H_

#include "absl/types/span.h"
#include "trap/linux/call_table.h"

namespace phantora {

struct NativeCalls {
  Disposition disposition;  // not kTrapped
  CallMode mode;
  int error;  // errno of kRefused
  const char* reason;
  absl::Span<const int> numbers;
};

absl::Span<const NativeCalls> NativeCallGroups();

// Of calls that are newer than the libraries this is built with; nullptr for others.
const char* NewCallName(int number);

}  // namespace phantora

#endif  // PHANTORA_TRAP_LINUX_NATIVE_CALLS_H_
