// The part of the CUDA driver API that the tracees use, declared anew from its public
// documentation, so that the suite builds on a machine with neither a GPU, nor a driver, nor a CUDA
// toolkit. LoadCudaDriver() finds libcuda.so.1 at run time; the functions are then called by their
// documented names and bound to the newest ABI that every supported driver version exports.
#ifndef PHANTORA_TEST_TRACEES_CUDA_DRIVER_H_
#define PHANTORA_TEST_TRACEES_CUDA_DRIVER_H_

#include <string>

#include "test/tracees/cuda_types.h"

#define CU_API(name, symbol, args) extern CUresult(*name) args;
#include "test/tracees/cuda_driver_api.inc"
#undef CU_API

// Opens libcuda.so.1 and binds every function above; ends the program if either fails.
void LoadCudaDriver();

// "CUDA_ERROR_OUT_OF_MEMORY (2): out of memory"
std::string CudaErrorText(CUresult result);

[[noreturn]] void FailCall(const char* file, int line, const char* call, CUresult got,
                           CUresult want);

// The call must succeed.
#define CU_CHECK(call)                                                    \
  do {                                                                    \
    const CUresult cu_check_result = (call);                              \
    if (cu_check_result != CUDA_SUCCESS)                                  \
      FailCall(__FILE__, __LINE__, #call, cu_check_result, CUDA_SUCCESS); \
  } while (false)

// The call must fail in exactly this way.
#define CU_EXPECT(call, want)                                                                    \
  do {                                                                                           \
    const CUresult cu_check_result = (call);                                                     \
    if (cu_check_result != (want)) FailCall(__FILE__, __LINE__, #call, cu_check_result, (want)); \
  } while (false)

#endif  // PHANTORA_TEST_TRACEES_CUDA_DRIVER_H_
