// Launches beyond cuLaunchKernel: cooperative ones, clusters (compute capability 9 and later) and
// programmatic stream serialization.
#include "test/tracees/kernels.h"
#include "test/tracees/tracee.h"

namespace {

CUlaunchConfig Config(unsigned blocks, unsigned threads, CUstream stream,
                      CUlaunchAttribute* attribute) {
  CUlaunchConfig config{};
  config.gridDimX = blocks;
  config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = threads;
  config.blockDimY = config.blockDimZ = 1;
  config.hStream = stream;
  config.attrs = attribute;
  config.numAttrs = attribute == nullptr ? 0 : 1;
  return config;
}

void TestCooperative(const Context& context, const Kernels& kernels, CUstream stream) {
  const CUfunction meet = kernels.Get("all_blocks_meet");
  DeviceMemory counter(4);
  CUdeviceptr address = counter.get();
  void* parameters[] = {&address};
  int per_multiprocessor = 0;
  CU_CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&per_multiprocessor, meet, 256, 0));
  const auto most = static_cast<unsigned>(
      per_multiprocessor * context.Attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  for (unsigned blocks : {1u, 16u, most}) {
    CU_CHECK(cuMemsetD32Async(address, 0, 1, stream));
    CU_CHECK(cuLaunchCooperativeKernel(meet, blocks, 1, 1, 256, 1, 1, 0, stream, parameters));
    CU_CHECK(cuStreamSynchronize(stream));
  }
  CU_EXPECT(cuLaunchCooperativeKernel(meet, most + 1, 1, 1, 256, 1, 1, 0, stream, parameters),
            CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
  CU_CHECK(cuStreamSynchronize(stream));

  // The same through launch attributes.
  CU_CHECK(cuMemsetD32Async(address, 0, 1, stream));
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  attribute.value.cooperative = 1;
  const CUlaunchConfig config = Config(16, 64, stream, &attribute);
  CU_CHECK(cuLaunchKernelEx(&config, meet, parameters, nullptr));
  CU_CHECK(cuStreamSynchronize(stream));
}

void TestPriority(const Kernels& kernels, CUstream stream) {
  CUdeviceptr address = 0;
  uint32_t n = 0;
  void* parameters[] = {&address, &address, &address, &n};
  CUlaunchConfig config = Config(64, 128, stream, nullptr);
  CU_CHECK(cuLaunchKernelEx(&config, kernels.Get("vector_add"), parameters, nullptr));
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
  attribute.value.priority = 0;
  config = Config(64, 128, stream, &attribute);
  CU_CHECK(cuLaunchKernelEx(&config, kernels.Get("vector_add"), parameters, nullptr));
  CU_CHECK(cuStreamSynchronize(stream));
}

void TestClusters(const Kernels& kernels, CUstream stream) {
  const CUfunction add = kernels.Get("vector_add");
  CUdeviceptr address = 0;
  uint32_t n = 0;
  void* parameters[] = {&address, &address, &address, &n};
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1;
  CUlaunchConfig config = Config(64, 128, stream, &attribute);
  for (unsigned width : {1u, 2u, 4u, 8u}) {
    attribute.value.clusterDim.x = width;
    CU_CHECK(cuLaunchKernelEx(&config, add, parameters, nullptr));
    CU_CHECK(cuStreamSynchronize(stream));
    int clusters = 0;
    CU_CHECK(cuOccupancyMaxActiveClusters(&clusters, add, &config));
    CHECK_GT(clusters, 0);
  }
  attribute.value.clusterDim.x = 2;
  attribute.value.clusterDim.y = 2;
  config.gridDimY = 4;
  CU_CHECK(cuLaunchKernelEx(&config, add, parameters, nullptr));
  CU_CHECK(cuStreamSynchronize(stream));
  // The grid must be a whole number of clusters.
  config.gridDimX = 63;
  CU_EXPECT(cuLaunchKernelEx(&config, add, parameters, nullptr), CUDA_ERROR_INVALID_CLUSTER_SIZE);
  config.gridDimX = 64;
  int width = 0;
  CU_CHECK(cuOccupancyMaxPotentialClusterSize(&width, add, &config));
  CHECK_GE(width, 8);
}

// Kernels that may each start before the one ahead of them in the stream has ended; what follows
// them in the stream still waits for all.
void TestProgrammatic(const Kernels& kernels, CUstream stream) {
  CUdeviceptr address = 0;
  uint32_t n = 0;
  void* parameters[] = {&address, &address, &address, &n};
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  attribute.value.programmaticStreamSerializationAllowed = 1;
  const CUlaunchConfig config = Config(64, 128, stream, &attribute);
  PinnedMemory out(4);
  DeviceMemory memory(4);
  for (unsigned chain : {1u, 2u, 3u, 10u, 100u}) {
    for (unsigned i = 0; i < chain; ++i) {
      CU_CHECK(cuLaunchKernelEx(&config, kernels.Get("vector_add"), parameters, nullptr));
    }
    CU_CHECK(cuMemsetD32Async(memory.get(), chain, 1, stream));
    CU_CHECK(cuMemcpyDtoHAsync(out.as(), memory.get(), 4, stream));
    CU_CHECK(cuStreamSynchronize(stream));
    CHECK_EQ(*out.as<uint32_t>(), chain);
  }
}

}  // namespace

TRACEE(launch_extended) {
  Context context;
  Kernels kernels;
  Stream stream;
  TestCooperative(context, kernels, stream.get());
  TestPriority(kernels, stream.get());
  if (context.Attribute(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH) == 0) return;
  TestClusters(kernels, stream.get());
  TestProgrammatic(kernels, stream.get());
}
