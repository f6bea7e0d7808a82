// How fast machine code is executed, in instructions of threads per second.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "trap/gpu/sass/execute.h"
#include "trap/gpu/sass/programs_for_test.h"
#include "trap/gpu/sass/special_registers.h"
#include "uvm_model/device_memory.h"

namespace phantora::sass {
namespace {

constexpr uint64_t kAt = 0x7f1000000000, kBytes = 64 << 20;
constexpr uint32_t kParameters = 0x160, kThreads = 256;

void RunAgainAndAgain(benchmark::State& state, const std::vector<Word>& words, uint32_t blocks) {
  auto pages = std::make_shared<PageStore>(uint64_t{256} << 20);
  AddressSpace space;
  space.Map(kAt, kBytes, std::make_shared<DeviceMemory>(pages, kBytes), 0);
  std::vector<uint8_t> bank(512);
  std::memcpy(&bank[kParameters], &kAt, sizeof kAt);
  Launch launch = {
      .grid = {blocks, 1, 1}, .block = {kThreads, 1, 1}, .cluster = {}, .constants = {}};
  launch.constants[0] = bank;
  const Program program(CodeOf(words), 80);
  Executor executor(1);
  uint64_t instructions = 0;
  for (auto _ : state) {
    const Outcome outcome = executor.Run(launch, program, space, UINT64_MAX / 4, NeverInterrupted);
    if (!outcome.done()) std::abort();
    instructions += outcome.thread_instructions;
  }
  state.counters["thread_instructions"] =
      benchmark::Counter(static_cast<double>(instructions), benchmark::Counter::kIsRate);
}

// R4 and R5: the address of the word that is the thread's.
std::vector<Word> WithAddress() {
  return {ReadSpecialRegister(0, kThreadX),        ReadSpecialRegister(1, kBlockX),
          MultiplyAddImmediate(0, 1, kThreads, 0), MoveConstant(2, kParameters),
          MoveConstant(3, kParameters + 4),        MultiplyAddWideImmediate(4, 0, 4, 2)};
}

// x = 3 x + i, as an elementwise kernel of a framework has it.
void Elementwise(benchmark::State& state) {
  auto words = WithAddress();
  words.insert(words.end(),
               {LoadWord(6, 4), MultiplyAddImmediate(6, 6, 3, 0), StoreWord(4, 6), Exit()});
  RunAgainAndAgain(state, words, static_cast<uint32_t>(state.range(0)));
}
BENCHMARK(Elementwise)->Arg(1)->Arg(4096)->Unit(benchmark::kMicrosecond);

// Arithmetic in registers, unrolled.
void Arithmetic(benchmark::State& state) {
  std::vector<Word> words = WithAddress();
  for (int i = 0; i < 256; ++i) words.push_back(MultiplyAddImmediate(6 + i % 8, 6 + i % 8, 3, 0));
  words.push_back(StoreWord(4, 6));
  words.push_back(Exit());
  RunAgainAndAgain(state, words, 64);
}
BENCHMARK(Arithmetic)->Unit(benchmark::kMicrosecond);

// HMMA.16816.F32: 4,096 multiplications and additions of a warp each.
void TensorCores(benchmark::State& state) {
  std::vector<Word> words;
  for (int i = 0; i < 64; ++i) words.push_back({0x000000282404723c, 0x0000000000001804});
  words.push_back(Exit());
  RunAgainAndAgain(state, words, 16);
  state.counters["flops"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * 16 * (kThreads / 32) * 64 * 4096,
                         benchmark::Counter::kIsRate);
}
BENCHMARK(TensorCores)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace phantora::sass

BENCHMARK_MAIN();
