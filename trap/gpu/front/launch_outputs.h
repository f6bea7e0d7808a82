// What a launch writes, as some of its blocks tell.
#ifndef PHANTORA_TRAP_GPU_FRONT_LAUNCH_OUTPUTS_H_
#define PHANTORA_TRAP_GPU_FRONT_LAUNCH_OUTPUTS_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "profiles/work/kernel_work.h"
#include "trap/gpu/sass/execute.h"
#include "uvm_model/address_space.h"

namespace phantora {

// Bytes from a pointer among the parameters on: `rows` of them, of `width` bytes, one every
// `stride`.
struct OutputRegion {
  uint32_t parameter = 0;  // where the pointer is, in bytes from the first parameter
  uint64_t begin = 0;
  uint64_t width = 0, stride = 0, rows = 1;
  // All of it is written, and nothing beyond. Otherwise it is what may be.
  bool is_exact = false;

  // Behind the last byte, from the pointer.
  uint64_t end() const { return begin + (rows - 1) * stride + width; }
  bool operator==(const OutputRegion&) const = default;
};

struct LaunchOutputs {
  // False: it may write more, nobody knows where.
  bool known = false;
  // The region of the result, if the work says how large that is; 0 bytes otherwise.
  uint64_t bytes_of_work = 0;
  MathPrecision precision = MathPrecision::kFp32;  // of the work
  // Words of four bytes among the parameters that are sizes of that region, the distance of its
  // rows among them: where, in bytes, and which size.
  std::vector<std::pair<uint32_t, uint32_t>> sizes = {};
  std::vector<OutputRegion> regions = {};

  bool operator==(const LaunchOutputs&) const = default;
};

// Where the parameters have addresses of mapped memory, in bytes, in order.
std::vector<uint32_t> PointersAmong(absl::Span<const uint8_t> parameters, AddressSpace& memory);
uint64_t PointerAt(absl::Span<const uint8_t> parameters, uint32_t at);

// What is written lies behind the pointer that is nearest below, of those in `pointers`, in
// memory without a gap. Of products and attention, whose blocks are large and take what is next in
// an order of their own, `work` says how much there is, as far as its family is known.
LaunchOutputs OutputsOf(const sass::Sample& sample, absl::Span<const uint8_t> parameters,
                        absl::Span<const uint32_t> pointers, AddressSpace& memory,
                        WorkFamily family, const KernelWork& work);

// The same of a product by the same kernel, of another size. nullopt: the work does not say how
// many bytes it has, or they are not there, or its parameters have other sizes where those of the
// other had the result's: its rows may not follow each other.
std::optional<LaunchOutputs> OutputsOfProduct(const LaunchOutputs& other,
                                              absl::Span<const uint8_t> parameters,
                                              AddressSpace& memory, const KernelWork& work);

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_FRONT_LAUNCH_OUTPUTS_H_
