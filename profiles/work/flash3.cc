// Attention of FlashAttention 3: forward, for Hopper.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "profiles/work/attention_sequences.h"
#include "profiles/work/kernel_symbol.h"
#include "profiles/work/work_form.h"

namespace phantora {
namespace {

// Where the only parameter, a struct of 2,176 bytes, keeps what says the size: mainloop, epilogue
// and scheduler of hopper/mainloop_fwd_sm90_tma_gmma_ws.hpp. Seen in the launches of vLLM 0.8.5's
// and 0.12.0's builds for attention of known size. Offsets from the struct; i32, and pointers of 64
// bits.
constexpr uint32_t kBytes = 2176;
constexpr uint32_t kRows = 0x8, kWidth = 0xc, kHeads = 0x10;  // of queries; rows of all sequences
constexpr uint32_t kWindowLeft = 0x61c, kSplits = 0x624;
constexpr uint32_t kQueryStarts = 0x630, kKeyStarts = 0x638, kUsedKeys = 0x650;  // pointers
// What differs between builds: where strides of queries and values end.
struct Layout {
  uint32_t keys, key_width, kv_heads;  // keys, or of a page
  uint32_t batch;
  uint32_t most_keys;  // of a sequence
  uint32_t page_table;
};
constexpr Layout kLayouts[] = {
    {0x70, 0x74, 0x78, 0xd4, 0x170, 0x198},  // 0.8.5
    {0x68, 0x6c, 0x70, 0xcc, 0x168, 0x190},  // 0.12.0
};
// Keys that a thread block takes at a time, at least.
constexpr double kLeastKeys = 64;

class Flash3Forward : public WorkForm {
 public:
  Flash3Forward(std::string_view symbol, uint32_t offset) : offset_(offset) {
    precision_ = Has(symbol, "float_e4m3") ? MathPrecision::kFp8
                 : Has(symbol, "bfloat16") ? MathPrecision::kBf16
                                           : MathPrecision::kFp16;
    // CollectiveMainloopFwdSm90<..., arch::Sm90, Is_causal, Is_local, ...>.
    const size_t flags = symbol.find("4arch4Sm90E");
    const auto flag = [&](size_t at) {
      return flags != symbol.npos && HasAt(symbol, flags + 11 + 4 * at, "Lb1E");
    };
    local_ = flag(1);
    causal_ = flag(0) || local_;
  }

  KernelWork Of(const LaunchShape& launch) const override {
    KernelWork work;
    work.precision = precision_;
    const auto number = [&](uint32_t at) -> double { return launch.At<int32_t>(offset_ + at); };
    const auto pointer = [&](uint32_t at) { return launch.At<uint64_t>(offset_ + at); };
    const double rows = number(kRows), heads = number(kHeads), width = number(kWidth);
    const auto fits = [&](const Layout& layout) {
      const double kv_heads = number(layout.kv_heads), batch = number(layout.batch);
      bool possible = number(layout.key_width) == width && heads >= kv_heads;
      for (const double size : {rows, heads, width, kv_heads, batch}) {
        possible &= size >= 1 && size < kLargestDimension;
      }
      return possible && batch < kMostSequences;
    };
    const auto* const layout = std::find_if(std::begin(kLayouts), std::end(kLayouts), fits);
    work.checked = layout != std::end(kLayouts);
    if (!work.checked) return work;
    const double kv_heads = number(layout->kv_heads), batch = number(layout->batch);

    const auto count = static_cast<size_t>(batch);
    std::vector<int32_t> queries(count, static_cast<int32_t>(rows)), keys;
    if (const uint64_t starts = pointer(kQueryStarts); starts != 0) {
      if (!LengthsFromStarts(ReadLengths(launch, starts, count + 1), rows, queries)) {
        queries.assign(count, static_cast<int32_t>(rows / batch));
        work.guessed = true;
      }
    }
    const double most_keys = std::max(1.0, number(layout->most_keys));
    if (const uint64_t used = pointer(kUsedKeys); used != 0) {
      keys = ReadLengths(launch, used, count);
    } else if (const uint64_t starts = pointer(kKeyStarts); starts != 0) {
      keys.resize(count);
      if (!LengthsFromStarts(ReadLengths(launch, starts, count + 1), number(layout->keys), keys))
        keys.clear();
    } else {
      keys.assign(count, static_cast<int32_t>(number(layout->keys)));
    }
    const auto possible = [](int32_t each) { return each >= 0 && each < kLargestDimension; };
    if (keys.empty() || !std::all_of(keys.begin(), keys.end(), possible)) {
      keys.assign(count, static_cast<int32_t>(std::min(most_keys, kLargestDimension)));
      work.guessed = true;
    }
    const double window = local_ ? number(kWindowLeft) + 1 : 0;
    AddSequences(queries, keys,
                 {.heads = heads,
                  .kv_heads = kv_heads,
                  .width = width,
                  .causal = causal_,
                  .window = std::max(window, 0.0)},
                 work);
    // Beside it: what is new goes into the cache, parts are added up.
    const double bytes = Bytes(precision_);
    if (pointer(layout->page_table) != 0) {
      work.beside_bytes = 4 * bytes * rows * kv_heads * width;
    }
    const double splits = SplitsOf(launch, number(kSplits), keys, kv_heads);
    if (splits > 1) work.beside_bytes += rows * heads * width * (4 * splits + 2);
    return work;
  }

 private:
  // Into how many parts keys are split. The launch says how many at most; how many it is to be is
  // found on the GPU (prepare_varlen_num_blocks): as many as fill its SMs, of which a launch of
  // this kernel has one block each, and no more than there are blocks of keys.
  static double SplitsOf(const LaunchShape& launch, double most, const std::vector<int32_t>& keys,
                         double kv_heads) {
    if (most <= 1 || most >= kLargestDimension) return 1;
    const double longest = *std::max_element(keys.begin(), keys.end());
    const double work = static_cast<double>(keys.size()) * kv_heads;
    const double filling = std::ceil(static_cast<double>(launch.blocks()) / work);
    return std::clamp(std::min(filling, std::ceil(longest / kLeastKeys)), 1.0, most);
  }

  const uint32_t offset_;
  MathPrecision precision_;
  bool causal_ = false, local_ = false;
};

// Adds up the parts of keys that were split: FlashAttnFwdCombine.
class Flash3Combine : public WorkForm {
 public:
  explicit Flash3Combine(uint32_t offset) : offset_(offset) {}

  KernelWork Of(const LaunchShape& launch) const override {
    KernelWork work;
    // Newer builds (vLLM 0.12.0's) have a flag before it.
    work.checked = At(launch, 0, work) || At(launch, 8, work);
    return work;
  }

 private:
  static constexpr double kWidest = 512;  // heads
  static constexpr double kSms = 132;     // of Hopper, for which alone it is

  bool At(const LaunchShape& launch, uint32_t shift, KernelWork& work) const {
    const auto number = [&](uint32_t at) -> double {
      return launch.At<int32_t>(offset_ + shift + at);
    };
    const double rows = number(0x8), width = number(0xc), splits = number(0x10),
                 heads = number(0x14);
    for (const double size : {rows, width, splits, heads}) {
      if (size < 1 || size >= kLargestDimension) return false;
    }
    if (width > kWidest) return false;
    // As many parts as there is room for in a captured graph; of how many sequences, whose parts
    // fill the GPU, it has no word: of as many as rows at most.
    const double filling = std::ceil(kSms / rows);
    work.bytes = rows * width * heads * (4 * std::min(splits, filling) + 2);
    return true;
  }

  const uint32_t offset_;
};

// Plans the tiles of sequences: prepare_varlen_num_blocks. Four lists of numbers.
class Flash3Plan : public WorkForm {
 public:
  explicit Flash3Plan(uint32_t batch) : batch_(batch) {}

  KernelWork Of(const LaunchShape& launch) const override {
    KernelWork work;
    const double batch = launch.At<int32_t>(batch_);
    work.checked = batch >= 1 && batch < kLargestDimension;
    work.bytes = 16 * batch;
    return work;
  }

 private:
  const uint32_t batch_;
};

}  // namespace

FoundForm FindFlash3(const KernelFacts& kernel) {
  const std::string_view symbol = kernel.symbol;
  if (Has(symbol, "FlashAttnFwdCombine") && kernel.parameter_bytes >= 0x18) {
    return {WorkFamily::kAttention, std::make_shared<Flash3Combine>(kernel.Offset(0))};
  }
  if (Has(symbol, "prepare_varlen_num_blocks_kernel") && kernel.parameter_bytes == 129) {
    return {WorkFamily::kOther, std::make_shared<Flash3Plan>(0x40)};
  }
  // Of other builds the struct has another size, and its fields lie elsewhere.
  if (Has(symbol, "FlashAttnFwdSm90") && kernel.parameters.size() == 1 &&
      kernel.parameters[0].size == kBytes) {
    return {WorkFamily::kAttention, std::make_shared<Flash3Forward>(symbol, kernel.Offset(0))};
  }
  return {};
}

}  // namespace phantora
