#include "trap/gpu/kernels/internal_kernels.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "profiles/kernels/code_fingerprint.h"
#include "profiles/kernels/cubin.h"
#include "trap/linux/unique_fd.h"

namespace phantora {
namespace {

// The parameter block of one launch.
class Parameters {
 public:
  explicit Parameters(absl::Span<const uint8_t> bytes) : bytes_(bytes) {}
  uint64_t U64(size_t offset) const { return Get<uint64_t>(offset); }
  uint32_t U32(size_t offset) const { return Get<uint32_t>(offset); }

 private:
  template <typename T>
  T Get(size_t offset) const {
    T value = 0;
    if (offset + sizeof(T) <= bytes_.size()) {
      std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    }
    return value;
  }
  absl::Span<const uint8_t> bytes_;
};

std::vector<uint8_t> Pattern(uint32_t value) {
  std::vector<uint8_t> bytes(4);
  std::memcpy(bytes.data(), &value, 4);
  return bytes;
}

// Each kernel's parameters and effect, as observed by comparing API calls with
// the launches they cause and the bytes that are right. Names are those of the
// symbols in the images. `dst` and `src` are the first two parameters of all
// copies except the 3D ones.

// memset8(dst, v:4, n:8 at 0x10, pitch): one row per grid line; v is replicated.
// memset32 counts words.
void Memset(const Qmd& launch, const Parameters& p, uint64_t unit, TransferQueue& out) {
  out.Add({.destination = p.U64(0),
           .line_bytes = p.U64(0x10) * unit,
           .lines = launch.grid.y,
           .destination_stride = p.U64(0x18),
           .pattern = Pattern(p.U32(8))});
}

void Linear(uint64_t destination, uint64_t source, uint64_t bytes, TransferQueue& out) {
  out.Add({.destination = destination, .source = source, .line_bytes = bytes, .pattern = {}});
}

// memcpyDtoD2D_*(dst, src, width, height, dpitch, spitch, skew)
void Copy2D(const Parameters& p, TransferQueue& out) {
  out.Add({.destination = p.U64(0),
           .source = p.U64(8),
           .line_bytes = p.U64(0x10),
           .lines = p.U64(0x18),
           .destination_stride = p.U64(0x20),
           .source_stride = p.U64(0x28),
           .pattern = {}});
}

// memcpyDtoD3D*(dst, dpitch, dheight:4, src, spitch, sheight:4, width:4): rows
// and slices are the grid's.
void Copy3D(const Qmd& launch, const Parameters& p, TransferQueue& out) {
  const uint64_t destination_pitch = p.U64(8), source_pitch = p.U64(0x20);
  // A clustered launch could claim more slices than a grid may have.
  const uint64_t slices = std::min<uint64_t>(launch.grid.z, 65535);
  for (uint64_t slice = 0; slice < slices; ++slice) {
    out.Add({.destination = p.U64(0) + slice * p.U32(0x10) * destination_pitch,
             .source = p.U64(0x18) + slice * p.U32(0x28) * source_pitch,
             .line_bytes = p.U32(0x2c),
             .lines = launch.grid.y,
             .destination_stride = destination_pitch,
             .source_stride = source_pitch,
             .pattern = {}});
  }
}

}  // namespace

bool InternalKernels::Effect(const std::string& name, const Qmd& launch,
                             absl::Span<const uint8_t> parameters, TransferQueue& out) {
  const Parameters p(parameters);
  if (name == "memset8") {
    Memset(launch, p, 1, out);
  } else if (name == "memset32") {
    Memset(launch, p, 4, out);
  } else if (name == "memcpy_post") {
    Linear(p.U64(0), p.U64(8), p.U64(0x10), out);
  } else if (name == "memcpy32_post") {
    Linear(p.U64(0), p.U64(8), p.U64(0x10) * 4, out);
  } else if (name == "memcpy128" || name == "memcpy128_unaligned") {
    // No count: every thread copies 16 bytes.
    Linear(p.U64(0), p.U64(8), launch.grid.count() * launch.block.x * 16, out);
  } else if (name == "memcpy_pre_post") {
    // Head and tail around a middle that memcpy128 copies.
    const uint64_t head = p.U64(0x10), middle = p.U64(0x18), rest = p.U64(0x20);
    Linear(p.U64(0), p.U64(8), head, out);
    const uint64_t tail = head + middle;
    if (middle + rest > tail) {
      Linear(p.U64(0) + tail, p.U64(8) + tail, middle + rest - tail, out);
    }
  } else if (name == "memcpy_post_faster") {
    // Both pointers point behind the head.
    const uint64_t head = p.U64(0x10);
    Linear(p.U64(0) - head, p.U64(8) - head, head + p.U64(0x18) * 4 + p.U64(0x20), out);
  } else if (absl::StartsWith(name, "memcpyDtoD2D_")) {
    Copy2D(p, out);
  } else if (absl::StartsWith(name, "memcpyDtoD3D")) {
    Copy3D(launch, p, out);
  } else {
    return false;
  }
  return true;
}

absl::StatusOr<InternalKernels> InternalKernels::Load(const std::string& libcuda, int architecture,
                                                      uint64_t graph_node_bytes) {
  UniqueFd file(open(libcuda.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status;
  if (!file.valid() || fstat(file.get(), &status) != 0 || status.st_size == 0) {
    return absl::NotFoundError(absl::StrCat("cannot read ", libcuda, ": ", std::strerror(errno)));
  }
  const size_t size = status.st_size;
  void* mapped = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (mapped == MAP_FAILED) {
    return absl::InternalError(absl::StrCat("cannot map ", libcuda));
  }
  absl::Cleanup unmap = [mapped, size] { munmap(mapped, size); };
  const absl::Span<const uint8_t> data(static_cast<const uint8_t*>(mapped), size);
  InternalKernels result;
  result.graph_node_bytes_ = graph_node_bytes;
  for (uint64_t offset : FindCubins(data)) {
    std::vector<CubinKernel> found;
    if (!ReadCubin(data.subspan(offset), found)) continue;
    for (const CubinKernel& kernel : found) {
      if (kernel.architecture != architecture || kernel.code.size() < kPrefixBytes) continue;
      result.by_prefix_[PrefixFingerprint(kernel.code)].push_back(result.kernels_.size());
      uint64_t parameter_bytes = 0;
      for (const auto& parameter : kernel.parameters) {
        parameter_bytes = std::max<uint64_t>(parameter_bytes, parameter.offset + parameter.size);
      }
      result.kernels_.push_back({kernel.name, parameter_bytes, kernel.code.size(),
                                 kernel.relocated_instructions,
                                 FullFingerprint(kernel.code, kernel.relocated_instructions)});
    }
  }
  if (result.kernels_.empty()) {
    return absl::NotFoundError(absl::StrCat(libcuda, " holds no kernels for sm_", architecture));
  }
  return result;
}

const InternalKernels::Kernel* InternalKernels::Identify(AddressSpace& memory, uint64_t program,
                                                         uint64_t& fingerprint) const {
  uint8_t prefix[kPrefixBytes];
  if (memory.Read(program, prefix, sizeof prefix)) return nullptr;
  fingerprint = PrefixFingerprint(prefix);
  auto candidates = by_prefix_.find(fingerprint);
  if (candidates == by_prefix_.end()) return nullptr;
  std::vector<uint8_t> code;
  for (size_t index : candidates->second) {
    const Kernel& kernel = kernels_[index];
    code.resize(kernel.code_bytes);
    if (memory.Read(program, code.data(), code.size())) continue;
    if (FullFingerprint(code, kernel.relocated) == kernel.fingerprint) return &kernel;
  }
  return nullptr;
}

}  // namespace phantora
