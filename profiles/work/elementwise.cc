// PyTorch's kernels over the elements of tensors (TensorIterator): arithmetic, copies, random
// numbers, and indexing by tensors.
#include <algorithm>
#include <cmath>

#include "profiles/work/kernel_symbol.h"
#include "profiles/work/offset_calculator.h"
#include "profiles/work/work_form.h"

namespace phantora {
namespace {

KernelWork Elements(double count, double bytes_each) {
  KernelWork work;
  work.bytes = count * bytes_each;
  work.flops = count;
  work.checked = count >= 0;
  return work;
}

// The count is the first parameter.
double CountOf(const LaunchShape& launch, bool wide) {
  return wide ? static_cast<double>(launch.At<int64_t>(0)) : launch.At<int32_t>(0);
}

// The code says how much it moves per element.
class Contiguous : public WorkForm {
 public:
  Contiguous(double bytes_each, bool wide) : bytes_each_(bytes_each), wide_(wide) {}
  KernelWork Of(const LaunchShape& launch) const override {
    return Elements(CountOf(launch, wide_), bytes_each_);
  }

 private:
  const double bytes_each_;
  const bool wide_;
};

// As many elements per thread as PyTorch has chosen, which the grid shows; the code has so much
// traffic for all of them, in each of its paths.
class PerThread : public WorkForm {
 public:
  PerThread(double per_pass, int paths) : per_path_(per_pass / paths) {}

  KernelWork Of(const LaunchShape& launch) const override {
    const double count = CountOf(launch, false);
    for (const double elements : {1, 2, 4, 8, 16, 32}) {
      if (std::ceil(count / (elements * launch.block[0])) == launch.grid[0]) {
        // What a single block does is too little to matter.
        return Elements(count, per_path_ / (launch.grid[0] == 1 ? kUsually : elements));
      }
    }
    KernelWork work = Elements(count, per_path_ / kUsually);
    work.checked = false;
    return work;
  }

 private:
  static constexpr double kUsually = 4;
  const double per_path_;
};

// Types are converted on the way, and LoadWithCast<inputs> and StoreWithCast<1> say their
// sizes: a byte per type, then a word per size (ATen/native/cuda/MemoryAccess.cuh).
class Converting : public WorkForm {
 public:
  Converting(uint32_t load_at, uint32_t inputs, uint32_t store_at)
      : load_at_(load_at), inputs_(inputs), store_at_(store_at) {}

  KernelWork Of(const LaunchShape& launch) const override {
    double bytes = SizeAt(launch, store_at_ + 4);
    const uint32_t sizes_at = load_at_ + (inputs_ + 3) / 4 * 4;
    for (uint32_t i = 0; i < inputs_; ++i) bytes += SizeAt(launch, sizes_at + 4 * i);
    return Elements(CountOf(launch, false), bytes);
  }

 private:
  static double SizeAt(const LaunchShape& launch, uint32_t at) {
    return std::clamp<double>(launch.At<uint32_t>(at), 1, 16);
  }
  const uint32_t load_at_, inputs_, store_at_;
};

// Tensors of any strides. Its one other parameter, at 8, begins with the calculator.
class Strided : public WorkForm {
 public:
  // `fallback`: bytes per element if there is no calculator after all.
  Strided(int tensors, double fallback) : tensors_(tensors), fallback_(fallback) {}

  KernelWork Of(const LaunchShape& launch) const override {
    const double count = CountOf(launch, false);
    OffsetCalculator calculator;
    if (!calculator.Read(launch, 8, tensors_, count)) {
      KernelWork work = Elements(count, fallback_);
      work.guessed = true;
      return work;
    }
    KernelWork work = Elements(count, 0);
    for (int i = 0; i < tensors_; ++i) {
      const auto& tensor = calculator.tensor[static_cast<size_t>(i)];
      work.bytes += tensor.elements * tensor.bytes_each;
    }
    return work;
  }

 private:
  const int tensors_;
  const double fallback_;
};

// Elements of one tensor go where indices say, or come from there.
class Indexed : public WorkForm {
 public:
  Indexed(int tensors, bool wide) : tensors_(tensors), wide_(wide) {}

  KernelWork Of(const LaunchShape& launch) const override {
    const double count = CountOf(launch, wide_);
    OffsetCalculator calculator;
    if (!calculator.Read(launch, 8, tensors_, count)) {
      KernelWork work = Elements(count, 16);
      work.guessed = true;
      return work;
    }
    const auto& tensor = calculator.tensor;
    // The dimension that is indexed has no stride of its own in one of the first two.
    double bytes_each = 0;
    for (int i = 0; i < std::min(tensors_, 2); ++i) {
      const double own = tensor[static_cast<size_t>(i)].bytes_each;
      if (own > 0 && own <= 16) bytes_each = bytes_each == 0 ? own : std::min(own, bytes_each);
    }
    KernelWork work = Elements(count, 2 * (bytes_each == 0 ? 4 : bytes_each));
    if (tensors_ > 2) work.bytes += tensor[2].elements * sizeof(int64_t);
    return work;
  }

 private:
  const int tensors_;
  const bool wide_;
};

// How many tensors a lambda of this size goes through: behind the calculator come their
// addresses, and a functor that is smaller than another calculator row would be.
int TensorsOf(uint32_t lambda_bytes) {
  int tensors = 0;
  for (uint32_t n = 1; n <= OffsetCalculator::kMostTensors; ++n) {
    if ((OffsetCalculator::Bytes(n) + 7) / 8 * 8 + 8 * n <= lambda_bytes) {
      tensors = static_cast<int>(n);
    }
  }
  return tensors;
}

uint32_t SizeOf(const KernelFacts& kernel, size_t ordinal) {
  return ordinal < kernel.parameters.size() ? kernel.parameters[ordinal].size : 0;
}

}  // namespace

FoundForm FindElementwise(const KernelFacts& kernel) {
  const std::string_view symbol = kernel.symbol;
  const double per_pass = kernel.code->loaded + kernel.code->stored;
  if (Has(symbol, "vectorized_elementwise_kernel")) {
    // A path of vectors and one of single elements.
    return {WorkFamily::kElementwise, std::make_shared<PerThread>(per_pass, 2)};
  }
  if (symbol.substr(0, 2) != "_Z" && Has(symbol, "_vectorized") && Has(symbol, "_kernel")) {
    // What PyTorch compiles at run time (jiterator), likewise.
    return {WorkFamily::kElementwise, std::make_shared<PerThread>(per_pass, 2)};
  }
  if (Has(symbol, "unrolled_elementwise_kernel")) {
    const int inputs = LiteralAfter(symbol, "LoadWithCastI", 0);
    if (inputs >= 1 && inputs <= OffsetCalculator::kMostTensors && kernel.parameters.size() == 7) {
      return {WorkFamily::kElementwise,
              std::make_shared<Converting>(kernel.Offset(5), static_cast<uint32_t>(inputs),
                                           kernel.Offset(6))};
    }
    return {WorkFamily::kElementwise, std::make_shared<PerThread>(per_pass, 1)};
  }
  if (Has(symbol, "index_elementwise_kernelI")) {
    const int tensors = Has(symbol, "flip_kernel") ? 2 : 3;
    return {WorkFamily::kIndex, std::make_shared<Indexed>(tensors, SizeOf(kernel, 0) == 8)};
  }
  if (Has(symbol, "_scatter_gather_elementwise_kernel")) {
    return {WorkFamily::kIndex, std::make_shared<Indexed>(3, SizeOf(kernel, 0) == 8)};
  }
  if (Has(symbol, "18elementwise_kernelILi128ELi")) {
    const int tensors = TensorsOf(SizeOf(kernel, 1));
    const double unroll = std::max(1, LiteralAfter(symbol, "elementwise_kernelILi128E", 1));
    return {WorkFamily::kElementwise, std::make_shared<Strided>(tensors, per_pass / unroll)};
  }
  if (Has(symbol, "elementwise_kernel_with_index")) {
    return {WorkFamily::kElementwise,
            std::make_shared<Contiguous>(kernel.code->stored, SizeOf(kernel, 0) == 8)};
  }
  if (Has(symbol, "distribution_elementwise_grid_stride_kernel")) {
    // <accumulator, unroll, ...>
    const double unroll = std::max(1, LiteralAfter(symbol, "grid_stride_kernelIf", 4));
    return {WorkFamily::kElementwise,
            std::make_shared<Contiguous>(kernel.code->stored / unroll, SizeOf(kernel, 0) == 8)};
  }
  return {};
}

}  // namespace phantora
