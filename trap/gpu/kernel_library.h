// All code that is known from files: indices of libraries, made in the background and kept in
// the user's cache.
#ifndef PHANTORA_TRAP_GPU_KERNEL_LIBRARY_H_
#define PHANTORA_TRAP_GPU_KERNEL_LIBRARY_H_

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "profiles/kernel_index.h"
#include "trap/supervisor/unique_fd.h"
#include "trap/unknowns.h"

namespace phantora {

// Takes about 3 s of two cores for all libraries of PyTorch the first time, and 10 ms after
// that. Threads: one that asks, and one of its own.
class KernelLibrary {
 public:
  // `architecture`: 90 for sm_90. `cache`: a folder, made when it is missing; empty for none.
  KernelLibrary(int architecture, std::string cache, Unknowns* unknowns);
  ~KernelLibrary();
  KernelLibrary(const KernelLibrary&) = delete;
  KernelLibrary& operator=(const KernelLibrary&) = delete;

  // The file, if it is one with fat binaries and is not known yet, is to be indexed. Its name
  // and bytes are untrusted.
  void Want(const std::string& path);

  // In everything that was wanted, and waits for that; in what is there if that takes very
  // long.
  std::optional<IndexedKernel> Find(uint64_t prefix, const CodeReader& read);

  // Code that was found elsewhere; what is known already is left out.
  void Add(std::vector<CubinKernel> kernels);

  int architecture() const { return architecture_; }

 private:
  struct Job {
    UniqueFd file;
    uint64_t bytes;
    std::string path, cached;
  };
  void Run();
  std::optional<KernelIndex> Make(const Job& job);

  const int architecture_;
  const std::string cache_;
  Unknowns* const unknowns_;
  absl::flat_hash_set<uint64_t> added_;  // full fingerprints
  std::set<std::string> wanted_;         // keys of files

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  bool working_ = false, stopping_ = false;
  bool gave_up_ = false;  // waiting for what is still wanted
  std::vector<KernelIndex> indices_;
  std::thread thread_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_KERNEL_LIBRARY_H_
