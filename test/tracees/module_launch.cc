// Modules compiled from PTX by the driver, their functions and variables; launches with parameter
// blocks of 0 to 4 KB and dynamic shared memory up to the limit; the launches that must be refused.
// launch_extended has the other kinds of launches.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "test/tracees/kernels.h"
#include "test/tracees/tracee.h"

namespace {

int FunctionAttribute(CUfunction function, CUfunction_attribute attribute) {
  int value = -1;
  CU_CHECK(cuFuncGetAttribute(&value, attribute, function));
  return value;
}

CUresult Launch(CUfunction function, unsigned blocks, unsigned threads, unsigned shared,
                CUstream stream, void** parameters) {
  return cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, shared, stream, parameters, nullptr);
}

void TestLoadErrors(const Kernels& kernels) {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  CUdeviceptr address = 0;
  size_t size = 0;
  CU_EXPECT(cuModuleGetFunction(&function, kernels.module(), "no_such_kernel"),
            CUDA_ERROR_NOT_FOUND);
  CU_EXPECT(cuModuleGetGlobal(&address, &size, kernels.module(), "no_such_variable"),
            CUDA_ERROR_NOT_FOUND);
  CU_EXPECT(cuModuleLoadData(&module, "this is neither PTX nor a cubin"), CUDA_ERROR_INVALID_IMAGE);

  // The compiler's complaint arrives in the caller's buffer.
  char log[4096] = "";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
  const char kWrong[] =
      ".version 7.8\n.target sm_80\n.address_size 64\n"
      ".visible .entry k() { no.such.instruction; ret; }\n";
  CU_EXPECT(cuModuleLoadDataEx(&module, kWrong, 2, options, values), CUDA_ERROR_INVALID_PTX);
  CHECK_GT(strlen(log), 0u);
}

void TestVariables(const Kernels& kernels) {
  CUdeviceptr counter = 0;
  CUdeviceptr table = 0;
  CUdeviceptr constants = 0;
  size_t size = 0;
  CU_CHECK(cuModuleGetGlobal(&counter, &size, kernels.module(), "counter"));
  CHECK_EQ(size, 4u);
  CheckDevice(counter, &kCounterStart, 4, "the initial value of a global variable");
  CU_CHECK(cuModuleGetGlobal(&constants, &size, kernels.module(), "constants"));
  CHECK_EQ(size, sizeof kConstants);
  CheckDevice(constants, kConstants, sizeof kConstants, "the initial value of a constant");
  CU_CHECK(cuModuleGetGlobal(&table, &size, kernels.module(), "table"));
  CHECK_EQ(size, kTableBytes);
  CheckDeviceFilled(table, 0, kTableBytes, "a variable without initial value");

  const Bytes data = Pattern(kTableBytes, 31);
  CU_CHECK(cuMemcpyHtoD(table, data.data(), data.size()));
  CheckDevice(table, data.data(), data.size(), "a variable written by the host");
  const uint32_t other[4] = {11, 13, 17, 19};
  CU_CHECK(cuMemcpyHtoD(constants, other, sizeof other));
  CheckDevice(constants, other, sizeof other, "a constant written by the host");
  CheckDevice(counter, &kCounterStart, 4, "a neighbour of what was written");

  // A second instance of the module has variables of its own.
  Kernels second;
  CUdeviceptr second_table = 0;
  CU_CHECK(cuModuleGetGlobal(&second_table, &size, second.module(), "table"));
  CHECK_NE(second_table, table);
  CheckDeviceFilled(second_table, 0, kTableBytes, "the second module's variable");
  CheckDevice(table, data.data(), data.size(), "the first module's variable");
}

void TestAttributes(const Context& context, const Kernels& kernels) {
  const int cc = 10 * context.Attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                 context.Attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  const CUfunction add = kernels.Get("vector_add");
  CHECK_EQ(FunctionAttribute(add, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 1024);
  CHECK_EQ(FunctionAttribute(add, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES), 0);
  CHECK_EQ(FunctionAttribute(add, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES), 0);
  CHECK_EQ(FunctionAttribute(add, CU_FUNC_ATTRIBUTE_PTX_VERSION), 80);
  CHECK_EQ(FunctionAttribute(add, CU_FUNC_ATTRIBUTE_BINARY_VERSION), cc);
  CHECK_GT(FunctionAttribute(add, CU_FUNC_ATTRIBUTE_NUM_REGS), 0);
  CHECK_LE(FunctionAttribute(add, CU_FUNC_ATTRIBUTE_NUM_REGS), 32);
  CHECK_EQ(FunctionAttribute(kernels.Get("static_shared"), CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES),
           1024);
  CHECK_GE(FunctionAttribute(kernels.Get("local_array"), CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES), 256);
  CHECK_EQ(FunctionAttribute(kernels.Get("at_most_128_threads"),
                             CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
           128);
  CHECK_GE(FunctionAttribute(add, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES), 0);
  CUmodule owner = nullptr;
  CU_CHECK(cuFuncGetModule(&owner, add));
  CHECK_EQ(owner, kernels.module());
  CU_CHECK(cuFuncSetCacheConfig(add, CU_FUNC_CACHE_PREFER_L1));
  CU_CHECK(cuFuncSetAttribute(add, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 50));
  CHECK_EQ(FunctionAttribute(add, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT), 50);
}

void TestLaunches(const Kernels& kernels, CUstream stream) {
  DeviceMemory memory(4 * kMiB);
  // Every combination of small and large grids and blocks, in up to three dimensions.
  CUdeviceptr a = memory.get();
  uint32_t none = 0;
  void* parameters[] = {&a, &a, &a, &none};
  const CUfunction add = kernels.Get("vector_add");
  for (unsigned x : {1u, 3u, 257u}) {
    for (unsigned y : {1u, 5u}) {
      for (unsigned z : {1u, 2u}) {
        CU_CHECK(cuLaunchKernel(add, x, y, z, 32, 2, 1, 0, stream, parameters, nullptr));
        CU_CHECK(cuLaunchKernel(add, 2, 1, 1, x % 32 + 1, y, z, 0, stream, parameters, nullptr));
      }
    }
  }
  CU_CHECK(cuLaunchKernel(add, 1u << 20, 1, 1, 32, 1, 1, 0, stream, parameters, nullptr));
  CU_CHECK(cuLaunchKernel(add, 1, 65535, 1, 1, 1, 1, 0, stream, parameters, nullptr));
  CU_CHECK(cuLaunchKernel(add, 1, 1, 1, 1, 1, 64, 0, stream, parameters, nullptr));
  kernels.VectorAdd(a, a + kMiB, a + 2 * kMiB, kMiB / 4, stream);
  CU_CHECK(cuStreamSynchronize(stream));

  CU_CHECK(Launch(kernels.Get("no_parameters"), 1, 1, 0, stream, nullptr));
  uint64_t words[32];
  std::vector<void*> many = {&a};
  for (int i = 0; i < 32; ++i) {
    words[i] = static_cast<uint64_t>(i) << 33;
    many.push_back(&words[i]);
  }
  CU_CHECK(Launch(kernels.Get("many_words"), 4, 64, 0, stream, many.data()));
  Bytes big = Pattern(kBigParameterBytes, 5);
  void* struct_parameters[] = {&a, big.data()};
  for (int i = 0; i < 20; ++i) {
    CU_CHECK(Launch(kernels.Get("big_parameter"), 1, 1, 0, stream, struct_parameters));
  }
  // The parameters are copied by the call; the caller may overwrite them at once.
  std::fill(big.begin(), big.end(), 0);

  // The other way to pass parameters: one buffer.
  alignas(8) uint8_t buffer[8 + kBigParameterBytes];
  memcpy(buffer, &a, 8);
  memcpy(buffer + 8, big.data(), big.size());
  size_t buffer_size = sizeof buffer;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE,
                   &buffer_size, CU_LAUNCH_PARAM_END};
  CU_CHECK(
      cuLaunchKernel(kernels.Get("big_parameter"), 1, 1, 1, 1, 1, 1, 0, stream, nullptr, extra));
  CU_CHECK(cuStreamSynchronize(stream));

  uint32_t index = 7;
  void* local_parameters[] = {&a, &index};
  CU_CHECK(Launch(kernels.Get("local_array"), 8, 128, 0, stream, local_parameters));
  void* shared_parameters[] = {&a};
  CU_CHECK(Launch(kernels.Get("static_shared"), 8, 256, 0, stream, shared_parameters));
  CU_CHECK(Launch(kernels.Get("at_most_128_threads"), 8, 128, 0, stream, shared_parameters));
  uint32_t n = 1;
  void* counter_parameters[] = {&n};
  CU_CHECK(Launch(kernels.Get("add_to_counter"), 2, 32, 0, stream, counter_parameters));
  CU_CHECK(cuStreamSynchronize(stream));

  // More launches than any queue holds, none waited for.
  for (int i = 0; i < 5000; ++i) {
    CU_CHECK(cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, stream, parameters, nullptr));
  }
  CU_CHECK(cuStreamSynchronize(stream));
}

void TestRefusals(const Context& context, const Kernels& kernels, CUstream stream) {
  CUdeviceptr zero = 0;
  uint32_t n = 0;
  void* parameters[] = {&zero, &zero, &zero, &n};
  const CUfunction add = kernels.Get("vector_add");
  const auto launch = [&](unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                          unsigned bz, unsigned shared) {
    return cuLaunchKernel(add, gx, gy, gz, bx, by, bz, shared, stream, parameters, nullptr);
  };
  CU_EXPECT(launch(0, 1, 1, 1, 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
  CU_EXPECT(launch(1, 0, 1, 1, 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
  CU_EXPECT(launch(1, 1, 1, 0, 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
  CU_EXPECT(launch(1, 1, 1, 1, 1, 0, 0), CUDA_ERROR_INVALID_VALUE);
  CU_EXPECT(launch(1, 1, 1, 1025, 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
  CU_EXPECT(launch(1, 1, 1, 512, 4, 1, 0), CUDA_ERROR_INVALID_VALUE);
  CU_EXPECT(launch(1, 1, 1, 1, 1, 65, 0), CUDA_ERROR_INVALID_VALUE);
  CU_EXPECT(launch(1, 65536, 1, 1, 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
  CU_EXPECT(launch(1, 1, 1, 1, 1, 1, 48 * kKiB + 1), CUDA_ERROR_INVALID_VALUE);
  void* one[] = {&zero};
  CU_EXPECT(Launch(kernels.Get("at_most_128_threads"), 1, 129, 0, stream, one),
            CUDA_ERROR_INVALID_VALUE);
  const int too_much = context.Attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) + 1;
  CU_EXPECT(cuFuncSetAttribute(add, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, too_much),
            CUDA_ERROR_INVALID_VALUE);
  // None of these hurts the context.
  CU_CHECK(launch(1, 1, 1, 32, 1, 1, 0));
  CU_CHECK(cuStreamSynchronize(stream));
}

void TestSharedMemory(const Context& context, const Kernels& kernels, CUstream stream) {
  const auto limit = static_cast<unsigned>(
      context.Attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
  const CUfunction function = kernels.Get("dynamic_shared");
  DeviceMemory out(4096);
  for (unsigned bytes : {0u, 4u, 1000u, 48u * 1024, 48u * 1024 + 4, 100000u, limit}) {
    if (bytes > 48 * 1024) {
      CU_CHECK(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                  static_cast<int>(bytes)));
    }
    CUdeviceptr address = out.get();
    uint32_t words = bytes / 4;
    void* parameters[] = {&address, &words};
    CU_CHECK(Launch(function, 4, 128, bytes, stream, parameters));
    CU_CHECK(cuStreamSynchronize(stream));
  }
  CHECK_EQ(FunctionAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES),
           static_cast<int>(limit));
}

void TestOccupancy(const Context& context, const Kernels& kernels) {
  const CUfunction add = kernels.Get("vector_add");
  const CUfunction shared = kernels.Get("dynamic_shared");
  const int threads = context.Attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  const int most_blocks = context.Attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
  const int optin = context.Attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  int blocks = 0;
  CU_CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 1024, 0));
  CHECK_EQ(blocks, threads / 1024);
  CU_CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 256, 0));
  CHECK_EQ(blocks, threads / 256);
  CU_CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 32, 0));
  CHECK_EQ(blocks, most_blocks);
  // The attribute was raised by TestSharedMemory: all of the shared memory means one block.
  CU_CHECK(
      cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, shared, 64, static_cast<size_t>(optin)));
  CHECK_EQ(blocks, 1);
  CU_CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, shared, 64,
                                                       static_cast<size_t>(optin) / 4 - 1024));
  CHECK_EQ(blocks, 4);
  int grid = 0;
  int block = 0;
  CU_CHECK(cuOccupancyMaxPotentialBlockSize(&grid, &block, add, nullptr, 0, 0));
  CHECK_GE(block, 32);
  CHECK_LE(block, 1024);
  CHECK_EQ(grid * block, threads * context.Attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  size_t available = 0;
  CU_CHECK(cuOccupancyAvailableDynamicSMemPerBlock(&available, add, 2, 128));
  CHECK_GT(available, 0u);
}

void TestLinker() {
  CUlinkState state = nullptr;
  CU_CHECK(cuLinkCreate(0, nullptr, nullptr, &state));
  CU_CHECK(cuLinkAddData(state, CU_JIT_INPUT_PTX, const_cast<char*>(kPtx), strlen(kPtx) + 1,
                         "kernels.ptx", 0, nullptr, nullptr));
  void* cubin = nullptr;
  size_t size = 0;
  CU_CHECK(cuLinkComplete(state, &cubin, &size));
  CHECK_GT(size, 0u);
  CHECK_EQ(memcmp(cubin, "\177ELF", 4), 0);
  const Bytes copy(static_cast<uint8_t*>(cubin), static_cast<uint8_t*>(cubin) + size);
  CU_CHECK(cuLinkDestroy(state));

  CUmodule module = nullptr;
  CUfunction function = nullptr;
  CU_CHECK(cuModuleLoadData(&module, copy.data()));
  CU_CHECK(cuModuleGetFunction(&function, module, "no_parameters"));
  CU_CHECK(Launch(function, 1, 32, 0, nullptr, nullptr));
  CU_CHECK(cuCtxSynchronize());
  CU_CHECK(cuModuleUnload(module));
}

void TestLibrary() {
  CUlibrary library = nullptr;
  CUkernel kernel = nullptr;
  CUfunction function = nullptr;
  CUdeviceptr counter = 0;
  size_t size = 0;
  CU_CHECK(cuLibraryLoadData(&library, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0));
  CU_CHECK(cuLibraryGetKernel(&kernel, library, "no_parameters"));
  CU_CHECK(cuKernelGetFunction(&function, kernel));
  CU_CHECK(cuLibraryGetGlobal(&counter, &size, library, "counter"));
  CheckDevice(counter, &kCounterStart, 4, "a library's variable");
  CU_CHECK(Launch(function, 1, 32, 0, nullptr, nullptr));
  // A CUkernel may be launched as it is.
  CU_CHECK(Launch(reinterpret_cast<CUfunction>(kernel), 1, 32, 0, nullptr, nullptr));
  CU_CHECK(cuCtxSynchronize());
  CU_CHECK(cuLibraryUnload(library));
}

}  // namespace

TRACEE(module_launch) {
  Context context;
  {
    Kernels kernels;
    Stream stream;
    TestLoadErrors(kernels);
    TestVariables(kernels);
    TestAttributes(context, kernels);
    TestLaunches(kernels, stream.get());
    TestLaunches(kernels, nullptr);
    TestRefusals(context, kernels, stream.get());
    TestSharedMemory(context, kernels, stream.get());
    TestOccupancy(context, kernels);
  }
  TestLinker();
  TestLibrary();
  // A large stack and heap change what the driver sets up for launches.
  CU_CHECK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 16 * kKiB));
  Kernels kernels;
  DeviceMemory out(4096);
  CUdeviceptr address = out.get();
  uint32_t index = 1;
  void* parameters[] = {&address, &index};
  CU_CHECK(Launch(kernels.Get("local_array"), 64, 256, 0, nullptr, parameters));
  CU_CHECK(cuCtxSynchronize());
}
