// A PTX module for the tracees; the driver's own compiler turns it into code for whatever GPU there
// is. Its kernels are right on a real GPU, but no tracee looks at what they compute.
#ifndef PHANTORA_TEST_TRACEES_KERNELS_H_
#define PHANTORA_TEST_TRACEES_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "test/tracees/cuda_driver.h"

extern const char kPtx[];

// kPtx defines, as kernels:
//   vector_add(float* a, float* b, float* c, uint32_t n)    c[i] = a[i] + b[i]
//   many_words(uint32_t* out, uint64_t w0 ... w31)          a launch with 33 parameters
//   big_parameter(uint32_t* out, Words w)                   4000 bytes of parameters in one struct
//   no_parameters()
//   dynamic_shared(uint32_t* out, uint32_t words)           uses `words` of dynamic shared memory
//   static_shared(uint32_t* out)                            1024 bytes of static shared memory
//   local_array(uint32_t* out, uint32_t index)              a 256-byte array in local memory
//   at_most_128_threads(uint32_t* out)                      .maxntid 128
//   all_blocks_meet(uint32_t* counter)                      a grid barrier; needs a cooperative
//                                                           launch and a counter that is zero
//   add_to_counter(uint32_t n)                              adds to the global variable `counter`
//   busy(uint32_t nanoseconds)                              runs for that long
// and as variables:
inline constexpr uint32_t kCounterStart = 0x12345678;    // .global .u32 counter
inline constexpr size_t kTableBytes = 4096;              // .global .b8 table[], zero at load
inline constexpr uint32_t kConstants[4] = {2, 3, 5, 7};  // .const .u32 constants[4]
inline constexpr size_t kBigParameterBytes = 4000;

class Kernels {
 public:
  Kernels();  // In the current context.
  ~Kernels();
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;
  CUmodule module() const { return module_; }
  CUfunction Get(const char* name) const;
  // vector_add of n floats; all three arrays may be the same one.
  void VectorAdd(CUdeviceptr a, CUdeviceptr b, CUdeviceptr c, uint32_t n, CUstream stream) const;

 private:
  CUmodule module_ = nullptr;
  CUfunction vector_add_ = nullptr;
};

#endif  // PHANTORA_TEST_TRACEES_KERNELS_H_
