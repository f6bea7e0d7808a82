// A launch as a GPU's memory has it, for whoever executes it.
#ifndef PHANTORA_TRAP_GPU_FRONT_LAUNCH_READER_H_
#define PHANTORA_TRAP_GPU_FRONT_LAUNCH_READER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "profiles/work/work_rule.h"
#include "trap/gpu/front/engine_object.h"
#include "trap/gpu/front/qmd.h"
#include "trap/gpu/sass/execute.h"

namespace phantora {

class KernelImage;

struct NamedLaunch {
  const Qmd& qmd;
  // Where generic addresses of shared and local memory begin.
  uint64_t shared_window, local_window;
  uint64_t fingerprint;   // of the code's beginning
  uint32_t code_bytes;    // at the program's address; 0: nobody knows
  bool together = false;  // a cooperative launch: any block may wait for any other
  const std::string& title;
  const WorkRule* rule = nullptr;  // what it does, if anybody knows
  uint32_t parameter_bytes = 0;    // 0: nobody knows
  // Its mangled name, and the cubin that it was loaded from; nullptr: nobody knows.
  const std::string* symbol = nullptr;
  std::shared_ptr<const KernelImage> image = nullptr;

  WorkFamily family() const { return rule == nullptr ? WorkFamily::kUnknown : rule->family(); }
  // By its rule, if there is one.
  KernelWork Work(absl::Span<const uint8_t> parameters) const;
};

// Keeps programs and room for what it reads. What it returns is valid until the same is asked for
// again.
class LaunchReader {
 public:
  explicit LaunchReader(int architecture) : architecture_(architecture) {}

  // The launch as the executor wants it, and its code. nullptr: a bank of constants is not there,
  // see `fault`, or the code.
  std::shared_ptr<const sass::Program> Read(ExecutionContext& context, const NamedLaunch& from,
                                            sass::Launch& launch, AddressSpace::Fault& fault);
  // nullptr if it cannot be read.
  std::shared_ptr<const sass::Program> Program(ExecutionContext& context, const NamedLaunch& from);
  // Empty if they cannot be read.
  absl::Span<const uint8_t> Parameters(ExecutionContext& context, const NamedLaunch& from);

 private:
  const int architecture_;
  sass::ProgramCache programs_;
  std::vector<uint8_t> code_, parameters_;
  std::vector<uint8_t> banks_[8];
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_FRONT_LAUNCH_READER_H_
