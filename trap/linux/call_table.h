// What becomes of every system call of x86-64 that a rank makes. The one place where that is said:
// the seccomp filter (filter_policy.h), the supervisor's dispatch and docs/system_calls.md are made
// from it.
#ifndef PHANTORA_TRAP_LINUX_CALL_TABLE_H_
#define PHANTORA_TRAP_LINUX_CALL_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace phantora {

enum class Disposition {
  kTrapped,   // the supervisor is asked
  kRefused,   // fails with `error` in the kernel, nobody is asked
  kUnseen,    // runs natively, and something about it is not as on the emulated machine
  kHarmless,  // runs natively, as it should
};

// In which runs a row is in force. Where it is not, the call runs natively.
enum class CallMode {
  kAlways,
  kSimulatedTime,  // all but --host-time real
  kRepeatable,     // --host-time fixed or zero: threads go one at a time (thread_gate.h)
  kSharedMemory,   // ranks' equal memory is shared (page_sharing.h)
  kVirtualHosts,   // a cluster
};

// Who serves a trapped call.
enum class CallHandler : uint8_t {
  kNone,
  kPath,      // files/path_calls.h
  kDevice,    // ioctl and mmap of emulated devices; what the starter of ranks says
  kHost,      // host/host_calls.h
  kPort,      // host/port_calls.h
  kChange,    // host/process_calls.h
  kMemory,    // memory/page_sharing.h
  kProcess,   // new processes and threads; kProcess to kTimer: time/simulated_time.h
  kProgram,   // a program begins
  kClock,     // reads a clock
  kSignal,    // sends a signal
  kStop,      // asks the kernel to stop a process later
  kYield,     // gives up the processor
  kWait,      // may wait, until a time at the most; or wakes others who do
  kTransfer,  // carries bytes, and time with them
  kTimer,     // sets or reads a timer
  kRefusal,   // refused, as where it is switched off
};

// Of a call's argument, all 64 bits. A row holds if all its conditions do.
struct ArgumentIs {
  enum Comparison : uint8_t { kEqual, kNotEqual, kLess, kMaskedEqual };
  int argument;  // 0 to 5
  Comparison comparison;
  uint64_t value;
  uint64_t mask = ~uint64_t{0};  // of kMaskedEqual
};

struct CallRow {
  int number;  // __NR_*
  Disposition disposition;
  CallMode mode = CallMode::kAlways;
  CallHandler handler = CallHandler::kNone;  // of kTrapped
  std::vector<ArgumentIs> conditions = {};   // none: every such call
  int error = 0;                             // errno of kRefused
  // Why; for kUnseen, what is not as it would be.
  const char* reason = "";
};

// In order of numbers. A call has several rows if different arguments are treated alike: they
// have the same handler. Every call up to LastCall() has at least one; what no row holds for runs
// natively. Greater numbers, and calls of the 32-bit and x32 interfaces, fail with ENOSYS: nothing
// is known about them.
absl::Span<const CallRow> CallTable();
int LastCall();

// kNone if it is not trapped in any run.
CallHandler HandlerOf(int number);

// As the kernel's headers call it, without "__NR_".
std::string CallName(int number);

// The table as docs/system_calls.md has it.
std::string DescribeCallTable();

}  // namespace phantora

#endif  // PHANTORA_TRAP_LINUX_CALL_TABLE_H_
