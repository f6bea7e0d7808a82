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
#include "trap/gpu/front/parameters_read.h"

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
  // What launches like one write: those of one kernel with one shape that read the same.
  struct Like {
    uint64_t fingerprint, code_bytes;
    GridAndBlock shape;
    uint64_t read;  // hash
    bool operator==(const Like&) const = default;
    template <typename H>
    friend H AbslHashValue(H h, const Like& like) {
      return H::combine(std::move(h), like.fingerprint, like.code_bytes, like.shape, like.read);
    }
  };
  // Of a kernel.
  struct Kernel {
    std::vector<ParametersRead> reads;  // of launches that were tried
    LaunchOutputs of_product;           // of one that it has made, if its work tells what it writes
  };

  static Like LikeOf(const NamedLaunch& launch, uint64_t read);
  // By its work's sizes alone.
  static Like LikeOf(const NamedLaunch& launch, absl::Span<const uint8_t> parameters,
                     const KernelWork& work, const Kernel& kernel);
  const LaunchOutputs* Known(const Like& like) const;
  const LaunchOutputs& Keep(const Like& like, LaunchOutputs outputs);
  // By what it reads.
  const LaunchOutputs& OfReads(ExecutionContext& context, const NamedLaunch& launch,
                               absl::Span<const uint8_t> parameters, Kernel& kernel,
                               uint64_t& credit);
  // nullopt: there is not the credit. Sets `read` to where it has read among its parameters.
  std::optional<LaunchOutputs> Find(ExecutionContext& context, const NamedLaunch& launch,
                                    absl::Span<const uint8_t> parameters, const KernelWork& work,
                                    Kernel& kernel, uint64_t& credit, ByteRanges& read);
  std::optional<LaunchOutputs> Try(ExecutionContext& context, const NamedLaunch& launch,
                                   absl::Span<const uint8_t> parameters, const KernelWork& work,
                                   uint64_t& credit, ByteRanges& read);

  LaunchReader& reader_;
  sass::Executor& executor_;
  const Most most_;
  const std::function<bool()>& is_ending_;
  absl::flat_hash_map<uint64_t, Kernel> kernels_;  // by fingerprint
  size_t read_bytes_ = 0;                          // in kernels_
  absl::flat_hash_map<Like, LaunchOutputs> outputs_;
  size_t regions_ = 0;    // in outputs_
  LaunchOutputs unkept_;  // of a launch that none is known to be like
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_FRONT_OUTPUT_FINDER_H_
