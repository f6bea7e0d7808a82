// What a kernel does, from its name, its code and the parameters of a launch.
#ifndef PHANTORA_PROFILES_WORK_WORK_RULE_H_
#define PHANTORA_PROFILES_WORK_WORK_RULE_H_

#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/types/span.h"
#include "profiles/kernels/cubin.h"
#include "profiles/work/code_summary.h"
#include "profiles/work/kernel_work.h"
#include "profiles/work/work_form.h"

namespace phantora {

class WorkRule {
 public:
  // `symbol` is the name in the symbol table; all of this is untrusted.
  WorkRule(std::string_view symbol, absl::Span<const CubinKernel::Parameter> parameters,
           const CodeSummary& code);
  WorkRule() = default;

  WorkFamily family() const { return family_; }
  // Whether it does nothing but wait: executing it changes nothing.
  bool only_waits() const { return only_waits_; }
  // How many bytes of parameters it needs.
  uint32_t parameter_bytes() const { return parameter_bytes_; }
  KernelWork Of(const LaunchShape& launch) const;

 private:
  WorkFamily family_ = WorkFamily::kUnknown;
  std::shared_ptr<const WorkForm> form_;
  uint32_t parameter_bytes_ = 0;
  bool only_waits_ = false;
};

}  // namespace phantora

#endif  // PHANTORA_PROFILES_WORK_WORK_RULE_H_
