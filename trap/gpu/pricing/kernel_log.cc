#include "trap/gpu/pricing/kernel_log.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "trap/gpu/front/qmd.h"
#include "trap/gpu/kernels/known_kernel.h"
#include "trap/gpu/pricing/launch_key.h"

namespace phantora {
namespace {

constexpr uint64_t kMostBytes = 256 << 20;

absl::Status Failed(const std::string& path) {
  return absl::InvalidArgumentError(
      absl::StrCat("cannot write the kernel log ", path, ": ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<KernelLog>> KernelLog::Open(const std::string& path,
                                                           std::string gpu) {
  std::unique_ptr<KernelLog> log(new KernelLog);
  log->path_ = path, log->gpu_ = std::move(gpu);
  log->file_ = std::fopen(path.c_str(), "we");
  if (log->file_ == nullptr) return Failed(path);
  return log;
}

KernelLog::~KernelLog() {
  if (file_ != nullptr) std::fclose(file_);
}

void KernelLog::Add(const KernelLaunch& launch, const Price& price) {
  const Qmd& qmd = *launch.qmd;
  const KnownKernel* kernel = launch.kernel;
  const std::string key = LaunchKey(launch, price);
  if (auto found = entries_.find(key); found != entries_.end()) {
    ++found->second.launches;
    return;
  }
  if (bytes_ > kMostBytes) {
    ++left_out_;
    return;
  }
  nlohmann::ordered_json json = {
      {"gpu", gpu_},
      {"kernel", kernel == nullptr ? "" : kernel->title},
      {"symbol", kernel == nullptr ? "" : kernel->symbol},
      {"grid", {qmd.grid.x, qmd.grid.y, qmd.grid.z}},
      {"block", {qmd.block.x, qmd.block.y, qmd.block.z}},
      {"registers", qmd.registers},
      {"shared_bytes", qmd.shared_bytes},
      {"family", Name(kernel == nullptr ? WorkFamily::kUnknown : kernel->rule.family())},
      {"flops", price.flops},
      {"bytes", price.bytes},
      {"time_us", static_cast<double>(price.time.picoseconds()) / 1e6},
      {"source", Name(price.source)},
      {"error", price.error},
  };
  if (kernel != nullptr) {
    const KernelWork work = kernel->rule.Of({.grid = {qmd.grid.x, qmd.grid.y, qmd.grid.z},
                                             .block = {qmd.block.x, qmd.block.y, qmd.block.z},
                                             .parameters = launch.parameters,
                                             .memory = launch.memory});
    json["precision"] = Name(work.precision);
    json["direction"] = work.backward ? "backward" : "forward";
    json["shape"] = work.shape;
    json["tiles"] = work.tiles;
    auto layout = nlohmann::ordered_json::array();
    for (const auto& parameter : kernel->parameters) {
      layout.push_back({parameter.offset, parameter.size});
    }
    json["layout"] = std::move(layout);  // offset and size of each parameter, bytes
    json["parameters"] = absl::BytesToHexString(absl::string_view(
        reinterpret_cast<const char*>(launch.parameters.data()), launch.parameters.size()));
  }
  // A symbol is whatever its file says.
  Entry entry = {.order = entries_.size(),
                 .launches = 1,
                 .json = json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace)};
  entry.json.pop_back();
  bytes_ += key.size() + entry.json.size();
  entries_.emplace(key, std::move(entry));
}

absl::Status KernelLog::Close() {
  std::vector<const Entry*> entries;
  for (const auto& [key, entry] : entries_) entries.push_back(&entry);
  std::sort(entries.begin(), entries.end(),
            [](const Entry* a, const Entry* b) { return a->order < b->order; });
  for (const Entry* entry : entries) {
    absl::FPrintF(file_, "%s,\"launches\":%d}\n", entry->json, entry->launches);
  }
  if (left_out_ > 0) absl::FPrintF(file_, "{\"left_out\":%d}\n", left_out_);
  const bool good = std::ferror(file_) == 0;
  return std::fclose(std::exchange(file_, nullptr)) == 0 && good ? absl::OkStatus() : Failed(path_);
}

}  // namespace phantora
