// Executes kernels of cubins with words of them spoiled: none may end otherwise than as an outcome,
// or touch anything but the launch's memory. It says how they ended.
//
//   bazel run -c opt //test/fuzz:mutate_kernels -- COUNT SEED CUBIN...
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "profiles/kernels/cubin.h"
#include "trap/gpu/sass/execute.h"
#include "uvm_model/device_memory.h"

namespace phantora::sass {
namespace {

constexpr uint64_t kAt = 0x7f1000000000, kBytes = 1 << 20;
constexpr uint64_t kMost = 20'000;      // thread instructions of a launch
constexpr size_t kLargest = 256 << 10;  // bytes of code, as decoding takes longer than executing

struct Kernel {
  Architecture architecture;
  std::vector<uint8_t> code;
};

std::vector<Kernel> KernelsOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<uint8_t> bytes((std::istreambuf_iterator<char>(file)), {});
  std::vector<CubinKernel> found;
  ReadCubin(bytes, found);
  std::vector<Kernel> kernels;
  for (const CubinKernel& kernel : found) {
    if (kernel.architecture < 80 || kernel.architecture > 90 || kernel.code.empty() ||
        kernel.code.size() > kLargest) {
      continue;
    }
    kernels.push_back({kernel.architecture, {kernel.code.begin(), kernel.code.end()}});
  }
  return kernels;
}

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  uint64_t Below(uint64_t end) { return random_() % end; }

  // A few of its words, mostly of the first that are executed.
  void Spoil(std::vector<uint8_t>& code) {
    const size_t words = code.size() / kWordBytes;
    for (uint64_t left = 1 + Below(8); left > 0; --left) {
      const size_t word = Below(Below(2) == 0 ? std::min<size_t>(words, 32) : words);
      uint8_t* const at = &code[word * kWordBytes];
      switch (Below(4)) {
        case 0:
          at[Below(kWordBytes)] = static_cast<uint8_t>(random_());
          break;
        case 1:
          std::swap_ranges(at, at + kWordBytes, &code[Below(words) * kWordBytes]);
          break;
        default:
          at[Below(kWordBytes)] ^= static_cast<uint8_t>(1u << Below(8));
      }
    }
  }

  // Parameters and all else in the first bank: pointers, small numbers, anything.
  void Fill(std::vector<uint8_t>& bank) {
    for (size_t at = 0; at + 8 <= bank.size(); at += 8) {
      const uint64_t kind = Below(8);
      const uint64_t value = kind < 4   ? kAt + Below(kBytes / 16) * 16
                             : kind < 7 ? Below(1024) | Below(64) << 32
                                        : random_();
      std::memcpy(&bank[at], &value, sizeof value);
    }
  }

 private:
  std::mt19937_64 random_;
};

int Main(int count, uint64_t seed, const std::vector<std::string>& files) {
  std::vector<Kernel> kernels;
  for (const std::string& file : files) {
    for (Kernel& kernel : KernelsOf(file)) kernels.push_back(std::move(kernel));
  }
  if (kernels.empty()) {
    std::fprintf(stderr, "mutate_kernels: no kernels of sm_80 to sm_90 in these files\n");
    return 2;
  }
  const auto pages = std::make_shared<PageStore>(64 << 20);
  AddressSpace space;
  space.Map(kAt, kBytes, std::make_shared<DeviceMemory>(pages, kBytes), 0);
  Mutator mutator(seed);
  Executor executor(2);
  std::vector<uint8_t> bank(0x1000);
  std::map<int, int> ended;
  for (int i = 0; i < count; ++i) {
    const Kernel& kernel = kernels[mutator.Below(kernels.size())];
    std::vector<uint8_t> code = kernel.code;
    if (i % 16 != 0) mutator.Spoil(code);
    mutator.Fill(bank);
    const Program program(code, kernel.architecture);
    Launch launch = {.grid = {static_cast<uint32_t>(1 + mutator.Below(4)), 1, 1},
                     .block = {static_cast<uint32_t>(1 + mutator.Below(256)), 1, 1},
                     .cluster = {},
                     .registers = static_cast<int>(mutator.Below(256)),
                     .shared_bytes = static_cast<uint32_t>(mutator.Below(64 << 10)),
                     .code_address = kAt + (uint64_t{1} << 40),
                     .together = mutator.Below(8) == 0,
                     .constants = {}};
    launch.constants[0] = bank;
    launch.constants[4] = bank;
    launch.tracking = static_cast<Tracking>(mutator.Below(3));
    space.SetTaint(kAt + mutator.Below(kBytes), mutator.Below(256), mutator.Below(2) == 0);
    if (mutator.Below(8) == 0) {
      executor.Try(launch, program, space, kMost, kMost, [] { return false; });
    }
    const Outcome outcome = executor.Run(launch, program, space, kMost, [] { return false; });
    ++ended[static_cast<int>(outcome.stop.reason)];
  }
  static const std::map<int, const char*> kNames = {
      {static_cast<int>(Stop::Reason::kNone), "done"},
      {static_cast<int>(Stop::Reason::kUnmapped), "unmapped address"},
      {static_cast<int>(Stop::Reason::kMisaligned), "misaligned address"},
      {static_cast<int>(Stop::Reason::kOutOfRange), "address out of range"},
      {static_cast<int>(Stop::Reason::kTrap), "trap"},
      {static_cast<int>(Stop::Reason::kBadTarget), "jump out of the code"},
      {static_cast<int>(Stop::Reason::kElsewhere), "code elsewhere"},
      {static_cast<int>(Stop::Reason::kRefused), "refused"},
      {static_cast<int>(Stop::Reason::kDeadlock), "deadlock"},
      {static_cast<int>(Stop::Reason::kTooLong), "too long"},
      {static_cast<int>(Stop::Reason::kTainted), "tainted"},
      {static_cast<int>(Stop::Reason::kNoMemory), "no memory"}};
  std::printf("%d launches of %zu kernels, spoiled:", count, kernels.size());
  for (const auto& [reason, times] : ended) {
    const auto name = kNames.find(reason);
    std::printf(" %d %s;", times, name != kNames.end() ? name->second : "of another kind");
  }
  std::printf("\n");
  return 0;
}

}  // namespace
}  // namespace phantora::sass

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: mutate_kernels COUNT SEED CUBIN...\n");
    return 2;
  }
  return phantora::sass::Main(std::atoi(argv[1]), std::strtoull(argv[2], nullptr, 10),
                              {argv + 3, argv + argc});
}
