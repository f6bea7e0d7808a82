#include "trap/linux/filter_policy.h"

#include <linux/bpf_common.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "trap/linux/call_table.h"
#include "trap/linux/unique_fd.h"

namespace phantora {
namespace {

bool InForce(CallMode mode, const FilterOptions& options) {
  switch (mode) {
    case CallMode::kAlways:
      return true;
    case CallMode::kSimulatedTime:
      return options.simulated_time;
    case CallMode::kRepeatable:
      return options.repeatable;
    case CallMode::kSharedMemory:
      return options.shared_memory;
    case CallMode::kVirtualHosts:
      return options.virtual_hosts;
  }
  return true;
}

scmp_arg_cmp Comparison(const ArgumentIs& condition) {
  const auto argument = static_cast<unsigned>(condition.argument);
  switch (condition.comparison) {
    case ArgumentIs::kEqual:
      return {argument, SCMP_CMP_EQ, condition.value, 0};
    case ArgumentIs::kNotEqual:
      return {argument, SCMP_CMP_NE, condition.value, 0};
    case ArgumentIs::kLess:
      return {argument, SCMP_CMP_LT, condition.value, 0};
    case ArgumentIs::kMaskedEqual:
      return {argument, SCMP_CMP_MASKED_EQ, condition.mask, condition.value};
  }
  return {};
}

// 0 or a negative error number.
int AddRow(scmp_filter_ctx context, const CallRow& row) {
  const bool trapped = row.disposition == Disposition::kTrapped;
  if (!trapped && row.disposition != Disposition::kRefused) return 0;
  std::vector<scmp_arg_cmp> conditions;
  for (const ArgumentIs& condition : row.conditions) conditions.push_back(Comparison(condition));
  const uint32_t action =
      trapped ? SCMP_ACT_NOTIFY : SCMP_ACT_ERRNO(static_cast<uint32_t>(row.error));
  return seccomp_rule_add_exact_array(context, action, row.number,
                                      static_cast<unsigned>(conditions.size()), conditions.data());
}

absl::StatusOr<std::vector<sock_filter>> Export(scmp_filter_ctx context) {
  UniqueFd file(memfd_create("phantora-bpf", MFD_CLOEXEC));
  if (!file.valid()) return absl::InternalError("memfd_create failed");
  if (int error = seccomp_export_bpf(context, file.get()); error != 0) {
    return absl::InternalError(absl::StrCat("seccomp_export_bpf: ", std::strerror(-error)));
  }
  struct stat status;
  if (fstat(file.get(), &status) != 0) return absl::InternalError("fstat failed");
  std::vector<sock_filter> program(status.st_size / sizeof(sock_filter));
  if (pread(file.get(), program.data(), status.st_size, 0) != status.st_size) {
    return absl::InternalError("short read of the BPF program");
  }
  return program;
}

// libseccomp has no rule for numbers of which nothing is known. Before its program: those of x32,
// too, which have a bit above all others.
std::vector<sock_filter> RefuseUnknownNumbers(const std::vector<sock_filter>& program) {
  const auto last = static_cast<uint32_t>(LastCall());
  std::vector<sock_filter> whole = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, last, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
  };
  whole.insert(whole.end(), program.begin(), program.end());
  return whole;
}

}  // namespace

absl::StatusOr<std::vector<sock_filter>> BuildFilter(const FilterOptions& options) {
  scmp_filter_ctx context = seccomp_init(SCMP_ACT_ALLOW);
  if (context == nullptr) return absl::InternalError("seccomp_init failed");
  absl::Cleanup release = [context] { seccomp_release(context); };
  // 32-bit system calls have other numbers: none of them would be seen.
  seccomp_attr_set(context, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS));
  // A balanced tree keeps the cost of untrapped calls low.
  seccomp_attr_set(context, SCMP_FLTATR_CTL_OPTIMIZE, 2);
  for (const CallRow& row : CallTable()) {
    if (!InForce(row.mode, options)) continue;
    if (const int error = AddRow(context, row); error != 0) {
      return absl::InternalError(absl::StrCat("libseccomp refused the rule for ",
                                              CallName(row.number), ": ", std::strerror(-error)));
    }
  }
  auto program = Export(context);
  if (!program.ok()) return program.status();
  return RefuseUnknownNumbers(*program);
}

}  // namespace phantora
