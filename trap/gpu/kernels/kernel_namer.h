// The name of the kernel behind a program address.
#ifndef PHANTORA_TRAP_GPU_KERNELS_KERNEL_NAMER_H_
#define PHANTORA_TRAP_GPU_KERNELS_KERNEL_NAMER_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "trap/gpu/kernels/kernel_library.h"
#include "trap/gpu/kernels/known_kernel.h"
#include "trap/gpu/kernels/process_images.h"
#include "trap/unknowns.h"

namespace phantora {

class KernelNamer {
 public:
  // `parameters_at`: of the first kernel parameter in constant bank 0, see Qmd.
  KernelNamer(KernelLibrary* library, uint32_t parameters_at, Unknowns* unknowns)
      : library_(library), parameters_at_(parameters_at), unknowns_(unknowns) {}

  // The process is going to launch kernels: starts indexing what it has mapped.
  void Prepare(pid_t process);

  // The kernel whose code is at `program` of the process; `fingerprint` is PrefixFingerprint
  // of the code there, which tells when an address is used anew. 50 ns for one that is known;
  // the first time it is compared with all libraries that the process has mapped and, if it is
  // in none, with the images in its memory.
  std::shared_ptr<const KnownKernel> Of(pid_t process, uint64_t program, uint64_t fingerprint,
                                        const CodeReader& read);

  void ProcessDied(pid_t process) { processes_.erase(process); }

 private:
  struct Process {
    absl::flat_hash_map<std::pair<uint64_t, uint64_t>, std::shared_ptr<const KnownKernel>> kernels;
    absl::flat_hash_set<std::string> libraries;
    std::optional<ProcessImages> images;
    std::chrono::nanoseconds searched{};  // how long its memory has been
  };
  bool WantLibraries(pid_t id, Process& process);
  std::shared_ptr<const KnownKernel> Find(pid_t id, Process& process, uint64_t fingerprint,
                                          const CodeReader& read);

  KernelLibrary* const library_;
  const uint32_t parameters_at_;
  Unknowns* const unknowns_;
  absl::flat_hash_map<pid_t, Process> processes_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_KERNELS_KERNEL_NAMER_H_
