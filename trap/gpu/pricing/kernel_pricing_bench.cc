// What naming and pricing a launch costs, warm. bazel run //trap/gpu/pricing:kernel_pricing_bench
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "profiles/kernels/code_fingerprint.h"
#include "trap/gpu/front/qmd.h"
#include "trap/gpu/kernels/kernel_library.h"
#include "trap/gpu/kernels/kernel_namer.h"
#include "trap/gpu/pricing/kernel_pricer.h"

namespace phantora {
namespace {

// As PyTorch launches them: how many different kernels a training step of GPT-2 has, and how
// many different launches.
constexpr int kKernels = 53, kLaunches = 800;

struct Launch {
  Qmd qmd;
  std::vector<uint8_t> parameters;
};

class Fixture {
 public:
  Fixture() : library_({80, ""}, &unknowns_), namer_(&library_, ParametersAt(80), &unknowns_) {
    const auto profile = *FindGpuProfile("a100-sxm4-80gb");
    pricer_ = *KernelPricer::Create(profile, {}, &unknowns_);
    std::vector<CubinKernel> kernels;
    code_.resize(kKernels, std::vector<uint8_t>(4096));
    for (int i = 0; i < kKernels; ++i) {
      for (size_t at = 0; at < code_[i].size(); ++at) code_[i][at] = (at * 7 + i * 131) % 251;
      kernels.push_back({.name = i % 3 == 0
                                     ? "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn"
                                     : "_ZN2at6native29vectorized_elementwise_kernelILi4EvE",
                         .architecture = 80,
                         .code = code_[i],
                         .relocated_instructions = {},
                         .parameters = {{0, 208}}});
    }
    library_.Add(std::move(kernels), {});
    launches_.resize(kLaunches);
    for (int i = 0; i < kLaunches; ++i) {
      Launch& launch = launches_[i];
      launch.parameters.resize(208);
      const int32_t sizes[] = {2304, 12288, 64 * (1 + i)};
      std::memcpy(launch.parameters.data() + 0x68, sizes, sizeof sizes);
      std::memcpy(launch.parameters.data() + 0x80, &sizes[2], 4);
      const int32_t elements = 18 * 128 * 4;
      std::memcpy(launch.parameters.data(), &elements, 4);
      launch.qmd.grid = {18, 96, 1};
      launch.qmd.block = {128, 1, 1};
      launch.qmd.program = static_cast<uint64_t>(i % kKernels) << 16;
    }
  }

  Price Of(int number) {
    const Launch& launch = launches_[number % kLaunches];
    const auto& code = code_[number % kLaunches % kKernels];
    const auto kernel = namer_.Of(getpid(), launch.qmd.program, PrefixFingerprint(code),
                                  [&code](uint8_t* to, uint64_t bytes) {
                                    if (bytes > code.size()) return false;
                                    std::memcpy(to, code.data(), bytes);
                                    return true;
                                  });
    return pricer_->Kernel({&launch.qmd, kernel.get(), launch.parameters, {}});
  }

 private:
  Unknowns unknowns_;
  KernelLibrary library_;
  KernelNamer namer_;
  std::unique_ptr<KernelPricer> pricer_;
  std::vector<std::vector<uint8_t>> code_;
  std::vector<Launch> launches_;
};

void NameAndPrice(benchmark::State& state) {
  Fixture fixture;
  for (int i = 0; i < kLaunches; ++i) {
    if (fixture.Of(i).source == PriceSource::kPlaceholder) state.SkipWithError("not known");
  }
  int number = 0;
  for (auto _ : state) benchmark::DoNotOptimize(fixture.Of(number++));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(NameAndPrice);

}  // namespace
}  // namespace phantora

BENCHMARK_MAIN();
