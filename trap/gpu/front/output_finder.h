// Finds out what launches write that are skipped, and remembers it for others like them.
#ifndef PHANTORA_TRAP_GPU_FRONT_OUTPUT_FINDER_H_
#define PHANTORA_TRAP_GPU_FRONT_OUTPUT_FINDER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "trap/gpu/front/launch_outputs.h"
#include "trap/gpu/front/launch_reader.h"

namespace phantora {

class OutputFinder {
 public:
  // In thread instructions, of one launch.
  struct Most {
    uint64_t blocks = 200'000'000;  // some of its blocks
    uint64_t all = 50'000'000;      // all of them, instead
    uint64_t product = 20'000'000;  // of a product, whose first rows tell what there is
    uint64_t least = 100'000;       // with less credit it is not worth beginning
  };

  // All must outlive this. `is_ending` as of Executor::Run.
  OutputFinder(LaunchReader* reader, sass::Executor* executor, Most most,
               const std::function<bool()>* is_ending)
      : reader_(*reader), executor_(*executor), most_(most), is_ending_(*is_ending) {}

  // Of a launch with these parameters. Takes what it tries from `credit`; nothing is tried beyond
  // that. Valid until the next.
  const LaunchOutputs& Of(ExecutionContext& context, const NamedLaunch& launch,
                          absl::Span<const uint8_t> parameters, uint64_t& credit);

 private:
  // What launches like one write: those of one kernel with one shape, whose parameters differ in
  // nothing but pointers.
  struct Like {
    uint64_t fingerprint, code_bytes;
    std::array<uint32_t, 6> shape;
    uint64_t parameters;  // hash
    bool operator==(const Like&) const = default;
    template <typename H>
    friend H AbslHashValue(H h, const Like& like) {
      return H::combine(std::move(h), like.fingerprint, like.code_bytes, like.shape,
                        like.parameters);
    }
  };
  // Of a kernel's parameters, in bytes from the first.
  struct Kernel {
    std::vector<uint32_t> pointers;
    // Words of four bytes that its code reads, but for those of pointers; nullopt: it may read all.
    // What lies between parameters may be anything.
    std::optional<std::vector<uint32_t>> read;
    bool is_new = true;
    LaunchOutputs of_product;  // of one that it has made, if its work tells what it writes
  };

  static Like LikeOf(const NamedLaunch& launch, absl::Span<const uint8_t> parameters,
                     const Kernel& kernel);
  // Adds the pointers among the parameters to what is known of the kernel's.
  void Look(ExecutionContext& context, const NamedLaunch& launch,
            absl::Span<const uint8_t> parameters, Kernel& kernel);
  LaunchOutputs Find(ExecutionContext& context, const NamedLaunch& launch,
                     absl::Span<const uint8_t> parameters, Kernel& kernel, uint64_t& credit);
  LaunchOutputs Try(ExecutionContext& context, const NamedLaunch& launch,
                    absl::Span<const uint8_t> parameters, const KernelWork& work, uint64_t& credit);

  LaunchReader& reader_;
  sass::Executor& executor_;
  const Most most_;
  const std::function<bool()>& is_ending_;
  absl::flat_hash_map<uint64_t, Kernel> kernels_;  // by fingerprint
  absl::flat_hash_map<Like, LaunchOutputs> outputs_;
  size_t regions_ = 0;  // in outputs_
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_FRONT_OUTPUT_FINDER_H_
