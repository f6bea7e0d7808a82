// GPU code, executed.
#include <cstring>
#include <memory>
#include <vector>

#include "test/fuzz/choices.h"
#include "trap/gpu/sass/execute.h"
#include "trap/gpu/sass/program.h"
#include "uvm_model/address_space.h"
#include "uvm_model/device_memory.h"
#include "uvm_model/page_store.h"

namespace phantora::sass {
namespace {

constexpr uint64_t kAt = 0x7f1000000000, kBytes = 1 << 16;
constexpr uint64_t kMost = 2'000;  // thread instructions of a launch

void Run(Choices& choices) {
  static Executor* const executor = new Executor(1);
  const auto pages = std::make_shared<PageStore>(4 << 20);
  AddressSpace space;
  space.Map(kAt, kBytes, std::make_shared<DeviceMemory>(pages, kBytes), 0);
  static constexpr int kArchitectures[] = {80, 86, 89, 90};
  const int architecture = kArchitectures[choices.Below(4)];
  std::vector<uint8_t> bank(0x400);
  for (size_t at = 0x160; at + 8 <= 0x240; at += 8) {
    const uint64_t value =
        choices.Below(4) == 0 ? choices.Below(1 << 16) : kAt + choices.Below(kBytes);
    std::memcpy(&bank[at], &value, sizeof value);
  }
  Launch launch = {.grid = {static_cast<uint32_t>(1 + choices.Below(2)), 1, 1},
                   .block = {static_cast<uint32_t>(1 + choices.Below(64)), 1, 1},
                   .cluster = {},
                   .registers = static_cast<int>(choices.Below(256)),
                   .shared_bytes = static_cast<uint32_t>(choices.Below(4096)),
                   .code_address = kAt + (uint64_t{1} << 40),
                   .together = choices.Below(8) == 0,
                   .constants = {}};
  launch.constants[0] = bank;
  launch.constants[4] = bank;
  launch.tracking = static_cast<Tracking>(choices.Below(3));
  std::vector<uint8_t> code = choices.Rest();
  code.resize(code.size() / kWordBytes * kWordBytes);
  if (code.empty()) return;
  const Program program(code, architecture);
  executor->Run(launch, program, space, kMost, [] { return false; });
}

}  // namespace
}  // namespace phantora::sass

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  phantora::Choices choices(data, size);
  phantora::sass::Run(choices);
  return 0;
}
