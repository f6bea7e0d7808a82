// A real GPU that works for emulated ones: the seam to who has it (tools/executor).
#ifndef PHANTORA_TRAP_GPU_REAL_REMOTE_GPU_H_
#define PHANTORA_TRAP_GPU_REAL_REMOTE_GPU_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace phantora {

class KernelImage;

struct RemoteLaunch {
  uint64_t kernel = 0;                      // as RemoteSpace::Know() said
  std::array<uint32_t, 3> grid{}, block{};  // thread blocks, threads
  std::array<uint32_t, 3> cluster{};        // thread blocks; zeros: none
  uint32_t shared_bytes = 0;                // of a block, static, dynamic and the system's
  bool cooperative = false;
  absl::Span<const uint8_t> parameters;
};

// An address space of its own on that GPU: a process that has it. All happens in the order of
// calls; all but Get and Finish may return before it has happened, and what went wrong is the
// status of a later call. After an error nothing works any more.
class RemoteSpace {
 public:
  virtual ~RemoteSpace() = default;

  // Memory comes and goes in pieces of so many bytes.
  static constexpr uint64_t kPiece = uint64_t{2} << 20;

  // May there be memory at this address, of kPiece bytes? Errors after which all works as before:
  // OUT_OF_RANGE: the driver has its own there in every process; ALREADY_EXISTS: something else of
  // that process lies there.
  virtual absl::Status Reserve(uint64_t address) = 0;
  // Memory of zeros where it may be.
  virtual absl::Status Map(uint64_t address) = 0;
  virtual absl::Status Unmap(uint64_t address) = 0;
  // A file is mapped there and the GPU reads and writes it: memory of the host. Whole pages. Errors
  // as of Reserve, and FAILED_PRECONDITION: the driver refuses.
  virtual absl::Status MapHost(uint64_t address, uint64_t bytes, int file, uint64_t offset) = 0;
  virtual absl::Status UnmapHost(uint64_t address, uint64_t bytes) = 0;
  // `fill` writes the bytes where they are to be given to it. At most kPiece.
  virtual absl::Status Put(uint64_t address, uint64_t bytes,
                           absl::FunctionRef<void(uint8_t*)> fill) = 0;
  // At most kPiece. What it returns is valid until the next call.
  virtual absl::StatusOr<absl::Span<const uint8_t>> Get(uint64_t address, uint64_t bytes) = 0;
  // The ranges do not overlap.
  virtual absl::Status Copy(uint64_t to, uint64_t from, uint64_t bytes) = 0;
  // Patterns of 1, 2 or 4 bytes, whole ones at an address that they divide.
  virtual absl::Status Fill(uint64_t address, uint64_t bytes,
                            absl::Span<const uint8_t> pattern) = 0;
  // A kernel's number there, by its cubin, which must not end before this, and its mangled name.
  // NOT_FOUND: there is no such; all else works.
  virtual absl::StatusOr<uint64_t> Know(const KernelImage& image, const std::string& symbol) = 0;
  virtual absl::Status Launch(const RemoteLaunch& launch) = 0;
  // Waits until all has happened.
  virtual absl::Status Finish() = 0;
};

class RemoteGpu {
 public:
  virtual ~RemoteGpu() = default;
  // Errors: there is no more room for one, or the GPU is gone.
  virtual absl::StatusOr<std::unique_ptr<RemoteSpace>> NewSpace() = 0;
  virtual const std::string& name() const = 0;
  // What is free of its memory, in bytes, for all spaces together.
  virtual uint64_t free_bytes() const = 0;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_REAL_REMOTE_GPU_H_
