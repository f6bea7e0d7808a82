// What a launch does and costs: from a kernel's name, its parameters, and the memory that it names.
// An input is the name in the symbol table, a zero, and choices.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>

#include "profiles/gpu/gpu_profile.h"
#include "test/fuzz/choices.h"
#include "trap/gpu/front/gpu_services.h"
#include "trap/gpu/front/qmd.h"
#include "trap/gpu/kernels/known_kernel.h"
#include "trap/gpu/pricing/kernel_pricer.h"

namespace phantora {
namespace {

// Bytes that repeat, wherever one looks below an address.
class Memory : public LaunchMemory {
 public:
  explicit Memory(std::vector<uint8_t> bytes) : bytes_(std::move(bytes)) {}
  bool Read(uint64_t address, void* out, uint64_t bytes) const override {
    read_ += bytes;
    // A launch's price is worked out between two of its neighbours'.
    Require(read_ <= uint64_t{64} << 20);
    if (bytes_.empty() || address > uint64_t{1} << 48) return false;
    for (uint64_t i = 0; i < bytes; ++i) {
      static_cast<uint8_t*>(out)[i] = bytes_[(address + i) % bytes_.size()];
    }
    return true;
  }

 private:
  const std::vector<uint8_t> bytes_;
  mutable uint64_t read_ = 0;
};

KernelPricer& PricerOf(size_t gpu) {
  static auto* const pricers = [] {
    auto* made = new std::vector<std::unique_ptr<KernelPricer>>;
    static auto* const unknowns = new Unknowns;
    for (const char* name : {"a100-sxm4-80gb", "h100-sxm5-80gb", "h200-sxm5-141gb"}) {
      auto pricer = KernelPricer::Create(*FindGpuProfile(name), {}, unknowns);
      Require(pricer.ok());
      made->push_back(*std::move(pricer));
    }
    return made;
  }();
  return *(*pricers)[gpu % pricers->size()];
}

uint32_t Dimension(Choices& choices) {
  return static_cast<uint32_t>(choices.Below(8) == 0 ? choices.Word() : 1 + choices.Below(1024));
}

}  // namespace
}  // namespace phantora

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace phantora;
  const uint8_t* const end = std::find(data, data + size, 0);
  KnownKernel kernel;
  kernel.symbol.assign(data, end);
  if (kernel.symbol.empty()) return 0;
  kernel.title = kernel.symbol.substr(0, 20);
  Choices choices(end, static_cast<size_t>(data + size - end));
  choices.Byte();
  kernel.fingerprint = choices.Long();
  uint16_t at = 0;
  for (uint64_t count = choices.Below(40); count > 0; --count) {
    const uint64_t kind = choices.Below(8);
    const auto bytes = static_cast<uint16_t>(kind == 0 ? choices.Below(1 << 16) : kind < 5 ? 8 : 4);
    kernel.parameters.push_back({at, bytes});
    at = static_cast<uint16_t>(at + bytes + (choices.Below(16) == 0 ? choices.Below(1 << 16) : 0));
  }
  CodeSummary code;
  code.loaded = choices.Word() % 1024;
  code.parts[0].flops = static_cast<double>(choices.Below(1 << 16));
  code.parts[0].rounds = static_cast<double>(choices.Below(64));
  kernel.rule = WorkRule(kernel.symbol, kernel.parameters, code);
  Require(kernel.rule.parameter_bytes() <= 1 << 17);

  Qmd qmd;
  qmd.grid = {Dimension(choices), Dimension(choices), Dimension(choices)};
  qmd.block = {Dimension(choices), Dimension(choices), Dimension(choices)};
  qmd.registers = static_cast<uint32_t>(choices.Below(256));
  qmd.shared_bytes = choices.Word() % (256 << 10);
  KernelPricer& pricer = PricerOf(choices.Below(3));
  auto parameters = choices.Bytes(choices.Below(4096));
  parameters.resize(
      std::max<size_t>(parameters.size(), choices.Below(2) * kernel.rule.parameter_bytes()));
  const Memory memory(choices.Rest());
  const Price price = pricer.Kernel({.qmd = &qmd,
                                     .kernel = &kernel,
                                     .parameters = parameters,
                                     .moved_bytes = std::nullopt,
                                     .memory = &memory});
  Require(price.time >= VirtualSpan());
  Require(!std::isnan(price.flops) && !std::isnan(price.bytes) && !std::isnan(price.error));
  return 0;
}
