// libcuda's own copy and fill kernels. Many copies and memsets are launches of
// small kernels that libcuda carries as cubins in its data; kernels are not
// executed here, so these are recognised by their code and their effect is
// reproduced.
#ifndef PHANTORA_TRAP_GPU_KERNELS_INTERNAL_KERNELS_H_
#define PHANTORA_TRAP_GPU_KERNELS_INTERNAL_KERNELS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "trap/gpu/front/engine_object.h"
#include "trap/gpu/front/qmd.h"
#include "trap/gpu/front/transfer.h"

namespace phantora {

class InternalKernels {
 public:
  struct Kernel {
    std::string name;
    // Of its own; what lies behind them in the constant bank is left over from
    // another launch.
    uint64_t parameter_bytes;

    uint64_t code_bytes;
    std::vector<uint32_t> relocated;
    uint64_t fingerprint;
  };

  // Reads the images of `architecture` (80, 90) inside `libcuda`. `graph_node_bytes`
  // is a property of the driver version (graph_fork.h). Errors: the file is
  // unreadable, or holds no such image.
  static absl::StatusOr<InternalKernels> Load(const std::string& libcuda, int architecture,
                                              uint64_t graph_node_bytes);
  // Recognises nothing.
  InternalKernels() = default;

  // The internal kernel at `program`; nullptr if it is another's. `fingerprint` gets
  // PrefixFingerprint of the code there, or stays what it is if that cannot be read.
  const Kernel* Identify(AddressSpace& memory, uint64_t program, uint64_t& fingerprint) const;

  // Appends what `name` would write. False if nothing is known about it: it is
  // no copy or fill.
  static bool Effect(const std::string& name, const Qmd& launch,
                     absl::Span<const uint8_t> parameters, TransferQueue& transfers);

  size_t size() const { return kernels_.size(); }
  uint64_t graph_node_bytes() const { return graph_node_bytes_; }

 private:
  uint64_t graph_node_bytes_ = 0;
  std::vector<Kernel> kernels_;
  absl::flat_hash_map<uint64_t, std::vector<size_t>> by_prefix_;
};

// Parameters of the largest of these kernels, in bytes.
inline constexpr uint64_t kInternalParameterBytes = 64;

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_KERNELS_INTERNAL_KERNELS_H_
