#include "trap/gpu/kernels/kernel_namer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "profiles/kernels/kernel_title.h"

namespace phantora {
namespace {

// Kernels of one process. One that makes up programs loses what it has, which is looked up again.
constexpr size_t kMostKernels = 1 << 16;
// Of all searches of a process's memory together; one takes up to a second. Others wait.
constexpr std::chrono::seconds kMostSearching(120);
constexpr uint32_t kMostCode = 4 << 20;

}  // namespace

bool KernelNamer::WantLibraries(pid_t id, Process& process) {
  bool any = false;
  for (std::string& path : MappedLibraries(id)) {
    if (process.libraries.contains(path)) continue;
    library_->Want(path);
    process.libraries.insert(std::move(path));
    any = true;
  }
  return any;
}

void KernelNamer::Prepare(pid_t process) { WantLibraries(process, processes_[process]); }

std::shared_ptr<const KnownKernel> KernelNamer::Find(pid_t id, Process& process,
                                                     uint64_t fingerprint, const CodeReader& read) {
  auto found = library_->Find(fingerprint, read);
  if (!found && WantLibraries(id, process)) found = library_->Find(fingerprint, read);
  if (!found && process.searched < kMostSearching) {
    const auto begin = std::chrono::steady_clock::now();
    if (!process.images) process.images.emplace(id);
    process.images->Search([&](std::vector<CubinKernel> kernels, absl::Span<const uint8_t> cubin) {
      library_->Add(std::move(kernels), cubin);
      found = library_->Find(fingerprint, read);
      return found.has_value();
    });
    process.searched += std::chrono::steady_clock::now() - begin;
  } else if (!found) {
    unknowns_->Count("memory not searched for kernels", static_cast<uint64_t>(id),
                     "searching this process's memory has taken two minutes already");
  }
  auto kernel = std::make_shared<KnownKernel>();
  kernel->fingerprint = fingerprint;
  if (found) {
    const IndexedKernel& indexed = found->kernel;
    kernel->symbol = indexed.name;
    kernel->title = KernelTitle(indexed.name);
    kernel->code_bytes = indexed.code_bytes;
    kernel->parameters.assign(indexed.parameters.begin(), indexed.parameters.end());
    kernel->image = found->image;
    std::vector<uint8_t> code(std::min(kernel->code_bytes, kMostCode));
    if (!read(code.data(), code.size())) code.clear();
    kernel->rule = WorkRule(kernel->symbol, kernel->parameters, Summarise(code, parameters_at_));
    kernel->small = FindSmallKernel(kernel->symbol, kernel->parameters);
    for (const auto& parameter : kernel->parameters) {
      kernel->parameter_bytes =
          std::max<uint32_t>(kernel->parameter_bytes, parameter.offset + parameter.size);
    }
  } else {
    kernel->title = absl::StrFormat("kernel %08x", fingerprint >> 32);
    unknowns_->Count("kernel without a name", fingerprint,
                     "its code is in no library and no image in memory that was found");
  }
  return kernel;
}

std::shared_ptr<const KnownKernel> KernelNamer::Of(pid_t id, uint64_t program, uint64_t fingerprint,
                                                   const CodeReader& read) {
  Process& process = processes_[id];
  if (process.kernels.size() >= kMostKernels) process.kernels.clear();
  auto& kernel = process.kernels[{program, fingerprint}];
  if (kernel == nullptr) kernel = Find(id, process, fingerprint, read);
  return kernel;
}

}  // namespace phantora
