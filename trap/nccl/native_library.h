// What the libnccl that a process has loaded says about its kernels.
#ifndef PHANTORA_TRAP_NCCL_NATIVE_LIBRARY_H_
#define PHANTORA_TRAP_NCCL_NATIVE_LIBRARY_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "fabric/collectives/nccl_cost.h"
#include "fabric/library/wire.h"

namespace phantora {

// One of the functions that NCCL's kernels call, by the number in the work they are given.
struct NcclFunction {
  // ncclDevRedOp_t, what the device code distinguishes.
  enum class Reduction { kNone, kSum, kProd, kMinMax, kPreMulSum, kSumPostDiv };

  bool message = false;  // sends and receives; then the rest means nothing
  nccl::Operation operation = nccl::Operation::kAllReduce;
  Reduction reduction = Reduction::kNone;
  uint8_t type = 0;  // ncclDataType_t: the one that stands for all that are computed alike
  NcclAlgorithm algorithm = NcclAlgorithm::kRing;
  NcclProtocol protocol = NcclProtocol::kSimple;

  bool operator==(const NcclFunction&) const = default;
};

// "_Z45ncclDevFunc_AllReduce_MinMax_bf16_TREE_SIMPLEv", or the same of a kernel
// (ncclDevKernel_...). nullopt for another name, and for functions that do nothing.
//
// Source: NVIDIA/nccl src/device/generate.py, 2.19 to 2.27.
std::optional<NcclFunction> ParseNcclFunction(absl::string_view symbol);

// Is it a kernel of NCCL that does operations? Also of releases that cannot be decoded.
bool IsNcclKernel(absl::string_view symbol);

struct NativeNccl {
  int version = 0;                                     // 22105 for 2.21.5, as ncclGetVersion says
  std::vector<std::optional<NcclFunction>> functions;  // by number

  bool operator==(const NativeNccl&) const = default;
};

// From a whole libnccl, or a library with NCCL in it, for GPUs of `architecture` (90 for sm_90).
// nullopt if it has no table of functions that can be read. The bytes are untrusted.
//
// The table is the variable ncclDevFuncTable of the library's own cubin, whose relocations name
// what it points to: so a function's number means what it means in this very library.
std::optional<NativeNccl> ReadNativeNccl(absl::Span<const uint8_t> file, int architecture);

// The libraries of all processes; each file is read once, which takes half a second.
class NativeLibraries {
 public:
  explicit NativeLibraries(int architecture) : architecture_(architecture) {}

  // nullptr if the process has none, or different ones; `why` says so.
  std::shared_ptr<const NativeNccl> Of(pid_t process, std::string& why);
  void ProcessDied(pid_t process) { processes_.erase(process); }

 private:
  std::shared_ptr<const NativeNccl> Read(const std::string& path);

  const int architecture_;
  std::map<std::string, std::shared_ptr<const NativeNccl>> files_;  // by device, inode, size, time
  std::map<pid_t, std::shared_ptr<const NativeNccl>> processes_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_NCCL_NATIVE_LIBRARY_H_
