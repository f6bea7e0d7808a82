#include "trap/nccl/native_library.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "profiles/kernels/cubin.h"
#include "profiles/kernels/fat_binary.h"
#include "trap/gpu/kernels/process_images.h"
#include "trap/linux/unique_fd.h"

namespace phantora {
namespace {

constexpr uint64_t kLargestFile = uint64_t{4} << 30;
constexpr char kTable[] = "ncclDevFuncTable";
constexpr absl::string_view kVersion = "NCCL version ";
constexpr absl::string_view kFunctionPrefix = "ncclDevFunc_", kKernelPrefix = "ncclDevKernel_";

// By ncclDataType_t.
constexpr absl::string_view kTypes[] = {"i8",  "u8",  "i32", "u32",  "i64",    "u64",
                                        "f16", "f32", "f64", "bf16", "f8e4m3", "f8e5m2"};
constexpr absl::string_view kReductions[] = {"",       "Sum",       "Prod",
                                             "MinMax", "PreMulSum", "SumPostDiv"};
constexpr absl::string_view kAlgorithms[] = {
    "TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT"};
constexpr absl::string_view kProtocols[] = {"LL", "LL128", "SIMPLE"};
constexpr std::pair<absl::string_view, nccl::Operation> kCollectives[] = {
    {"Broadcast", nccl::Operation::kBroadcast},
    {"Reduce", nccl::Operation::kReduce},
    {"AllGather", nccl::Operation::kAllGather},
    {"ReduceScatter", nccl::Operation::kReduceScatter},
    {"AllReduce", nccl::Operation::kAllReduce}};

template <size_t kSize>
std::optional<size_t> IndexOf(const absl::string_view (&names)[kSize], absl::string_view name) {
  const auto* found = std::find(std::begin(names), std::end(names), name);
  if (found == std::end(names)) return std::nullopt;
  return static_cast<size_t>(found - std::begin(names));
}

// "NCCL version 2.21.5+cuda12.4" somewhere in the file; 0 if there is none.
int VersionIn(absl::Span<const uint8_t> file) {
  const absl::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  for (size_t at = text.find(kVersion); at != absl::string_view::npos;
       at = text.find(kVersion, at + 1)) {
    const absl::string_view rest = text.substr(at + kVersion.size(), 16);
    const absl::string_view digits =
        rest.substr(0, std::min(rest.find_first_not_of("0123456789."), rest.size()));
    const std::vector<absl::string_view> parts = absl::StrSplit(digits, '.');
    int numbers[3];
    if (parts.size() != 3 || !absl::SimpleAtoi(parts[0], &numbers[0]) ||
        !absl::SimpleAtoi(parts[1], &numbers[1]) || !absl::SimpleAtoi(parts[2], &numbers[2]) ||
        numbers[0] > 99 || numbers[1] > 99 || numbers[2] > 99) {
      continue;
    }
    return numbers[0] * 10000 + numbers[1] * 100 + numbers[2];
  }
  return 0;
}

}  // namespace

std::optional<NcclFunction> ParseNcclFunction(absl::string_view symbol) {
  for (const absl::string_view prefix : {kFunctionPrefix, kKernelPrefix}) {
    const size_t at = symbol.find(prefix);
    if (at == absl::string_view::npos) continue;
    // What follows the name are the mangled parameters: "v" of a function, and of a kernel either
    // a pointer to ncclDevComm or the block of arguments.
    absl::string_view name = symbol.substr(at + prefix.size());
    const size_t digits = symbol.find_first_of("0123456789");
    int length = 0;
    if (digits < at && absl::SimpleAtoi(symbol.substr(digits, at - digits), &length)) {
      if (length < static_cast<int>(prefix.size()) ||
          length > static_cast<int>(symbol.size() - at)) {
        return std::nullopt;
      }
      name = name.substr(0, static_cast<size_t>(length) - prefix.size());
    }
    std::vector<absl::string_view> parts = absl::StrSplit(name, '_');
    NcclFunction function;
    if (parts[0] == "SendRecv") {
      function.message = true;
      return function;
    }
    const auto* collective =
        std::find_if(std::begin(kCollectives), std::end(kCollectives),
                     [&](const auto& candidate) { return candidate.first == parts[0]; });
    if (collective == std::end(kCollectives)) return std::nullopt;
    function.operation = collective->second;
    size_t next = 1;
    if (function.operation != nccl::Operation::kBroadcast &&
        function.operation != nccl::Operation::kAllGather) {
      if (parts.size() < 3) return std::nullopt;
      const auto reduction = IndexOf(kReductions, parts[1]);
      const auto type = IndexOf(kTypes, parts[2]);
      if (!reduction || *reduction == 0 || !type) return std::nullopt;
      function.reduction = static_cast<NcclFunction::Reduction>(*reduction);
      function.type = static_cast<uint8_t>(*type);
      next = 3;
    }
    if (parts.size() < next + 2) return std::nullopt;
    const auto protocol = IndexOf(kProtocols, parts.back());
    const auto algorithm =
        IndexOf(kAlgorithms,
                absl::StrJoin(parts.begin() + static_cast<ptrdiff_t>(next), parts.end() - 1, "_"));
    if (!protocol || !algorithm) return std::nullopt;
    function.algorithm = static_cast<NcclAlgorithm>(*algorithm);
    function.protocol = static_cast<NcclProtocol>(*protocol);
    return function;
  }
  return std::nullopt;
}

bool IsNcclKernel(absl::string_view symbol) {
  // Before 2.19 they were called otherwise; from 2.27 on there are more, for symmetric memory.
  return symbol.find(kKernelPrefix) != absl::string_view::npos ||
         symbol.find("ncclKernel_") != absl::string_view::npos ||
         symbol.find("ncclSymDevKernel_") != absl::string_view::npos ||
         symbol.find("ncclSymkDevKernel_") != absl::string_view::npos;
}

std::optional<NativeNccl> ReadNativeNccl(absl::Span<const uint8_t> file, int architecture) {
  std::vector<PackedCubin> cubins = FindPackedCubins(file, architecture);
  // The table is in a small piece of its own, and again in what is linked from all pieces.
  std::stable_sort(cubins.begin(), cubins.end(), [](const PackedCubin& a, const PackedCubin& b) {
    return a.unpacked_bytes < b.unpacked_bytes;
  });
  std::vector<uint8_t> buffer;
  for (const PackedCubin& packed : cubins) {
    const auto cubin = Unpack(packed, buffer);
    if (!cubin) continue;
    const std::vector<std::string> names = ReadPointerTable(*cubin, kTable);
    if (names.empty()) continue;
    NativeNccl library;
    library.version = VersionIn(file);
    for (const std::string& name : names) library.functions.push_back(ParseNcclFunction(name));
    return library;
  }
  return std::nullopt;
}

std::shared_ptr<const NativeNccl> NativeLibraries::Read(const std::string& path) {
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status;
  if (!file.valid() || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
      static_cast<uint64_t>(status.st_size) > kLargestFile) {
    return nullptr;
  }
  const std::string key =
      absl::StrFormat("%x-%x-%x-%x.%x", status.st_dev, status.st_ino, status.st_size,
                      status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
  const auto [it, is_new] = files_.try_emplace(key);
  if (!is_new) return it->second;
  // Read rather than mapped: somebody could truncate it.
  std::vector<uint8_t> bytes(static_cast<size_t>(status.st_size));
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t got =
        pread(file.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (got <= 0) return nullptr;
    done += static_cast<size_t>(got);
  }
  if (auto library = ReadNativeNccl(bytes, architecture_)) {
    it->second = std::make_shared<const NativeNccl>(*std::move(library));
  }
  return it->second;
}

std::shared_ptr<const NativeNccl> NativeLibraries::Of(pid_t process, std::string& why) {
  if (auto it = processes_.find(process); it != processes_.end()) return it->second;
  std::shared_ptr<const NativeNccl> found;
  const std::vector<std::string> paths = MappedLibraries(process);
  // First what is called so; then everything, for a program that NCCL is linked into.
  for (const bool by_name : {true, false}) {
    for (const std::string& path : paths) {
      const size_t slash = path.rfind('/');
      if ((path.find("nccl", slash) != std::string::npos) != by_name) continue;
      const auto library = Read(path);
      if (library == nullptr) continue;
      // A program of several libraries may have the same NCCL linked into each.
      if (found != nullptr && *found != *library) {
        why = "the process has loaded two of them";
        return nullptr;
      }
      found = library;
    }
    if (found != nullptr) break;
  }
  if (found == nullptr) {
    why = "none of the process's libraries has a table of NCCL's device functions";
    return nullptr;
  }
  processes_[process] = found;
  return found;
}

}  // namespace phantora
