// All surfaces of a GPU, each read when the first of its prices is asked for.
#ifndef PHANTORA_PROFILES_SURFACES_SURFACE_LIBRARY_H_
#define PHANTORA_PROFILES_SURFACES_SURFACE_LIBRARY_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "profiles/surfaces/attention_model.h"
#include "profiles/surfaces/experts_model.h"
#include "profiles/surfaces/fitted_surface.h"
#include "profiles/surfaces/product_model.h"
#include "profiles/work/kernel_work.h"

namespace phantora {

class SurfaceLibrary {
 public:
  // Of profiles/data/<gpu>/surfaces; nothing if there is no such folder.
  explicit SurfaceLibrary(std::string gpu) : gpu_(std::move(gpu)) {}

  // The price of work whose family and type were measured at shapes like it; nullopt: they
  // were not. Errors: a surface's file is malformed (they are compiled into the program).
  absl::StatusOr<std::optional<SurfacePrice>> Find(const KernelWork& work, WorkFamily family);

  // The surface of this name, as its file's; nullptr: there is none. Errors: as above, or it is
  // another family's.
  absl::StatusOr<const FittedSurface<ProductModel>*> Products(const std::string& name);
  absl::StatusOr<const FittedSurface<AttentionModel>*> Attention(const std::string& name);
  absl::StatusOr<const FittedSurface<ExpertsModel>*> Experts(const std::string& name);

 private:
  template <typename Model>
  using Known = std::map<std::string, std::unique_ptr<FittedSurface<Model>>>;
  template <typename Model>
  absl::StatusOr<const FittedSurface<Model>*> Load(const std::string& name, Known<Model>& known);
  absl::StatusOr<std::optional<SurfacePrice>> FindProduct(const KernelWork& work);
  absl::StatusOr<std::optional<SurfacePrice>> FindAttention(const KernelWork& work);
  absl::StatusOr<std::optional<SurfacePrice>> FindExperts(const KernelWork& work);

  const std::string gpu_;
  Known<ProductModel> products_;  // nullptr: there is none
  Known<AttentionModel> attention_;
  Known<ExpertsModel> experts_;
};

}  // namespace phantora

#endif  // PHANTORA_PROFILES_SURFACES_SURFACE_LIBRARY_H_
