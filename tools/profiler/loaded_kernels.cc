#include "tools/profiler/loaded_kernels.h"

#include <algorithm>

namespace phantora {
namespace {

constexpr unsigned kMostPortableCluster = 8;

// NOLINTNEXTLINE(cppcoreguidelines-macro-usage): returns from the caller.
#define RETURN_IF_ERROR(expression) \
  if (absl::Status status_ = (expression); !status_.ok()) return status_

}  // namespace

absl::Status LoadedKernels::Load(uint64_t image, const std::vector<uint8_t>& cubin) {
  if (modules_.contains(image)) return absl::OkStatus();
  if (most_ > 0 && modules_.size() >= most_) {
    api_.ModuleUnload(modules_.begin()->second);
    modules_.erase(modules_.begin());
  }
  cuda::Module module = nullptr;
  RETURN_IF_ERROR(api_.Check(api_.ModuleLoadData(&module, cubin.data()), "cuModuleLoadData"));
  modules_[image] = module;
  return absl::OkStatus();
}

absl::StatusOr<cuda::Function> LoadedKernels::Find(uint64_t image,
                                                   const std::string& symbol) const {
  const auto module = modules_.find(image);
  if (module == modules_.end()) return absl::NotFoundError("its code is not known");
  cuda::Function function = nullptr;
  RETURN_IF_ERROR(api_.Check(api_.ModuleGetFunction(&function, module->second, symbol.c_str()),
                             "cuModuleGetFunction"));
  return function;
}

absl::Status LoadedKernels::Configure(cuda::Function function, const LaunchForm& form,
                                      cuda::LaunchConfig* config,
                                      cuda::LaunchAttribute* attributes) const {
  int statically = 0, most = 0, reserved = 0;
  RETURN_IF_ERROR(
      api_.Check(api_.FuncGetAttribute(&statically, cuda::kFunctionSharedBytes, function),
                 "cuFuncGetAttribute"));
  api_.DeviceGetAttribute(&most, cuda::kSharedPerBlockOptIn, device_);
  api_.DeviceGetAttribute(&reserved, cuda::kReservedSharedPerBlock, device_);
  // A launch descriptor says how much there is in all, with the system's own, and rounded up.
  const auto in_all = static_cast<int>(std::min<uint32_t>(form.shared_bytes, 1 << 24));
  const int dynamically =
      std::clamp(in_all - reserved - statically, 0, std::max(0, most - statically));
  RETURN_IF_ERROR(
      api_.Check(api_.FuncSetAttribute(function, cuda::kFunctionMaxDynamicShared, dynamically),
                 "cuFuncSetAttribute"));
  std::copy(form.grid.begin(), form.grid.end(), config->grid);
  std::copy(form.block.begin(), form.block.end(), config->block);
  config->shared_bytes = static_cast<unsigned>(dynamically);
  config->attributes = attributes;
  config->attribute_count = 0;
  const auto& cluster = form.cluster;
  if (cluster[0] > 0) {
    cuda::LaunchAttribute& of = attributes[config->attribute_count++] = {};
    of.id = cuda::LaunchAttribute::kClusterDimension;
    of.value.cluster = {cluster[0], cluster[1], cluster[2]};
    if (cluster[0] * cluster[1] * cluster[2] > kMostPortableCluster) {
      api_.FuncSetAttribute(function, cuda::kFunctionNonPortableCluster, 1);
    }
  }
  if (form.cooperative) {
    cuda::LaunchAttribute& of = attributes[config->attribute_count++] = {};
    of.id = cuda::LaunchAttribute::kCooperative;
    of.value.cooperative = 1;
  }
  return absl::OkStatus();
}

}  // namespace phantora
