// at::native::CatArrayBatchedCopy*: torch.cat and torch.stack.
#include <algorithm>

#include "profiles/work/kernel_symbol.h"
#include "profiles/work/work_form.h"

namespace phantora {
namespace {

constexpr int kMostInputs = 1024;  // of a launch; PyTorch has 128 at most

class Concatenation : public WorkForm {
 public:
  Concatenation(double element_bytes, uint32_t at, uint32_t inputs, uint32_t index_bytes)
      : element_bytes_(element_bytes), at_(at), inputs_(inputs), index_bytes_(index_bytes) {}

  KernelWork Of(const LaunchShape& launch) const override {
    KernelWork work;
    work.checked = launch.grid[1] >= 1 && launch.grid[1] <= inputs_;
    // CatArrInputTensorMetadata: input[n], offset[n], dimSize[n], nElements[n], ...
    const uint64_t counts = at_ + uint64_t{inputs_} * (8 + 2 * index_bytes_);
    for (uint32_t i = 0; i < std::min(launch.grid[1], inputs_); ++i) {
      const uint64_t at = counts + uint64_t{i} * index_bytes_;
      const double elements =
          index_bytes_ == 8 ? static_cast<double>(launch.At<int64_t>(at)) : launch.At<uint32_t>(at);
      work.checked &= elements >= 0;
      work.bytes += 2 * element_bytes_ * elements;
    }
    return work;
  }

 private:
  const double element_bytes_;
  const uint32_t at_, inputs_, index_bytes_;
};

}  // namespace

FoundForm FindConcatenation(const KernelFacts& kernel) {
  const size_t at = kernel.symbol.find("CatArrayBatchedCopy");
  if (at == kernel.symbol.npos) return {};
  // CatArrayBatchedCopy...<T, IndexType, Dims, batch_size, stride_size>: "I<T>jLi2ELi128ELi1E".
  const size_t open = kernel.symbol.find('I', at + 20);
  if (open == kernel.symbol.npos) return {};
  const std::string_view arguments = kernel.symbol.substr(open);
  for (const char* index : {"jLi", "mLi", "lLi"}) {
    const size_t dims = arguments.find(index);
    if (dims == arguments.npos) continue;
    const size_t batch = arguments.find("ELi", dims);
    const int inputs =
        batch == arguments.npos ? 0 : LiteralAfter(arguments.substr(batch + 1), "", 0);
    if (inputs < 1 || inputs > kMostInputs) continue;
    return {WorkFamily::kLayout, std::make_shared<Concatenation>(
                                     ElementBytes(arguments, "I"), kernel.Offset(1),
                                     static_cast<uint32_t>(inputs), index[0] == 'j' ? 4 : 8)};
  }
  return {};
}

}  // namespace phantora
