#include "trap/gpu/real/real_execution.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "profiles/kernels/cubin.h"

namespace phantora {

const RealExecution::Kernel& RealExecution::KernelOf(
    const std::shared_ptr<const KernelImage>& image, const std::string& symbol) {
  const auto [found, is_new] = kernels_.try_emplace({image->place(), symbol});
  Kernel& kernel = found->second;
  if (!is_new) return kernel;
  kernel.image = image;
  const auto cubin = image->Read();
  KernelData data;
  if (!cubin) {
    kernel.why_not = "its library cannot be read any more";
  } else if (!ReadKernelData(*cubin, symbol, data)) {
    kernel.why_not = "its image is damaged";
  } else if (!data.variable.empty()) {
    kernel.why_not = absl::StrCat("it may use a variable of its module, ", data.variable);
  } else {
    kernel.constants.assign(data.constants.begin(), data.constants.end());
  }
  return kernel;
}

absl::Status RealExecution::Run(AddressSpace& memory, const RealLaunch& wanted) {
  const auto made = memory_.SpaceOf(memory);
  if (!made.ok()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no context on the GPU: ", std::string(made.status().message())));
  }
  RealMemory::Space& space = **made;
  for (const uint64_t address : wanted.own_addresses) memory_.KeepFromGpu(space, address);
  if (wanted.constants_bytes > 0) memory_.KeepFromGpu(space, wanted.constants);

  if (wanted.image == nullptr || wanted.symbol == nullptr) {
    return absl::NotFoundError("nobody knows where its code came from");
  }
  const Kernel& kernel = KernelOf(wanted.image, *wanted.symbol);
  if (!kernel.why_not.empty()) return absl::NotFoundError(kernel.why_not);
  if (!kernel.constants.empty()) {
    std::vector<uint8_t> now(std::min<uint64_t>(kernel.constants.size(), wanted.constants_bytes));
    if (now.size() < kernel.constants.size() ||
        memory.Read(wanted.constants, now.data(), now.size()) || now != kernel.constants) {
      return absl::FailedPreconditionError("its __constant__ variables were changed");
    }
  }
  RemoteLaunch launch = wanted.launch;
  const auto number = memory_.Know(space, *kernel.image, *wanted.symbol);
  if (!number.ok()) return number.status();
  launch.kernel = *number;
  std::vector<uint64_t> addresses;
  const absl::Span<const uint8_t> parameters = launch.parameters;
  for (size_t at = 0; at + sizeof(uint64_t) <= parameters.size(); at += sizeof(uint64_t)) {
    uint64_t word;
    std::memcpy(&word, parameters.data() + at, sizeof word);
    // Nothing is mapped below, and small numbers are many.
    if (word >> 32 != 0) addresses.push_back(word);
  }
  return memory_.Launch(space, launch, addresses);
}

}  // namespace phantora
