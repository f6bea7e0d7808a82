#include "trap/gpu/products/blas.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <optional>

namespace phantora {
namespace {

constexpr char kLibrary[] = "libopenblas.so.0", kThreads[] = "OPENBLAS_NUM_THREADS";
// CBLAS_ORDER, CBLAS_TRANSPOSE.
constexpr int kByColumns = 102, kAsItIs = 111, kTransposed = 112;

template <typename Function>
Function* Find(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

template <typename T, typename Gemm>
void Call(Gemm gemm, int64_t x, int64_t y, int64_t depth, const T* a, FactorLayout a_layout,
          const T* b, FactorLayout b_layout, T* results) {
  // Columns are what lies in one piece. A(x, depth) has its own side there unless it lies by depth;
  // B is wanted as (depth, y).
  gemm(kByColumns, a_layout.by_depth ? kTransposed : kAsItIs,
       b_layout.by_depth ? kAsItIs : kTransposed, static_cast<int>(x), static_cast<int>(y),
       static_cast<int>(depth), T{1}, a, static_cast<int>(a_layout.distance), b,
       static_cast<int>(b_layout.distance), T{0}, results, static_cast<int>(x));
}

}  // namespace

std::unique_ptr<Blas> Blas::Load(std::string& why) {
  // It would make threads of its own as it is loaded; here it has those that call it.
  const char* const before = getenv(kThreads);
  const std::optional<std::string> kept = before == nullptr ? std::nullopt : std::optional(before);
  setenv(kThreads, "1", 1);
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (kept) {
    setenv(kThreads, kept->c_str(), 1);
  } else {
    unsetenv(kThreads);
  }
  if (library == nullptr) {
    why = dlerror();
    return nullptr;
  }
  std::unique_ptr<Blas> blas(new Blas);
  blas->floats_ = reinterpret_cast<Gemm<float>>(dlsym(library, "cblas_sgemm"));
  blas->doubles_ = reinterpret_cast<Gemm<double>>(dlsym(library, "cblas_dgemm"));
  if (blas->floats_ == nullptr || blas->doubles_ == nullptr) {
    why = std::string(kLibrary) + " has no cblas_sgemm and cblas_dgemm";
    return nullptr;
  }
  if (auto* const set = Find<void(int)>(library, "openblas_set_num_threads")) set(1);
  if (auto* const config = Find<char*()>(library, "openblas_get_config")) blas->name_ = config();
  return blas;
}

void Blas::Multiply(int64_t x, int64_t y, int64_t depth, const float* a, FactorLayout a_layout,
                    const float* b, FactorLayout b_layout, float* results) const {
  Call(floats_, x, y, depth, a, a_layout, b, b_layout, results);
}
void Blas::Multiply(int64_t x, int64_t y, int64_t depth, const double* a, FactorLayout a_layout,
                    const double* b, FactorLayout b_layout, double* results) const {
  Call(doubles_, x, y, depth, a, a_layout, b, b_layout, results);
}

}  // namespace phantora
