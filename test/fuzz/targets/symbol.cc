// Names of kernels, and what small ones do to memory by rules that go by their names. An input is
// the name in the symbol table, a zero, and choices.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "profiles/kernels/kernel_title.h"
#include "test/fuzz/choices.h"
#include "trap/gpu/front/transfer.h"
#include "trap/gpu/small/small_kernel.h"
#include "trap/nccl/native_library.h"
#include "uvm_model/address_space.h"
#include "uvm_model/memory_object.h"

namespace phantora {
namespace {

constexpr uint64_t kAt = 0x7f0000000000, kBytes = 1 << 16;

void CarryOut(const SmallKernel& kernel, Choices& choices) {
  static const auto memory = std::make_shared<OwnedMemory>(MemoryKind::kVidmem, kBytes);
  AddressSpace space;
  space.Map(kAt, kBytes, memory, 0);
  LaunchShape launch;
  for (uint32_t* const dims : {launch.grid, launch.block}) {
    for (int i = 0; i < 3; ++i) dims[i] = static_cast<uint32_t>(choices.Below(64));
  }
  // Words: addresses, and small numbers.
  std::vector<uint8_t> parameters;
  while (!choices.empty() && parameters.size() < 4096) {
    const uint64_t word =
        choices.Below(2) == 0 ? kAt + choices.Below(kBytes) : choices.Below(1 << 16);
    parameters.insert(parameters.end(), reinterpret_cast<const uint8_t*>(&word),
                      reinterpret_cast<const uint8_t*>(&word) + 8);
  }
  launch.parameters = parameters;
  TransferQueue transfers;
  kernel.CarryOut(launch, space, transfers);
}

}  // namespace
}  // namespace phantora

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace phantora;
  const uint8_t* const end = std::find(data, data + size, 0);
  const std::string symbol(data, end);
  Require(KernelTitle(symbol).size() <= 200);
  ParseNcclFunction(symbol);
  Choices choices(end, static_cast<size_t>(data + size - end));
  choices.Byte();
  std::vector<CubinKernel::Parameter> parameters;
  uint16_t at = 0;
  for (uint64_t count = choices.Below(8); count > 0; --count) {
    const auto bytes = static_cast<uint16_t>(choices.Below(4) == 0 ? choices.Below(4096) : 8);
    parameters.push_back({at, bytes});
    at = static_cast<uint16_t>(at + bytes);
  }
  if (const auto kernel = FindSmallKernel(symbol, parameters)) CarryOut(*kernel, choices);
  return 0;
}
