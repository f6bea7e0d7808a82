// Attention of FlashAttention 2, forward and backward, as flash_attn, vLLM and PyTorch have it.
#include <algorithm>
#include <vector>

#include "profiles/work/attention_sequences.h"
#include "profiles/work/kernel_symbol.h"
#include "profiles/work/work_form.h"

namespace phantora {
namespace {

// Where Flash_fwd_params, the only parameter, keeps what says the size
// (csrc/flash_attn/src/flash.h; Flash_bwd_params begins with it). Offsets from the first parameter:
// i32, and pointers of 64 bits.
constexpr uint32_t kHeads = 0x60, kKvHeads = 0x64, kBatch = 0xb0, kQueries = 0xb4, kKeys = 0xb8,
                   kWidth = 0xc0;
constexpr uint32_t kQueryStarts = 0xe0, kKeyStarts = 0xe8;
// After these, 2.6 and later have a pointer more: leftpad_k. PyTorch's own copy (2.3 to 2.8), as
// seen in its launches, has not, and takes 456 bytes.
constexpr uint32_t kUsedKeys = 0xf0, kWindowLeft = 0x17c, kBytesWithout = 456;
constexpr uint32_t kLeftPad = 8;

class Flash2Forward : public WorkForm {
 public:
  Flash2Forward(std::string_view symbol, uint32_t bytes)
      : precision_(Has(symbol, "bfloat16") ? MathPrecision::kBf16 : MathPrecision::kFp16),
        more_(bytes > kBytesWithout ? kLeftPad : 0) {
    // <Flash_*_traits<...>, Is_dropout, Is_causal, Is_local, ...>: "...EELb0ELb1E..."; the kernel
    // for split keys has no dropout, and begins with Is_causal.
    const size_t traits = symbol.find("EELb");
    const auto flag = [&](size_t at) {
      return traits != symbol.npos && HasAt(symbol, traits + 2 + 4 * at, "Lb1E");
    };
    const size_t first = Has(symbol, "splitkv") ? 0 : 1;
    local_ = flag(first + 1);
    causal_ = flag(first) || local_;
  }

  KernelWork Of(const LaunchShape& launch) const override {
    KernelWork work;
    work.precision = precision_;
    work.flash2 = true;
    const auto number = [&](uint32_t at) -> double { return launch.At<int32_t>(at); };
    double heads = number(kHeads), kv_heads = number(kKvHeads), most_queries = number(kQueries);
    const double batch = number(kBatch), most_keys = number(kKeys), width = number(kWidth);
    for (const double size : {heads, kv_heads, batch, most_queries, most_keys, width}) {
      work.checked &= size >= 1 && size < kLargestDimension;
    }
    work.checked &= heads >= kv_heads && batch < kMostSequences;
    if (!work.checked) return work;

    const auto count = static_cast<size_t>(batch);
    const auto query_starts = launch.At<uint64_t>(kQueryStarts),
               key_starts = launch.At<uint64_t>(kKeyStarts),
               used_keys = launch.At<uint64_t>(kUsedKeys + more_);
    // One query of heads that share keys comes as that many queries of one head (mha_varlen_fwd).
    if (query_starts == 0 && (key_starts != 0 || used_keys != 0) && !causal_) {
      heads *= most_queries;
      most_queries = 1;
    }
    std::vector<int32_t> queries(count, static_cast<int32_t>(most_queries)),
        keys(count, static_cast<int32_t>(most_keys));
    if (query_starts != 0 && !LengthsFromStarts(ReadLengths(launch, query_starts, count + 1),
                                                most_queries * batch, queries)) {
      work.guessed = true;
    }
    if (used_keys != 0) {
      work.guessed |= !TakeLengths(ReadLengths(launch, used_keys, count), most_keys, keys);
    } else if (key_starts != 0) {
      // Of a cache they are lengths, not where sequences begin (mha_fwd_kvcache).
      work.guessed |=
          !LengthsFromStarts(ReadLengths(launch, key_starts, count + 1), most_keys * batch, keys) &&
          !TakeLengths(ReadLengths(launch, key_starts, count), most_keys, keys);
    }
    const double window = local_ ? number(kWindowLeft + more_) + 1 : 0;
    AddSequences(queries, keys,
                 {.heads = heads,
                  .kv_heads = kv_heads,
                  .width = width,
                  .causal = causal_,
                  .window = std::max(window, 0.0)},
                 work);
    work.tiles = static_cast<double>(launch.blocks());
    // What was measured also wrote the new keys and values into a cache, and added up parts.
    double rows = 0;
    for (const int32_t each : queries) rows += each;
    work.beside_bytes = 4 * Bytes(precision_) * rows * kv_heads * width;
    const double splits =
        launch.grid[2] == batch * number(kHeads) && launch.grid[1] != batch ? launch.grid[1] : 1;
    if (splits > 1) work.beside_bytes += rows * heads * width * (4 * splits + 2);
    return work;
  }

 private:
  static bool TakeLengths(std::vector<int32_t> lengths, double most, std::vector<int32_t>& keys) {
    const auto possible = [most](int32_t each) { return each >= 0 && each <= most; };
    if (lengths.empty() || !std::all_of(lengths.begin(), lengths.end(), possible)) return false;
    keys = std::move(lengths);
    return true;
  }

  const MathPrecision precision_;
  const uint32_t more_;
  bool causal_ = false, local_ = false;
};

class Flash2Backward : public WorkForm {
 public:
  Flash2Backward(MathPrecision precision, bool causal) : precision_(precision), causal_(causal) {}

  KernelWork Of(const LaunchShape& launch) const override {
    KernelWork work;
    work.precision = precision_;
    work.backward = true;
    const double heads = launch.At<int32_t>(kHeads), batch = launch.At<int32_t>(kBatch),
                 queries = launch.At<int32_t>(kQueries), keys = launch.At<int32_t>(kKeys),
                 width = launch.At<int32_t>(kWidth);
    work.shape = {batch, heads, queries, keys, width};
    for (const double size : work.shape) work.checked &= size >= 1 && size < kLargestDimension;
    work.tiles = static_cast<double>(launch.blocks());
    // Five products; under a causal mask half of each is left out.
    work.flops = 10 * batch * heads * queries * keys * width / (causal_ ? 2 : 1);
    // Queries, keys, values and the result, and their gradients.
    work.bytes = 8 * Bytes(precision_) * batch * heads * std::max(queries, keys) * width;
    return work;
  }

 private:
  const MathPrecision precision_;
  const bool causal_;
};

// Before and after the backward kernel, over its queries, or after keys that were split.
class Flash2Pass : public WorkForm {
 public:
  explicit Flash2Pass(double bytes_each) : bytes_each_(bytes_each) {}

  KernelWork Of(const LaunchShape& launch) const override {
    KernelWork work;
    work.backward = true;
    work.bytes = bytes_each_;
    for (const uint32_t at : {kHeads, kBatch, kQueries, kWidth}) {
      const double size = launch.At<int32_t>(at);
      work.checked &= size >= 1 && size < kLargestDimension;
      work.bytes *= size;
    }
    return work;
  }

 private:
  const double bytes_each_;
};

}  // namespace

FoundForm FindFlash2(const KernelFacts& kernel) {
  const std::string_view symbol = kernel.symbol;
  if (Has(symbol, "flash_fwd_splitkv_combine")) {  // two parts of fp32 and the result, as a rule
    return {WorkFamily::kAttention, std::make_shared<Flash2Pass>(10)};
  }
  if (Has(symbol, "flash_bwd_dot_do_o") || Has(symbol, "flash_bwd_convert_dq")) {
    // fp32 to 16 bits; two times 16 bits.
    return {WorkFamily::kAttention,
            std::make_shared<Flash2Pass>(Has(symbol, "convert_dq") ? 6 : 4)};
  }
  if (Has(symbol, "flash_fwd_kernel") || Has(symbol, "flash_fwd_splitkv_kernel")) {
    return {WorkFamily::kAttention,
            std::make_shared<Flash2Forward>(symbol, kernel.parameter_bytes)};
  }
  if (Has(symbol, "flash_bwd_dq_dk_dv")) {
    const size_t traits = symbol.find("EELb");  // then Is_dropout, Is_causal
    const bool causal = traits != symbol.npos && HasAt(symbol, traits + 6, "Lb1E");
    return {WorkFamily::kAttention,
            std::make_shared<Flash2Backward>(
                Has(symbol, "bfloat16") ? MathPrecision::kBf16 : MathPrecision::kFp16, causal)};
  }
  return {};
}

}  // namespace phantora
