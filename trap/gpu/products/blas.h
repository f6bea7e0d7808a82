// This machine's OpenBLAS, if it has one.
#ifndef PHANTORA_TRAP_GPU_PRODUCTS_BLAS_H_
#define PHANTORA_TRAP_GPU_PRODUCTS_BLAS_H_

#include <cstdint>
#include <memory>
#include <string>

namespace phantora {

// Of one factor: whether its numbers lie by depth, one row of them after the other.
struct FactorLayout {
  bool by_depth = false;
  int64_t distance = 0;  // of rows, in numbers
};

class Blas {
 public:
  // Loads the system's library, once and for all. nullptr: it is not there, see `why`. Changes the
  // environment for a moment: to be called while there is one thread.
  static std::unique_ptr<Blas> Load(std::string& why);

  // results[y * x_size + x] = the sum of a(x, depth) b(y, depth), by the calling thread alone. From
  // any thread. Sizes are below 2^31.
  void Multiply(int64_t x, int64_t y, int64_t depth, const float* a, FactorLayout a_layout,
                const float* b, FactorLayout b_layout, float* results) const;
  void Multiply(int64_t x, int64_t y, int64_t depth, const double* a, FactorLayout a_layout,
                const double* b, FactorLayout b_layout, double* results) const;

  // What the library says of itself.
  const std::string& name() const { return name_; }

 private:
  // CBLAS, as OpenBLAS's cblas.h declares it, with integers of four bytes.
  template <typename T>
  using Gemm = void (*)(int order, int a_transposed, int b_transposed, int m, int n, int k, T alpha,
                        const T* a, int lda, const T* b, int ldb, T beta, T* c, int ldc);

  Blas() = default;

  Gemm<float> floats_ = nullptr;
  Gemm<double> doubles_ = nullptr;
  std::string name_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_PRODUCTS_BLAS_H_
