// Which system calls a rank is stopped at.
#ifndef PHANTORA_TRAP_LINUX_FILTER_POLICY_H_
#define PHANTORA_TRAP_LINUX_FILTER_POLICY_H_

#include <linux/filter.h>

#include <vector>

#include "absl/status/statusor.h"

namespace phantora {

// The BPF program made from call_table.h. No call on the path of a kernel launch is trapped.
struct FilterOptions {
  bool simulated_time = false;
  bool repeatable = false;     // also what tells whether a thread stands still
  bool shared_memory = false;  // calls that depend on what memory is, see page_sharing.h
  bool virtual_hosts =
      false;  // calls that tell about the machine, see host_calls.h and port_calls.h
};
absl::StatusOr<std::vector<sock_filter>> BuildFilter(const FilterOptions& options = {});

}  // namespace phantora

#endif  // PHANTORA_TRAP_LINUX_FILTER_POLICY_H_
