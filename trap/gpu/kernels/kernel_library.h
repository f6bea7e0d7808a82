// All code that is known from files: indices of libraries, made in the background and kept in
// the user's cache.
#ifndef PHANTORA_TRAP_GPU_KERNELS_KERNEL_LIBRARY_H_
#define PHANTORA_TRAP_GPU_KERNELS_KERNEL_LIBRARY_H_

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "profiles/kernels/kernel_index.h"
#include "trap/gpu/kernels/kernel_image.h"
#include "trap/linux/unique_fd.h"
#include "trap/unknowns.h"

namespace phantora {

// Takes about 3 s of two cores for all libraries of PyTorch the first time, and 10 ms after
// that. Threads: one that asks, and one of its own.
class KernelLibrary {
 public:
  struct Options {
    int architecture;   // 90 for sm_90
    std::string cache;  // a folder, made when it is missing; empty for none
    // Found kernels say where their cubin is, which takes a descriptor for each library.
    bool keep_images = false;
  };
  KernelLibrary(Options options, Unknowns* unknowns);
  ~KernelLibrary();
  KernelLibrary(const KernelLibrary&) = delete;
  KernelLibrary& operator=(const KernelLibrary&) = delete;

  // The file, if it is one with fat binaries and is not known yet, is to be indexed. Its name
  // and bytes are untrusted.
  void Want(const std::string& path);

  // In everything that was wanted, and waits for that; in what is there if that takes very
  // long.
  struct Found {
    IndexedKernel kernel;
    std::shared_ptr<const KernelImage> image;  // if images are kept
  };
  std::optional<Found> Find(uint64_t prefix, const CodeReader& read);

  // Code that was found elsewhere, all of it in `cubin`; what is known already is left out.
  void Add(std::vector<CubinKernel> kernels, absl::Span<const uint8_t> cubin);

  int architecture() const { return options_.architecture; }

 private:
  struct Job {
    UniqueFd file;
    uint64_t bytes;
    std::string path, cached;
  };
  // An index, and where what is in it came from if images are kept.
  struct Source {
    KernelIndex index;
    std::shared_ptr<const UniqueFd> library;
    std::shared_ptr<const KernelImage> cubin;
  };
  void Run();
  std::optional<KernelIndex> Make(const Job& job);

  const Options options_;
  Unknowns* const unknowns_;
  absl::flat_hash_set<uint64_t> added_;  // full fingerprints
  std::set<std::string> wanted_;         // keys of files

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  bool working_ = false, stopping_ = false;
  bool gave_up_ = false;  // waiting for what is still wanted
  std::vector<Source> sources_;
  std::thread thread_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_KERNELS_KERNEL_LIBRARY_H_
