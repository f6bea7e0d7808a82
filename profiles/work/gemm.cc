// Matrix products: cuBLAS and CUTLASS.
#include <algorithm>
#include <cmath>

#include "profiles/work/kernel_symbol.h"
#include "profiles/work/work_form.h"

namespace phantora {
namespace {

// Where a family keeps its problem's size, in bytes from the first parameter. Seen in the
// launches of cuBLAS 12.1 to 12.9 and PyTorch 2.3 to 2.8 for products of known size.
struct GemmLayout {
  std::string_view pattern;     // in the symbol
  uint32_t least, most;         // bytes of parameters
  uint32_t m, n, k;             // i32
  uint32_t batch;               // i32; 0: the grid's z
  uint32_t mode;                // i32, of CUTLASS (GemmUniversalMode): below 2, no batch
  uint32_t split;               // i32, the part of k that a block does; 0: all of it
  uint32_t splits;              // i32, into how many parts k is split, if that is said instead
  bool persistent;              // its grid says nothing about its size
  std::string_view tile_after;  // what the tile follows in the name
  bool by_rows = false;         // results lie row by row, other than cuBLAS's: its m is cuBLAS's n
};
constexpr GemmLayout kGemmLayouts[] = {
    // cuBLAS 12.1; 12.4; 12.6 to 12.9, whose batch is beside the others': see kLaterBatch.
    {"xmma_gemm", 2288, 2288, 0x6ec, 0x6f0, 0x6f4, 0x8b8, 0, 0, 0, true, "tilesize", true},
    {"xmma_gemm", 2000, 4096, 0x40, 0x44, 0x48, 0xa8, 0, 0, 0, true, "tilesize", true},
    {"xmma_gemm", 600, 1999, 0x9c, 0xa0, 0xa4, 0x268, 0, 0, 0, false, "tilesize", true},
    {"xmma_gemm", 400, 599, 0x68, 0x6c, 0x70, 0, 0, 0, 0x1a0, false, "tilesize", true},
    {"ampere_", 160, 240, 0x68, 0x6c, 0x70, 0, 0, 0x80, 0, false, "gemm_"},
    // Products with a triangular or symmetric matrix, which cuBLAS takes for others too.
    {"xmma_trmm", 600, 1999, 0x9c, 0xa0, 0xa4, 0x268, 0, 0, 0, false, "tilesize"},
    {"xmma_symm", 600, 1999, 0x9c, 0xa0, 0xa4, 0x268, 0, 0, 0, false, "tilesize"},
    {"cutlass6Kernel", 336, 336, 0x0, 0x4, 0x8, 0xfc, 0xf8, 0, 0, false, "gemm_s8_", true},
    {"cutlass6Kernel", 440, 440, 0x0, 0x4, 0x8, 0x13c, 0x138, 0, 0, false, "gemm_", true},
    {"cutlass6Kernel", 344, 344, 0x0, 0x4, 0x8, 0x104, 0x100, 0, 0, false, "gemm_", true},
    {"cutlass6Kernel", 448, 448, 0x0, 0x4, 0x8, 0x144, 0x140, 0, 0, false, "gemm_", true},
    {"magma_sgemmEx_kernel", 176, 176, 0x0, 0x4, 0x8, 0, 0, 0, 0, false, ""},
    {"sgemm_largek_lds64", 96, 96, 0x18, 0x1c, 0x20, 0, 0, 0x4c, 0, true, ""},
    {"gemmSN_", 152, 152, 0x5c, 0x60, 0x64, 0, 0, 0, 0, true, ""},
    {"cutlass7Kernel2", 300, 700, 0x0, 0x4, 0x8, 0x20, 0x1c, 0, 0, false, "gemm_", true},
};

constexpr uint32_t kBatch = 0xa8, kLaterBatch = 0xac;  // of persistent xmma_gemm

class Gemm : public WorkForm {
 public:
  Gemm(std::string_view symbol, const GemmLayout& layout)
      : layout_(layout),
        precision_(PrecisionOf(symbol)),
        complex_(Has(symbol, "cf32") || Has(symbol, "cgemm")) {
    if (!FindTile(symbol, layout.tile_after, &tile_m_, &tile_n_)) tile_m_ = tile_n_ = 0;
  }

  KernelWork Of(const LaunchShape& launch) const override {
    KernelWork work;
    work.precision = precision_;
    const double m = launch.At<int32_t>(layout_.m), n = launch.At<int32_t>(layout_.n),
                 k = launch.At<int32_t>(layout_.k);
    double splits = 1;
    if (layout_.split != 0) {
      const double part = launch.At<int32_t>(layout_.split);
      splits = part > 0 ? std::ceil(k / part) : 0;
    }
    if (layout_.splits != 0) splits = std::max(1, launch.At<int32_t>(layout_.splits));
    double batch = layout_.batch != 0 ? launch.At<int32_t>(layout_.batch)
                                      : std::max(1.0, std::floor(launch.grid[2] / splits));
    if (layout_.batch == kBatch) batch = std::max(batch, 1.0 * launch.At<int32_t>(kLaterBatch));
    if (layout_.mode != 0 && launch.At<int32_t>(layout_.mode) < 2) {
      batch = 1;
      splits = launch.grid[2];  // of k
    }
    batch = std::max(1.0, batch);
    const auto sane = [](double size) { return size >= 1 && size < kLargestDimension; };
    work.checked = sane(m) && sane(n) && sane(k) && splits >= 1 && sane(batch);
    if (!work.checked) return work;
    work.shape = {layout_.by_rows ? n : m, layout_.by_rows ? m : n, k, batch};
    const double parts = complex_ ? 2 : 1;  // of a number
    work.flops = 2 * parts * parts * m * n * k * batch;
    work.bytes = parts * Bytes(precision_) * batch * (m * k + k * n + m * n);
    work.written_bytes = parts * Bytes(precision_) * batch * m * n;
    if (splits > 1) work.beside_bytes = parts * batch * m * n * (4 * splits + Bytes(precision_));
    if (tile_m_ == 0) return work;
    // Whichever of its sides a name gives first.
    const double one = std::ceil(m / tile_m_) * std::ceil(n / tile_n_);
    const double other = std::ceil(n / tile_m_) * std::ceil(m / tile_n_);
    const double grid = static_cast<double>(launch.grid[0]) * launch.grid[1];
    work.tiles = std::abs(one - grid) <= std::abs(other - grid) ? one : other;
    // The tiles must fit the grid: otherwise the sizes are somewhere else.
    if (!layout_.persistent && (grid < work.tiles * 0.5 || grid > work.tiles * 4 + 64)) {
      work.checked = false;
    }
    work.tiles *= batch * splits;
    return work;
  }

 private:
  const GemmLayout& layout_;
  const MathPrecision precision_;
  const bool complex_;
  uint32_t tile_m_ = 0, tile_n_ = 0;
};

// cuBLAS 12.6 and later on Hopper: "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NTT", of 13
// "nvjet_sm90_tst_...". Sizes less one, i32; k is where the first operand's layout, the first
// letter at the end, puts it.
class Nvjet : public WorkForm {
 public:
  explicit Nvjet(std::string_view symbol) {
    // The types of operands, sum and result: q 8 bits, h fp16, t bf16, s fp32.
    std::string_view types = symbol.substr(symbol.find("nvjet_") + 6);
    if (types.substr(0, 2) == "sm")
      types.remove_prefix(std::min(types.find('_'), types.size() - 1) + 1);
    const char type = types.empty() ? 's' : types[0];
    precision_ = type == 'q'   ? MathPrecision::kFp8
                 : type == 'h' ? MathPrecision::kFp16
                 : type == 't' ? MathPrecision::kBf16
                               : MathPrecision::kTf32;
    const size_t layout = symbol.rfind('_');
    k_at_ = layout + 1 < symbol.size() && symbol[layout + 1] == 'T' ? 0xd0 : 0xd4;
    if (!FindTile(symbol, "nvjet_", &tile_m_, &tile_n_)) tile_m_ = tile_n_ = 0;
  }

  KernelWork Of(const LaunchShape& launch) const override {
    KernelWork work;
    work.precision = precision_;
    const auto size = [&](uint32_t at) { return 1.0 + launch.At<int32_t>(at); };
    const double m = size(0x250), n = size(0x254), k = size(k_at_), batch = size(0x258);
    for (const double each : {m, n, k, batch}) {
      work.checked &= each >= 1 && each < kLargestDimension;
    }
    // The first operand's other side is m.
    work.checked &= size(k_at_ == 0xd0 ? 0xd4 : 0xd0) == m;
    work.shape = {m, n, k, batch};
    work.flops = 2 * m * n * k * batch;
    work.bytes = Bytes(precision_) * batch * (m * k + k * n + m * n);
    work.written_bytes = 2 * batch * m * n;
    if (tile_m_ > 0) work.tiles = batch * std::ceil(m / tile_m_) * std::ceil(n / tile_n_);
    return work;
  }

 private:
  MathPrecision precision_;
  uint32_t k_at_ = 0, tile_m_ = 0, tile_n_ = 0;
};

// The sum of a split-K product's parts.
class SplitKSum : public WorkForm {
 public:
  // `sizes`, `splits`: where they are.
  SplitKSum(double element_bytes, double part_bytes, uint32_t sizes, uint32_t splits)
      : element_bytes_(element_bytes), part_bytes_(part_bytes), sizes_(sizes), splits_(splits) {}

  KernelWork Of(const LaunchShape& launch) const override {
    KernelWork work;
    const double m = launch.At<int32_t>(sizes_ + 4), n = launch.At<int32_t>(sizes_),
                 splits = launch.At<int32_t>(splits_);
    work.bytes = m * n * (splits * part_bytes_ + element_bytes_);
    work.checked = m > 0 && n > 0 && splits > 0 && splits <= 1024;
    return work;
  }

 private:
  const double element_bytes_, part_bytes_;
  const uint32_t sizes_, splits_;
};

// A matrix times a vector: every element of the matrix is read once.
class MatrixVector : public WorkForm {
 public:
  explicit MatrixVector(std::string_view symbol)
      : precision_(Has(symbol, "bfloat16")                             ? MathPrecision::kBf16
                   : Has(symbol, "half")                               ? MathPrecision::kFp16
                   : Has(symbol, "BatchedIKdE") || Has(symbol, "Iiid") ? MathPrecision::kFp64
                                                                       : MathPrecision::kFp32) {}

  KernelWork Of(const LaunchShape& launch) const override {
    KernelWork work;
    work.precision = precision_;
    const double rows = launch.At<int32_t>(0x44), columns = launch.At<int32_t>(0x40),
                 batch = launch.grid[2];  // or parts of the columns
    work.checked =
        rows >= 1 && columns >= 1 && rows < kLargestDimension && columns < kLargestDimension;
    work.shape = {rows, 1, columns, batch};
    work.flops = 2 * rows * columns * batch;
    work.bytes = Bytes(precision_) * batch * (rows * columns + rows + columns);
    return work;
  }

 private:
  const MathPrecision precision_;
};

}  // namespace

FoundForm FindGemm(const KernelFacts& kernel) {
  if (Has(kernel.symbol, "splitKreduce_kernel")) {
    const bool half = Has(kernel.symbol, "bfloat16") || Has(kernel.symbol, "half");
    // Its first parameter has all of them: 56 bytes to cuBLAS 12.4 and 60 later, for doubles 64
    // and 72.
    const uint32_t bytes = kernel.parameters.empty() ? 0 : kernel.parameters[0].size;
    const bool doubles = bytes >= 64, later = bytes == 60 || bytes == 72;
    const uint32_t sizes = doubles ? 0x10 : 8, splits = sizes + (later ? 0x20 : 0x1c);
    return {WorkFamily::kOther, std::make_shared<SplitKSum>(half      ? 2
                                                            : doubles ? 8
                                                                      : 4,
                                                            doubles ? 8 : 4, sizes, splits)};
  }
  if (Has(kernel.symbol, "cublasGemvParams") && kernel.parameter_bytes >= 152) {
    return {WorkFamily::kGemm, std::make_shared<MatrixVector>(kernel.symbol)};
  }
  if (Has(kernel.symbol, "nvjet_") && kernel.parameter_bytes >= 0x25c) {
    return {WorkFamily::kGemm, std::make_shared<Nvjet>(kernel.symbol)};
  }
  // The kernel that adds up CUTLASS's parts is given the product's parameters.
  const bool product = Has(kernel.symbol, "gemm") || Has(kernel.symbol, "xmma_trmm") ||
                       Has(kernel.symbol, "xmma_symm");
  if (!product || Has(kernel.symbol, "split_k_kernel")) return {};
  for (const GemmLayout& layout : kGemmLayouts) {
    if (Has(kernel.symbol, layout.pattern) && kernel.parameter_bytes >= layout.least &&
        kernel.parameter_bytes <= layout.most) {
      return {WorkFamily::kGemm, std::make_shared<Gemm>(kernel.symbol, layout)};
    }
  }
  return {};
}

}  // namespace phantora
