#include "profiles/surfaces/surface_library.h"

#include <algorithm>
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

// Of surfaces' names; nullptr: there are none for it.
const char* TypeOf(MathPrecision precision) {
  switch (precision) {
    case MathPrecision::kBf16:
    case MathPrecision::kFp16:  // at bf16's rate on every GPU that has both
      return "bf16";
    case MathPrecision::kFp8:
      return "fp8";
    default:
      return nullptr;
  }
}

}  // namespace

template <typename Model>
absl::StatusOr<const FittedSurface<Model>*> SurfaceLibrary::Load(const std::string& name,
                                                                 Known<Model>& known) {
  const auto found = known.find(name);
  if (found != known.end()) return found->second.get();
  const std::string path = absl::StrCat("profiles/data/", gpu_, "/surfaces/", name);
  const auto file = Embedded(path + ".surface"), fit = Embedded(path + ".json");
  if (!file || !fit) return (known[name] = nullptr).get();
  auto points = SurfacePoints::Parse(*file);
  if (!points.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", points.status().message()));
  }
  auto surface = FittedSurface<Model>::Create(*std::move(points), *fit);
  if (!surface.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", surface.status().message()));
  }
  return (known[name] = *std::move(surface)).get();
}

absl::StatusOr<const FittedSurface<ProductModel>*> SurfaceLibrary::Products(
    const std::string& name) {
  return Load(name, products_);
}

absl::StatusOr<const FittedSurface<AttentionModel>*> SurfaceLibrary::Attention(
    const std::string& name) {
  return Load(name, attention_);
}

absl::StatusOr<const FittedSurface<ExpertsModel>*> SurfaceLibrary::Experts(
    const std::string& name) {
  return Load(name, experts_);
}

absl::StatusOr<std::optional<SurfacePrice>> SurfaceLibrary::Find(const KernelWork& work,
                                                                 WorkFamily family) {
  if (family == WorkFamily::kGemm) return FindProduct(work);
  if (family == WorkFamily::kAttention) return FindAttention(work);
  if (family == WorkFamily::kExperts) return FindExperts(work);
  return std::nullopt;
}

absl::StatusOr<std::optional<SurfacePrice>> SurfaceLibrary::FindProduct(const KernelWork& work) {
  const double m = work.shape[0], n = work.shape[1], k = work.shape[2], batch = work.shape[3];
  const char* const type = TypeOf(work.precision);
  if (type == nullptr || m < 1 || n < 1 || k < 1) return std::nullopt;
  // Batches were not measured, nor cuBLAS's products of fp8, which are quicker than CUTLASS's.
  if (batch > 1 || (work.precision == MathPrecision::kFp8 && !work.cutlass)) return std::nullopt;
  const auto surface = Products(absl::StrCat("gemm_", type));
  if (!surface.ok()) return surface.status();
  if (*surface == nullptr) return std::nullopt;
  return (*surface)->At({.rows = m, .columns = n, .depth = k});
}

absl::StatusOr<std::optional<SurfacePrice>> SurfaceLibrary::FindAttention(const KernelWork& work) {
  const auto [batch, heads, queries, keys, width] = work.shape;
  const char* const type = TypeOf(work.precision);
  if (type == nullptr || work.backward || work.kv_heads < 1 || heads < work.kv_heads || width < 1) {
    return std::nullopt;
  }
  std::optional<SurfacePrice> price;
  const auto add = [&](const char* kind, const AttentionShape& shape) -> absl::Status {
    if (shape.batch < 1 || shape.queries < 1 || shape.keys < 1) return absl::OkStatus();
    const auto surface =
        Attention(absl::StrCat(work.flash2 ? "flash2_" : "attention_", kind, "_", type));
    if (!surface.ok()) return surface.status();
    if (*surface == nullptr) return absl::OkStatus();
    const SurfacePrice part = (*surface)->At(shape);
    if (!price) {
      price = part;
      return absl::OkStatus();
    }
    // Both in one launch: it begins once.
    const double begin = std::min((*surface)->model().start_s, part.seconds / 2);
    price = {price->seconds + part.seconds - begin, std::max(price->bar, part.bar)};
    return absl::OkStatus();
  };
  AttentionShape shape = {.batch = batch,
                          .queries = queries,
                          .keys = keys,
                          .heads = heads,
                          .kv_heads = work.kv_heads,
                          .width = width,
                          .window = work.window};
  if (const auto status = add(queries > 1 ? "prompt" : "token", shape); !status.ok()) return status;
  shape.batch = work.single_queries, shape.queries = 1, shape.keys = work.single_keys;
  if (const auto status = add("token", shape); !status.ok()) return status;
  return price;
}

absl::StatusOr<std::optional<SurfacePrice>> SurfaceLibrary::FindExperts(const KernelWork& work) {
  const auto [features, rows, depth, touched, largest] = work.shape;
  const char* const type =
      work.precision == MathPrecision::kFp8 ? "fp8_block" : TypeOf(work.precision);
  if (type == nullptr || features < 1 || rows < 1 || depth < 1 || touched < 1) return std::nullopt;
  auto surface = Experts(absl::StrCat(work.tiles_of_64 ? "experts64_" : "experts_", type));
  if (surface.ok() && *surface == nullptr && work.tiles_of_64) {
    surface = Experts(absl::StrCat("experts_", type));
  }
  if (!surface.ok()) return surface.status();
  if (*surface == nullptr) return std::nullopt;
  // Layers were measured as a whole. Which of its two products this is only the layer knows: the
  // part of each if it were the first, and if it were the second.
  SurfacePrice price;
  for (const bool first : {true, false}) {
    const ExpertsShape shape = {.rows = rows,
                                .touched = touched,
                                .largest = largest,
                                .hidden = first ? depth : features,
                                .inner = first ? features / 2 : depth};
    const SurfacePrice layer = (*surface)->At(shape);
    const ExpertsModel& model = (*surface)->model();
    price.seconds +=
        0.5 * layer.seconds * model.ProductSeconds(shape, features, depth) / model.Seconds(shape);
    price.bar = std::max(price.bar, layer.bar);
  }
  return price;
}

}  // namespace phantora
