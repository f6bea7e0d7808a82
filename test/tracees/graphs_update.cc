// Changing graphs: parameters of instantiated nodes, whole-graph updates and their refusal, nodes
// switched off, clones, many graphs alive at once.
#include <cstring>
#include <string>
#include <vector>

#include "test/tracees/kernels.h"
#include "test/tracees/tracee.h"

namespace {

CUDA_MEMSET_NODE_PARAMS Set(CUdeviceptr at, unsigned value, size_t count) {
  CUDA_MEMSET_NODE_PARAMS parameters{};
  parameters.dst = at;
  parameters.value = value;
  parameters.elementSize = 4;
  parameters.width = count;
  parameters.height = 1;
  return parameters;
}

CUDA_MEMCPY3D Move(CUdeviceptr to, CUdeviceptr from, size_t size) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = from;
  copy.dstDevice = to;
  copy.WidthInBytes = size;
  copy.Height = copy.Depth = 1;
  return copy;
}

CUDA_KERNEL_NODE_PARAMS Kernel(CUfunction function, unsigned blocks, void** arguments) {
  CUDA_KERNEL_NODE_PARAMS parameters{};
  parameters.func = function;
  parameters.gridDimX = blocks;
  parameters.gridDimY = parameters.gridDimZ = 1;
  parameters.blockDimX = 32;
  parameters.blockDimY = parameters.blockDimZ = 1;
  parameters.kernelParams = arguments;
  return parameters;
}

uint32_t Word(CUdeviceptr at) {
  uint32_t value = 0;
  CU_CHECK(cuMemcpyDtoH(&value, at, 4));
  return value;
}

void CountCall(void* data) { ++*static_cast<int*>(data); }

// memset -> kernel -> copy -> host, in one place.
struct Chain {
  Chain(const Context& context, const Kernels& kernels, CUdeviceptr at, unsigned value,
        int* calls) {
    CU_CHECK(cuGraphCreate(&graph, 0));
    const CUDA_MEMSET_NODE_PARAMS set_parameters = Set(at, value, 1);
    CU_CHECK(cuGraphAddMemsetNode(&set, graph, nullptr, 0, &set_parameters, context.get()));
    const CUDA_KERNEL_NODE_PARAMS kernel_parameters =
        Kernel(kernels.Get("vector_add"), 3, arguments);
    CU_CHECK(cuGraphAddKernelNode(&kernel, graph, &set, 1, &kernel_parameters));
    const CUDA_MEMCPY3D copy_parameters = Move(at + 256, at, 4);
    CU_CHECK(cuGraphAddMemcpyNode(&copy, graph, &kernel, 1, &copy_parameters, context.get()));
    const CUDA_HOST_NODE_PARAMS host_parameters{CountCall, calls};
    CU_CHECK(cuGraphAddHostNode(&host, graph, &copy, 1, &host_parameters));
  }
  ~Chain() { CU_CHECK(cuGraphDestroy(graph)); }
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;

  CUgraph graph = nullptr;
  CUgraphNode set = nullptr;
  CUgraphNode kernel = nullptr;
  CUgraphNode copy = nullptr;
  CUgraphNode host = nullptr;
  CUdeviceptr address = 0;
  uint32_t none = 0;
  void* arguments[4] = {&address, &address, &address, &none};
};

// Switched off, a node is as good as empty.
template <typename Launch>
void TestSwitchedOff(CUgraphExec exec, const Chain& chain, CUdeviceptr memory,
                     const Launch& launch) {
  unsigned enabled = 99;
  CU_CHECK(cuGraphNodeSetEnabled(exec, chain.set, 0));
  CU_CHECK(cuGraphNodeGetEnabled(exec, chain.set, &enabled));
  CHECK_EQ(enabled, 0u);
  SetDevice(memory, 77, 4);
  launch();
  CHECK_EQ(Word(memory + 512), 0x4d4d4d4du);
  CU_CHECK(cuGraphNodeSetEnabled(exec, chain.set, 1));
  launch();
  CHECK_EQ(Word(memory + 512), 4u);
}

// A change must wait for no launch: those in flight keep the old parameters.
void TestChangeInFlight(CUgraphExec exec, const Chain& chain, const Context& context,
                        CUdeviceptr memory, const Stream& stream) {
  Gate gate;
  Stream second;
  gate.Close(stream.get());
  CU_CHECK(cuGraphLaunch(exec, stream.get()));
  CU_CHECK(cuMemcpyDtoDAsync(memory + 768, memory + 512, 4, stream.get()));
  const CUDA_MEMSET_NODE_PARAMS fifth = Set(memory, 5, 1);
  CU_CHECK(cuGraphExecMemsetNodeSetParams(exec, chain.set, &fifth, context.get()));
  CU_CHECK(cuGraphLaunch(exec, stream.get()));
  gate.Open();
  stream.Synchronize();
  CHECK_EQ(Word(memory + 768), 4u);
  CHECK_EQ(Word(memory + 512), 5u);
}

void TestNodeParameters(const Context& context, const Kernels& kernels) {
  Stream stream;
  DeviceMemory memory(1024);
  SetDevice(memory.get(), 0, 1024);
  int calls = 0;
  int other_calls = 0;
  Chain chain(context, kernels, memory.get(), 1, &calls);
  CUgraphExec exec = nullptr;
  CU_CHECK(cuGraphInstantiate(&exec, chain.graph, 0));
  const auto launch = [&] {
    CU_CHECK(cuGraphLaunch(exec, stream.get()));
    stream.Synchronize();
  };
  launch();
  CHECK_EQ(Word(memory.get() + 256), 1u);
  CHECK_EQ(calls, 1);

  for (unsigned value : {2u, 0u, 0xffffffffu}) {
    const CUDA_MEMSET_NODE_PARAMS changed = Set(memory.get(), value, 1);
    CU_CHECK(cuGraphExecMemsetNodeSetParams(exec, chain.set, &changed, context.get()));
    launch();
    CHECK_EQ(Word(memory.get() + 256), value);
  }
  // The graph itself still says 1.
  CUDA_MEMSET_NODE_PARAMS original{};
  CU_CHECK(cuGraphMemsetNodeGetParams(chain.set, &original));
  CHECK_EQ(original.value, 1u);

  const CUDA_MEMCPY3D elsewhere = Move(memory.get() + 512, memory.get(), 4);
  CU_CHECK(cuGraphExecMemcpyNodeSetParams(exec, chain.copy, &elsewhere, context.get()));
  const CUDA_MEMSET_NODE_PARAMS fourth = Set(memory.get(), 4, 1);
  CU_CHECK(cuGraphExecMemsetNodeSetParams(exec, chain.set, &fourth, context.get()));
  launch();
  CHECK_EQ(Word(memory.get() + 512), 4u);
  CHECK_EQ(Word(memory.get() + 256), 0xffffffffu);

  const CUDA_KERNEL_NODE_PARAMS bigger = Kernel(kernels.Get("vector_add"), 1000, chain.arguments);
  CU_CHECK(cuGraphExecKernelNodeSetParams(exec, chain.kernel, &bigger));
  const CUDA_HOST_NODE_PARAMS other_host{CountCall, &other_calls};
  CU_CHECK(cuGraphExecHostNodeSetParams(exec, chain.host, &other_host));
  const int before = calls;
  launch();
  CHECK_EQ(calls, before);
  CHECK_EQ(other_calls, 1);

  TestSwitchedOff(exec, chain, memory.get(), launch);
  TestChangeInFlight(exec, chain, context, memory.get(), stream);
  CU_CHECK(cuGraphExecDestroy(exec));
}

void TestWholeUpdate(const Context& context, const Kernels& kernels) {
  Stream stream;
  DeviceMemory memory(4096);
  SetDevice(memory.get(), 0, 4096);
  int calls = 0;
  Chain first(context, kernels, memory.get(), 10, &calls);
  CUgraphExec exec = nullptr;
  CU_CHECK(cuGraphInstantiate(&exec, first.graph, 0));
  for (unsigned i = 0; i < 20; ++i) {
    Chain next(context, kernels, memory.get() + (i % 4) * 1024, 20 + i, &calls);
    CUgraphExecUpdateResultInfo info{};
    CU_CHECK(cuGraphExecUpdate(exec, next.graph, &info));
    CHECK_EQ(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
    CU_CHECK(cuGraphLaunch(exec, stream.get()));
    stream.Synchronize();
    CHECK_EQ(Word(memory.get() + (i % 4) * 1024 + 256), 20 + i);
  }
  CHECK_EQ(calls, 20);
  // Another shape is refused, and the executable graph stays what it was.
  CUgraph shape = nullptr;
  CUgraphNode node = nullptr;
  CU_CHECK(cuGraphCreate(&shape, 0));
  CU_CHECK(cuGraphAddEmptyNode(&node, shape, nullptr, 0));
  CUgraphExecUpdateResultInfo info{};
  CU_EXPECT(cuGraphExecUpdate(exec, shape, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  CHECK_NE(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
  CU_CHECK(cuGraphDestroy(shape));
  CU_CHECK(cuGraphLaunch(exec, stream.get()));
  stream.Synchronize();
  CHECK_EQ(calls, 21);
  CU_CHECK(cuGraphExecDestroy(exec));
}

void TestClone(const Context& context, const Kernels& kernels) {
  Stream stream;
  DeviceMemory memory(1024);
  int calls = 0;
  Chain chain(context, kernels, memory.get(), 1, &calls);
  CUgraph clone = nullptr;
  CUgraphNode twin = nullptr;
  CU_CHECK(cuGraphClone(&clone, chain.graph));
  CU_CHECK(cuGraphNodeFindInClone(&twin, chain.set, clone));
  const CUDA_MEMSET_NODE_PARAMS changed = Set(memory.get(), 2, 1);
  CU_CHECK(cuGraphMemsetNodeSetParams(twin, &changed));
  CUgraphExec original_exec = nullptr;
  CUgraphExec clone_exec = nullptr;
  CU_CHECK(cuGraphInstantiate(&original_exec, chain.graph, 0));
  CU_CHECK(cuGraphInstantiate(&clone_exec, clone, 0));
  CU_CHECK(cuGraphDestroy(clone));
  for (int i = 0; i < 5; ++i) {
    CU_CHECK(cuGraphLaunch(original_exec, stream.get()));
    stream.Synchronize();
    CHECK_EQ(Word(memory.get() + 256), 1u);
    CU_CHECK(cuGraphLaunch(clone_exec, stream.get()));
    stream.Synchronize();
    CHECK_EQ(Word(memory.get() + 256), 2u);
  }
  CHECK_EQ(calls, 10);
  CU_CHECK(cuGraphExecDestroy(original_exec));
  CU_CHECK(cuGraphExecDestroy(clone_exec));
}

// As a server keeps one graph per batch size.
void TestManyAlive(const Context& context, const Kernels& kernels) {
  Stream stream;
  constexpr unsigned kGraphs = 40;
  DeviceMemory memory(kGraphs * 512);
  int calls = 0;
  std::vector<CUgraphExec> execs;
  for (unsigned i = 0; i < kGraphs; ++i) {
    Chain chain(context, kernels, memory.get() + 512 * i, 1000 + i, &calls);
    CUgraphExec exec = nullptr;
    CU_CHECK(cuGraphInstantiate(&exec, chain.graph, 0));
    execs.push_back(exec);
  }
  for (int round = 0; round < 3; ++round) {
    CU_CHECK(cuMemsetD8Async(memory.get(), 0, memory.size(), stream.get()));
    for (CUgraphExec exec : execs) CU_CHECK(cuGraphLaunch(exec, stream.get()));
    stream.Synchronize();
    for (unsigned i = 0; i < kGraphs; ++i) {
      CHECK_EQ(Word(memory.get() + 512 * i + 256), 1000 + i);
    }
  }
  CHECK_EQ(calls, static_cast<int>(3 * kGraphs));
  for (CUgraphExec exec : execs) CU_CHECK(cuGraphExecDestroy(exec));
}

}  // namespace

TRACEE(graphs_update) {
  Context context;
  Kernels kernels;
  TestNodeParameters(context, kernels);
  TestWholeUpdate(context, kernels);
  TestClone(context, kernels);
  TestManyAlive(context, kernels);
}
