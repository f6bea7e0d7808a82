#include "profiles/work/attention_sequences.h"

#include <algorithm>
#include <cmath>

#include "profiles/work/kernel_symbol.h"

namespace phantora {
namespace {

constexpr double kTile = 128;  // queries

}  // namespace

std::vector<int32_t> ReadLengths(const LaunchShape& launch, uint64_t address, size_t count) {
  std::vector<int32_t> values(count);
  if (address == 0 || launch.memory == nullptr ||
      !launch.memory->Read(address, values.data(), count * sizeof(int32_t))) {
    return {};
  }
  return values;
}

bool LengthsFromStarts(const std::vector<int32_t>& starts, double all,
                       std::vector<int32_t>& lengths) {
  if (starts.size() != lengths.size() + 1 || starts[0] != 0 || starts.back() > all) return false;
  if (starts.back() <= 0 || !std::is_sorted(starts.begin(), starts.end())) return false;
  for (size_t i = 0; i < lengths.size(); ++i) lengths[i] = starts[i + 1] - starts[i];
  return true;
}

void AddSequences(const std::vector<int32_t>& queries, const std::vector<int32_t>& keys,
                  const AttentionHeads& of, KernelWork& work) {
  struct Sum {
    double sequences = 0, queries = 0, keys = 0, pairs = 0;
  } prompts, singles;
  for (size_t i = 0; i < queries.size(); ++i) {
    const double q = queries[i], k = std::max<double>(keys[i], of.causal ? queries[i] : 1);
    if (q < 1) continue;  // sequences of a CUDA graph that are not used
    Sum& sum = q > 1 ? prompts : singles;
    sum.sequences += 1, sum.queries += q, sum.keys += k;
    sum.pairs += q * (of.causal ? k - (q - 1) / 2 : k);
    const double seen = of.window > 0 ? std::min(k, of.window) : of.causal ? k - (q - 1) / 2 : k;
    work.flops += 4 * of.heads * of.width * q * seen;
    work.bytes += Bytes(work.precision) *
                  (2 * of.heads * q * of.width +
                   2 * of.kv_heads * of.width * (of.window > 0 ? std::min(k, of.window + q) : k));
    work.tiles += of.heads * std::ceil(q / kTile);
  }
  const Sum& main = prompts.sequences > 0 ? prompts : singles;
  if (main.sequences == 0) return;
  const double each = main.queries / main.sequences;
  const double seen = main.pairs / main.queries;
  work.shape = {main.sequences, of.heads, each, of.causal ? seen + (each - 1) / 2 : seen, of.width};
  if (!of.causal && prompts.sequences > 0) return;
  work.kv_heads = of.kv_heads;
  work.window = of.window;
  if (&main == &prompts && singles.sequences > 0) {
    work.single_queries = singles.sequences;
    work.single_keys = singles.keys / singles.sequences;
  }
}

}  // namespace phantora
