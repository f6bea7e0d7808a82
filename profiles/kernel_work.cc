#include "profiles/kernel_work.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <string>
#include <utility>

namespace phantora {
namespace {

constexpr uint64_t kMostParameterBytes = 4096;
constexpr double kLargestDimension = 1 << 28;

bool Has(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

// Bytes of the element type that follows `after` in a mangled name ("f", "N3c108BFloat16E").
double ElementBytes(std::string_view symbol, std::string_view after) {
  const size_t at = symbol.find(after);
  if (at == symbol.npos) return 4;
  const std::string_view rest = symbol.substr(at + after.size(), 24);
  if (rest.empty()) return 4;
  switch (rest[0]) {
    case 'd':
    case 'l':
    case 'm':
      return 8;
    case 'h':
    case 'a':
    case 'b':
      return 1;
    case 's':
    case 't':
      return 2;
    case 'N':
    case '1':
    case '6':
      return Has(rest, "BFloat16") || Has(rest, "Half") || Has(rest, "half") ? 2
             : Has(rest, "Float8")                                           ? 1
                                                                             : 4;
    default:
      return 4;
  }
}

// The first "<a>x<b>" in the name, as cuBLAS and CUTLASS name their tiles.
bool FindTile(std::string_view name, std::string_view after, uint32_t* m, uint32_t* n) {
  size_t at = after.empty() ? 0 : name.find(after);
  for (at = at == name.npos ? 0 : at + after.size(); at < name.size(); ++at) {
    const auto digits = [&](size_t from) {
      size_t end = from;
      while (end < name.size() && std::isdigit(static_cast<unsigned char>(name[end])) != 0) ++end;
      return end - from <= 4 ? end : from;
    };
    const size_t first = digits(at);
    if (first == at || first + 1 >= name.size() || name[first] != 'x') {
      at = std::max(at, first);
      continue;
    }
    const size_t second = digits(first + 1);
    if (second == first + 1) continue;
    *m = static_cast<uint32_t>(std::stoul(std::string(name.substr(at, first - at))));
    *n = static_cast<uint32_t>(std::stoul(std::string(name.substr(first + 1, second - first - 1))));
    return *m >= 8 && *n >= 8;
  }
  return false;
}

MathPrecision PrecisionOf(std::string_view name) {
  if (Has(name, "e4m3") || Has(name, "e5m2")) return MathPrecision::kFp8;
  if (Has(name, "f64f64") || Has(name, "dgemm") || Has(name, "d884")) return MathPrecision::kFp64;
  if (Has(name, "bf16")) return MathPrecision::kBf16;
  if (Has(name, "f16f16") || Has(name, "f16_s16816") || Has(name, "h16816") || Has(name, "hgemm") ||
      Has(name, "fp16")) {
    return MathPrecision::kFp16;
  }
  if (Has(name, "tf32") || Has(name, "s1688")) return MathPrecision::kTf32;
  return MathPrecision::kFp32;
}

double Bytes(MathPrecision precision) {
  switch (precision) {
    case MathPrecision::kFp64:
      return 8;
    case MathPrecision::kFp32:
    case MathPrecision::kTf32:
      return 4;
    case MathPrecision::kFp16:
    case MathPrecision::kBf16:
      return 2;
    case MathPrecision::kFp8:
      return 1;
  }
  return 4;
}

}  // namespace

// Where a family keeps its problem's size, in bytes from the first parameter. Seen in the
// launches of cuBLAS 12.4 and PyTorch 2.6 for products of known size.
struct WorkRule::GemmLayout {
  std::string_view pattern;     // in the symbol
  uint32_t least, most;         // bytes of parameters
  uint32_t m, n, k;             // i32
  uint32_t batch;               // i32; 0: the grid's z
  uint32_t mode;                // i32, of CUTLASS (GemmUniversalMode): below 2, no batch
  uint32_t split;               // i32, the part of k that a block does; 0: all of it
  bool persistent;              // its grid says nothing about its size
  std::string_view tile_after;  // what the tile follows in the name
};
const WorkRule::GemmLayout WorkRule::kGemmLayouts[] = {
    {"xmma_gemm", 2000, 4096, 0x40, 0x44, 0x48, 0xa8, 0, 0, true, "tilesize"},
    {"xmma_gemm", 600, 1999, 0x9c, 0xa0, 0xa4, 0x268, 0, 0, false, "tilesize"},
    {"xmma_gemm", 400, 599, 0x68, 0x6c, 0x70, 0, 0, 0, false, "tilesize"},
    {"ampere_", 160, 240, 0x68, 0x6c, 0x70, 0, 0, 0x80, false, "gemm_"},
    {"cutlass7Kernel2", 300, 700, 0x0, 0x4, 0x8, 0x20, 0x1c, 0, false, "gemm_"},
};

// i32 each, in bytes from the first parameter: Flash_fwd_params of FlashAttention 2, the
// parameters of PyTorch's memory-efficient attention.
struct WorkRule::AttentionLayout {
  uint32_t heads, batch, queries, keys, width;
};
const WorkRule::AttentionLayout WorkRule::kFlash = {0x60, 0xb0, 0xb4, 0xb8, 0xc0};
const WorkRule::AttentionLayout WorkRule::kEfficientForward = {0xc4, 0xc0, 0x68, 0x6c, 0x60};
const WorkRule::AttentionLayout WorkRule::kEfficientBackward = {0xa0, 0x158, 0x98, 0x9c, 0x90};

const char* Name(WorkFamily family) {
  switch (family) {
    case WorkFamily::kUnknown:
      return "unknown";
    case WorkFamily::kGemm:
      return "gemm";
    case WorkFamily::kAttention:
      return "attention";
    case WorkFamily::kElementwise:
      return "elementwise";
    case WorkFamily::kReduction:
      return "reduction";
    case WorkFamily::kRows:
      return "rows";
    case WorkFamily::kOptimizer:
      return "optimizer";
    case WorkFamily::kOther:
      return "other";
  }
  return "";
}

CodeTraffic TrafficOf(absl::Span<const uint8_t> code) {
  constexpr uint32_t kWidths[8] = {1, 1, 2, 2, 4, 8, 16, 16};
  CodeTraffic traffic;
  for (size_t at = 0; at + 16 <= code.size(); at += 16) {
    const uint32_t opcode = (code[at] | code[at + 1] << 8) & 0x1ff;
    const uint32_t width = kWidths[code[at + 9] >> 1 & 7];
    if (opcode == 0x181) traffic.loaded += width;
    if (opcode == 0x186) traffic.stored += width;
  }
  return traffic;
}

WorkRule::WorkRule(std::string_view symbol, absl::Span<const CubinKernel::Parameter> parameters,
                   CodeTraffic traffic) {
  for (const auto& parameter : parameters) {
    parameter_bytes_ =
        std::max(parameter_bytes_, uint32_t{parameter.offset} + uint32_t{parameter.size});
  }
  parameter_bytes_ = std::min<uint32_t>(parameter_bytes_, kMostParameterBytes);
  Choose(symbol, parameters, traffic);
}

void WorkRule::ChooseGemm(std::string_view symbol, const GemmLayout& layout) {
  family_ = WorkFamily::kGemm;
  form_ = Form::kGemm;
  gemm_ = &layout;
  precision_ = PrecisionOf(symbol);
  if (!FindTile(symbol, layout.tile_after, &tile_m_, &tile_n_)) tile_m_ = tile_n_ = 0;
}

void WorkRule::ChooseAttention(const AttentionLayout& layout, bool backward) {
  family_ = WorkFamily::kAttention, form_ = Form::kAttention;
  attention_ = &layout;
  backward_ = backward;
  scale_ = backward ? 10 : 4;  // two products forwards, five backwards
}

void WorkRule::ChooseMultiTensor(std::string_view symbol) {
  // TensorListMetadata<depth>: how many tensors of each list fit the parameters, and what
  // lies before the chunk table (ATen/native/cuda/MultiTensorApply.cuh).
  constexpr std::array<uint32_t, 5> kTensors = {110, 64, 48, 36, 30},
                                    kWithScalars = {96, 64, 48, 36, 30};
  const size_t at = symbol.find("MetadataI");
  size_t digit = at == symbol.npos ? at : symbol.find("Li", at);
  if (digit == symbol.npos || digit + 2 >= symbol.size()) return;
  const int depth = symbol[digit + 2] - '0';
  if (depth < 1 || depth > 5) return;
  const bool scalars = Has(symbol, "ScalarListMetadata"),
             optimizer = Has(symbol, "FusedOptimizerTensorListMetadata");
  form_ = Form::kMultiTensor;
  family_ = WorkFamily::kOptimizer;
  lists_ = static_cast<uint32_t>(depth);
  tensors_ = (scalars ? kWithScalars : kTensors)[static_cast<size_t>(depth - 1)];
  blocks_at_ = lists_ * tensors_ * 8 + tensors_ * 8 + (scalars ? tensors_ * 4 : 0) +
               (optimizer ? tensors_ * 8 : 0);
  // A fused optimizer reads parameter, gradient and its state, and writes all but the
  // gradient; another functor reads its lists and writes one.
  const double moved = optimizer ? 2.0 * depth - 1 : Has(symbol, "LpNorm") ? 1 : depth + 1;
  scale_ = moved * ElementBytes(symbol, "FunctorI");
}

void WorkRule::Choose(std::string_view symbol, absl::Span<const CubinKernel::Parameter> parameters,
                      CodeTraffic traffic) {
  const double per_pass = traffic.loaded + traffic.stored;
  const auto offset = [&](size_t ordinal) -> uint32_t {
    return ordinal < parameters.size() ? parameters[ordinal].offset : 0;
  };
  const auto counted = [&](WorkFamily family, double bytes, uint32_t at, bool wide) {
    family_ = family, form_ = Form::kCount, scale_ = bytes, at_ = at, wide_ = wide;
  };
  const auto rows = [&](double bytes, uint32_t at, bool wide) {
    family_ = WorkFamily::kRows, form_ = Form::kRowsByGrid, scale_ = bytes, at_ = at, wide_ = wide;
  };
  // The names that contain others come first.
  if (Has(symbol, "splitKreduce_kernel")) {
    family_ = WorkFamily::kOther, form_ = Form::kSplitK;
    scale_ = Has(symbol, "bfloat16") || Has(symbol, "half") ? 2 : 4;
  } else if (Has(symbol, "flash_fwd_kernel") || Has(symbol, "flash_bwd_dq_dk_dv")) {
    ChooseAttention(kFlash, Has(symbol, "flash_bwd"));
    precision_ = Has(symbol, "bfloat16") ? MathPrecision::kBf16 : MathPrecision::kFp16;
    // <Flash_*_traits<...>, Is_dropout, Is_causal, ...>: "...EELb0ELb1E...". Half of the
    // products are left out then.
    const size_t traits = symbol.find("EELb");
    if (traits != symbol.npos && traits + 10 <= symbol.size() &&
        symbol.substr(traits + 6, 4) == "Lb1E") {
      scale_ /= 2;
    }
  } else if (Has(symbol, "fmha_cutlassF") || Has(symbol, "fmha_cutlassB")) {
    const bool backward = Has(symbol, "fmha_cutlassB");
    ChooseAttention(backward ? kEfficientBackward : kEfficientForward, backward);
    precision_ = Has(symbol, "_bf16")  ? MathPrecision::kBf16
                 : Has(symbol, "_f16") ? MathPrecision::kFp16
                                       : MathPrecision::kFp32;
  } else if (Has(symbol, "flash_bwd_dot_do_o") || Has(symbol, "flash_bwd_convert_dq")) {
    ChooseAttention(kFlash, true);
    form_ = Form::kAttentionPass;
    scale_ = Has(symbol, "convert_dq") ? 6 : 4;  // fp32 to 16 bits; two times 16 bits
  } else if (Has(symbol, "multi_tensor_apply_kernel")) {
    ChooseMultiTensor(symbol);
  } else if (Has(symbol, "vectorized_elementwise_kernel")) {
    // A path of vectors and one of single elements, four elements each.
    counted(WorkFamily::kElementwise, per_pass / 8, 0, false);
  } else if (Has(symbol, "unrolled_elementwise_kernel")) {
    counted(WorkFamily::kElementwise, per_pass / 4, 0, false);
    // With casts, code for every type is there: two or three elements of 4 bytes, about.
    if (Has(symbol, "LoadWithCast")) scale_ = Has(symbol, "LoadWithCastILi2E") ? 10 : 6;
  } else if (Has(symbol, "18elementwise_kernelILi128ELi")) {
    const size_t unroll = symbol.find("18elementwise_kernelILi128ELi") + 29;
    const double elements = unroll < symbol.size() ? symbol[unroll] - '0' : 1;
    counted(WorkFamily::kElementwise, per_pass / std::max(1.0, elements), 0, false);
  } else if (Has(symbol, "distribution_elementwise_grid_stride_kernel")) {
    counted(WorkFamily::kElementwise, 4, 0, true);
  } else if (Has(symbol, "13reduce_kernelI")) {
    family_ = WorkFamily::kReduction, form_ = Form::kReduce;
    scale_ = ElementBytes(symbol, "ReduceOpI");
  } else if (Has(symbol, "vectorized_layer_norm_kernel")) {
    rows(2 * ElementBytes(symbol, "vectorized_layer_norm_kernelI"), 0, false);
  } else if (Has(symbol, "layer_norm_grad_input")) {
    rows(3 * ElementBytes(symbol, "vectorizedI"), offset(parameters.size() - 1), false);
  } else if (Has(symbol, "GammaBetaBackward")) {
    family_ = WorkFamily::kRows, form_ = Form::kMatrix, scale_ = 8;
  } else if (Has(symbol, "19compute_grad_weightI")) {
    // The gradient of an embedding: every row is read once.
    family_ = WorkFamily::kOther, form_ = Form::kMatrix, at_ = offset(3);
    scale_ = ElementBytes(symbol, "compute_grad_weightI");
  } else if (Has(symbol, "cunn_SoftMaxForward")) {
    rows(2 * (Has(symbol, "BFloat16") || Has(symbol, "Half") ? 2.0 : 4.0), offset(2), false);
  } else if (Has(symbol, "cunn_SoftMaxBackward")) {
    rows(3 * (Has(symbol, "BFloat16") || Has(symbol, "Half") ? 2.0 : 4.0), offset(3), true);
  } else {
    for (const GemmLayout& layout : kGemmLayouts) {
      const bool is_gemm = Has(symbol, "gemm") && !Has(symbol, "split_k_kernel");
      if (is_gemm && Has(symbol, layout.pattern) && parameter_bytes_ >= layout.least &&
          parameter_bytes_ <= layout.most) {
        ChooseGemm(symbol, layout);
        return;
      }
    }
    scale_ = per_pass;
  }
}

KernelWork WorkRule::Of(const LaunchShape& launch) const {
  KernelWork work;
  work.precision = precision_;
  const double count =
      wide_ ? static_cast<double>(launch.At<int64_t>(at_)) : launch.At<int32_t>(at_);
  switch (form_) {
    case Form::kStatic:
      work.bytes = scale_ * static_cast<double>(launch.threads());
      break;
    case Form::kGemm:
      return Gemm(launch);
    case Form::kSplitK: {
      const double m = launch.At<int32_t>(0xc), n = launch.At<int32_t>(8),
                   splits = launch.At<int32_t>(0x24);
      work.bytes = m * n * (splits * 4 + scale_);
      work.checked = m > 0 && n > 0 && splits > 0 && splits <= 1024;
      break;
    }
    case Form::kAttention:
    case Form::kAttentionPass:
      return Attention(launch);
    case Form::kCount:
      work.bytes = scale_ * count;
      work.flops = count;
      work.checked = count >= 0;
      break;
    case Form::kReduce:
      return Reduce(launch);
    case Form::kRowsByGrid:
      work.bytes = scale_ * count * launch.grid[0];
      work.checked = count > 0 && count < kLargestDimension;
      break;
    case Form::kMatrix:
      work.bytes = scale_ * static_cast<double>(launch.At<int64_t>(at_)) *
                   static_cast<double>(launch.At<int64_t>(at_ + 8));
      break;
    case Form::kMultiTensor:
      return MultiTensor(launch);
  }
  if (!(work.bytes >= 0)) work.checked = false;
  return work;
}

KernelWork WorkRule::Gemm(const LaunchShape& launch) const {
  KernelWork work;
  work.precision = precision_;
  const double m = launch.At<int32_t>(gemm_->m), n = launch.At<int32_t>(gemm_->n),
               k = launch.At<int32_t>(gemm_->k);
  double splits = 1;
  if (gemm_->split != 0) {
    const double part = launch.At<int32_t>(gemm_->split);
    splits = part > 0 ? std::ceil(k / part) : 0;
  }
  double batch = gemm_->batch != 0 ? launch.At<int32_t>(gemm_->batch)
                                   : std::max(1.0, std::floor(launch.grid[2] / splits));
  if (gemm_->mode != 0 && launch.At<int32_t>(gemm_->mode) < 2) batch = 1;
  batch = std::max(1.0, batch);
  const auto sane = [](double size) { return size >= 1 && size < kLargestDimension; };
  work.checked = sane(m) && sane(n) && sane(k) && splits >= 1 && sane(batch);
  if (!work.checked) return work;
  work.flops = 2 * m * n * k * batch;
  work.bytes = Bytes(precision_) * batch * (m * k + k * n + m * n);
  if (tile_m_ == 0) return work;
  // Whichever of its sides a name gives first.
  const double one = std::ceil(m / tile_m_) * std::ceil(n / tile_n_);
  const double other = std::ceil(n / tile_m_) * std::ceil(m / tile_n_);
  const double grid = static_cast<double>(launch.grid[0]) * launch.grid[1];
  work.tiles = std::abs(one - grid) <= std::abs(other - grid) ? one : other;
  // The tiles must fit the grid: otherwise the sizes are somewhere else.
  if (!gemm_->persistent && (grid < work.tiles * 0.5 || grid > work.tiles * 4 + 64)) {
    work.checked = false;
  }
  work.tiles *= batch * splits;
  return work;
}

KernelWork WorkRule::Attention(const LaunchShape& launch) const {
  KernelWork work;
  work.precision = precision_;
  work.backward = backward_;
  const AttentionLayout& at = *attention_;
  const double heads = launch.At<int32_t>(at.heads), batch = launch.At<int32_t>(at.batch),
               queries = launch.At<int32_t>(at.queries), keys = launch.At<int32_t>(at.keys),
               width = launch.At<int32_t>(at.width);
  for (const double size : {heads, batch, queries, keys, width}) {
    work.checked &= size >= 1 && size < kLargestDimension;
  }
  if (form_ == Form::kAttentionPass) {
    work.bytes = scale_ * heads * batch * queries * width;
    return work;
  }
  work.flops = scale_ * batch * heads * queries * keys * width;
  // Queries, keys, values and the result; backwards their gradients too.
  const double tensors = backward_ ? 8 : 4;
  work.bytes = tensors * Bytes(precision_) * batch * heads * std::max(queries, keys) * width;
  return work;
}

KernelWork WorkRule::Reduce(const LaunchShape& launch) const {
  // at::native::ReduceConfig lies somewhere in the parameters; it is known by its block's
  // dimensions, which are the launch's (block_width, block_height, num_threads).
  KernelWork work;
  for (uint32_t at = 4; at < 0x60; at += 4) {
    if (launch.At<uint32_t>(at + 0x2c) != launch.block[0] ||
        launch.At<uint32_t>(at + 0x30) != launch.block[1] ||
        launch.At<uint32_t>(at + 0x34) != launch.block[0] * launch.block[1]) {
      continue;
    }
    const double inputs = launch.At<int32_t>(at + 4), outputs = launch.At<int32_t>(at + 8);
    work.bytes = scale_ * inputs * outputs;
    work.flops = inputs * outputs;
    work.checked = inputs >= 1 && outputs >= 1;
    return work;
  }
  work.checked = false;
  return work;
}

KernelWork WorkRule::MultiTensor(const LaunchShape& launch) const {
  constexpr uint32_t kBlocks = 320;  // of one launch
  constexpr int64_t kChunk = 65536;  // elements
  KernelWork work;
  const uint32_t sizes_at = lists_ * tensors_ * 8;
  double elements = 0;
  for (uint32_t block = 0; block < std::min(launch.grid[0], kBlocks); ++block) {
    const uint32_t tensor = launch.At<uint8_t>(blocks_at_ + block);
    const int64_t chunk = launch.At<int32_t>(blocks_at_ + kBlocks + 4 * block);
    const auto size = static_cast<double>(launch.At<int64_t>(sizes_at + 8 * tensor));
    elements += std::clamp(size - static_cast<double>(chunk) * kChunk, 0.0, double{kChunk});
  }
  work.bytes = elements * scale_;
  work.flops = elements * lists_;
  work.checked = elements > 0;
  return work;
}

}  // namespace phantora
