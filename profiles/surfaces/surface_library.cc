#include "profiles/surfaces/surface_library.h"

#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "profiles/data/embedded_surfaces.h"

namespace phantora {
namespace {

std::optional<std::string_view> Embedded(const std::string& path) {
  for (const EmbeddedFile& file : EmbeddedSurfaces()) {
    if (file.name == path) return file.content;
  }
  return std::nullopt;
}

}  // namespace

std::string SurfaceLibrary::NameFor(const KernelWork& work, WorkFamily family) {
  if (family != WorkFamily::kGemm || work.shape[0] < 1 || work.shape[1] < 1 || work.shape[2] < 1) {
    return "";
  }
  switch (work.precision) {
    case MathPrecision::kBf16:
    case MathPrecision::kFp16:  // at bf16's rate on every GPU that has both
      return "gemm_bf16";
    case MathPrecision::kFp8:
      return "gemm_fp8";
    default:
      return "";
  }
}

absl::StatusOr<const ProductSurface*> SurfaceLibrary::Products(const std::string& name) {
  const auto known = products_.find(name);
  if (known != products_.end()) return known->second.get();
  const std::string path = absl::StrCat("profiles/data/", gpu_, "/surfaces/", name);
  const auto file = Embedded(path + ".surface"), fit = Embedded(path + ".json");
  if (!file || !fit) return (products_[name] = nullptr).get();
  auto points = SurfacePoints::Parse(*file);
  if (!points.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", points.status().message()));
  }
  auto surface = ProductSurface::Create(*std::move(points), *fit);
  if (!surface.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", surface.status().message()));
  }
  return (products_[name] = *std::move(surface)).get();
}

absl::StatusOr<std::optional<SurfacePrice>> SurfaceLibrary::Find(const KernelWork& work,
                                                                 WorkFamily family) {
  const std::string name = NameFor(work, family);
  if (name.empty()) return std::nullopt;
  const auto surface = Products(name);
  if (!surface.ok()) return surface.status();
  if (*surface == nullptr) return std::nullopt;
  const double batch = work.shape[3] > 0 ? work.shape[3] : 1;
  return (*surface)->At({work.shape[0], work.shape[1], work.shape[2], batch});
}

}  // namespace phantora
