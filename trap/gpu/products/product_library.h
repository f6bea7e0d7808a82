// Computes products of matrices by a library of this machine's, where it is known what they are.
#ifndef PHANTORA_TRAP_GPU_PRODUCTS_PRODUCT_LIBRARY_H_
#define PHANTORA_TRAP_GPU_PRODUCTS_PRODUCT_LIBRARY_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "profiles/work/kernel_work.h"
#include "trap/gpu/products/blas.h"
#include "trap/gpu/products/product_form.h"
#include "trap/gpu/sass/execute.h"
#include "trap/gpu/sass/workers.h"
#include "uvm_model/address_space.h"

namespace phantora {

// The first launch of a kernel with certain parameters is watched: some of its blocks are executed,
// and what they read and write tells which matrices it multiplies, how they lie, and what is added
// (FindProductForm). Launches that find the same among their parameters, wherever their pointers
// point, do the same. Not thread-safe.
class ProductLibrary {
 public:
  // `is_ending`: as of Executor::Run.
  ProductLibrary(std::unique_ptr<Blas> blas, int processors, std::function<bool()> is_ending)
      : blas_(std::move(blas)), is_ending_(std::move(is_ending)), workers_(processors) {}

  struct Launch {
    uint32_t parameter_offset = 0;  // in bank 0 of its constants
    absl::Span<const uint8_t> parameters;
    absl::Span<const uint32_t> pointers;  // where among them, in order
    const sass::Launch& launch;
    const sass::Program& program;
    KernelWork work;  // of a product
  };
  // Whether the launch is done. False: nothing has changed, unless the run is to end. What is
  // tainted is left to who follows it.
  bool Run(const Launch& launch, sass::Executor& executor, AddressSpace& memory);
  // The last launch that was not done has been executed by its own code.
  void WasExecuted(AddressSpace& memory);

  struct Counters {
    uint64_t done = 0;
    uint64_t watched = 0;  // to find out what others are
    double flops = 0;      // multiplications and additions
  };
  const Counters& counters() const { return counters_; }
  const std::string& name() const { return blas_->name(); }
  // Why the last launch that was not done is not.
  const std::string& why() const { return why_; }

 private:
  // Among the parameters of launches of one kernel: what is read of them, and what it then does.
  struct Known {
    std::vector<std::pair<uint32_t, uint32_t>> read;  // ranges of bytes
    uint64_t hash = 0;                                // of what was there
    std::optional<ProductForm> form;
    int attempts = 0;
  };
  struct Kernel {
    std::vector<Known> known;
    int in_vain = 0;  // watched, in a row
  };
  struct Key {
    uint64_t code;  // a hash of all of it: kernels for other types differ in few bits
    std::array<uint32_t, 9> shape;
    bool operator==(const Key&) const = default;
    template <typename H>
    friend H AbslHashValue(H h, const Key& key) {
      return H::combine(std::move(h), key.code, key.shape);
    }
  };

  // nullptr: it is not known what the launch does.
  const ProductForm* FormOf(const Launch& launch, sass::Executor& executor, AddressSpace& memory);
  bool Watch(const Launch& launch, sass::Executor& executor, AddressSpace& memory,
             std::vector<sass::Watched>& watched);
  template <typename T>
  bool Multiply(const ProductForm& form, absl::Span<const uint8_t> parameters,
                AddressSpace& memory);

  // Whether the launch leaves what blocks share their work by as it was: kernels that were seen to
  // do so always do. False: not known yet, its own code has to show it.
  bool LeavesCounter(const Launch& launch, const ProductForm& form, AddressSpace& memory);

  // What a launch found there that is to show it.
  struct Shows {
    uint64_t code = 0, address = 0;
    std::array<uint8_t, ProductForm::kCounterBytes> before{};
  };

  const std::unique_ptr<Blas> blas_;
  const std::function<bool()> is_ending_;
  sass::Workers workers_;
  absl::flat_hash_map<Key, Kernel> kernels_;
  absl::flat_hash_map<uint64_t, bool> leaves_counter_;  // by code
  std::optional<Shows> shows_;
  Counters counters_;
  std::string why_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_PRODUCTS_PRODUCT_LIBRARY_H_
