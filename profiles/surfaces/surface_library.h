// All surfaces of a GPU, each read when the first of its prices is asked for.
#ifndef PHANTORA_PROFILES_SURFACES_SURFACE_LIBRARY_H_
#define PHANTORA_PROFILES_SURFACES_SURFACE_LIBRARY_H_

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "profiles/surfaces/product_surface.h"
#include "profiles/work/kernel_work.h"

namespace phantora {

class SurfaceLibrary {
 public:
  // Of profiles/data/<gpu>/surfaces; nothing if there is no such folder.
  explicit SurfaceLibrary(std::string gpu) : gpu_(std::move(gpu)) {}

  // The price of work whose family and type were measured at shapes like it; nullopt: they
  // were not. Errors: a surface's file is malformed (they are compiled into the program).
  absl::StatusOr<std::optional<SurfacePrice>> Find(const KernelWork& work, WorkFamily family);

  // The surface of this name, as its file's; nullptr: there is none. Errors: as above.
  absl::StatusOr<const ProductSurface*> Products(const std::string& name);

  // The name of the surface for such work; empty: none is for it.
  static std::string NameFor(const KernelWork& work, WorkFamily family);

 private:
  const std::string gpu_;
  std::map<std::string, std::unique_ptr<ProductSurface>> products_;  // nullptr: there is none
};

}  // namespace phantora

#endif  // PHANTORA_PROFILES_SURFACES_SURFACE_LIBRARY_H_
