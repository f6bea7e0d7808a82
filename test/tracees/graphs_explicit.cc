// Graphs built node by node: memcpy, memset, kernel, host, empty, event and child-graph nodes;
// shapes with forks and joins; a hundred launches in a row without waiting; structure queries.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "test/tracees/kernels.h"
#include "test/tracees/tracee.h"

namespace {

using Nodes = std::vector<CUgraphNode>;

// A graph under construction. Each Add returns the new node.
class Builder {
 public:
  explicit Builder(const Context& context) : context_(context.get()) {
    CU_CHECK(cuGraphCreate(&graph_, 0));
  }
  ~Builder() { CU_CHECK(cuGraphDestroy(graph_)); }
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;
  CUgraph get() const { return graph_; }

  CUgraphNode Empty(const Nodes& after) {
    CUgraphNode node = nullptr;
    CU_CHECK(cuGraphAddEmptyNode(&node, graph_, after.data(), after.size()));
    return node;
  }
  CUgraphNode Memset(const Nodes& after, CUdeviceptr at, unsigned value, unsigned element,
                     size_t count) {
    CUDA_MEMSET_NODE_PARAMS parameters{};
    parameters.dst = at;
    parameters.value = value;
    parameters.elementSize = element;
    parameters.width = count;
    parameters.height = 1;
    CUgraphNode node = nullptr;
    CU_CHECK(
        cuGraphAddMemsetNode(&node, graph_, after.data(), after.size(), &parameters, context_));
    return node;
  }
  CUgraphNode Copy(const Nodes& after, void* to_host, CUdeviceptr to, const void* from_host,
                   CUdeviceptr from, size_t size) {
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = from_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    copy.srcHost = from_host;
    copy.srcDevice = from;
    copy.dstMemoryType = to_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    copy.dstHost = to_host;
    copy.dstDevice = to;
    copy.WidthInBytes = size;
    copy.Height = copy.Depth = 1;
    CUgraphNode node = nullptr;
    CU_CHECK(cuGraphAddMemcpyNode(&node, graph_, after.data(), after.size(), &copy, context_));
    return node;
  }
  CUgraphNode Upload(const Nodes& after, CUdeviceptr to, const void* from, size_t size) {
    return Copy(after, nullptr, to, from, 0, size);
  }
  CUgraphNode Download(const Nodes& after, void* to, CUdeviceptr from, size_t size) {
    return Copy(after, to, 0, nullptr, from, size);
  }
  CUgraphNode Move(const Nodes& after, CUdeviceptr to, CUdeviceptr from, size_t size) {
    return Copy(after, nullptr, to, nullptr, from, size);
  }
  CUgraphNode Host(const Nodes& after, CUhostFn function, void* data) {
    const CUDA_HOST_NODE_PARAMS parameters{function, data};
    CUgraphNode node = nullptr;
    CU_CHECK(cuGraphAddHostNode(&node, graph_, after.data(), after.size(), &parameters));
    return node;
  }
  // A kernel over no elements.
  CUgraphNode Kernel(const Nodes& after, const Kernels& kernels, unsigned blocks) {
    CUdeviceptr address = 0;
    uint32_t n = 0;
    void* arguments[] = {&address, &address, &address, &n};
    CUDA_KERNEL_NODE_PARAMS parameters{};
    parameters.func = kernels.Get("vector_add");
    parameters.gridDimX = blocks;
    parameters.gridDimY = parameters.gridDimZ = 1;
    parameters.blockDimX = 64;
    parameters.blockDimY = parameters.blockDimZ = 1;
    parameters.kernelParams = arguments;
    CUgraphNode node = nullptr;
    CU_CHECK(cuGraphAddKernelNode(&node, graph_, after.data(), after.size(), &parameters));
    return node;
  }

 private:
  CUcontext context_;
  CUgraph graph_ = nullptr;
};

class Executable {
 public:
  explicit Executable(CUgraph graph) { CU_CHECK(cuGraphInstantiate(&exec_, graph, 0)); }
  ~Executable() { CU_CHECK(cuGraphExecDestroy(exec_)); }
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;
  CUgraphExec get() const { return exec_; }
  void Launch(const Stream& stream) const { CU_CHECK(cuGraphLaunch(exec_, stream.get())); }

 private:
  CUgraphExec exec_ = nullptr;
};

void RunOnce(const Builder& graph, const Stream& stream) {
  Executable exec(graph.get());
  exec.Launch(stream);
  stream.Synchronize();
}

void TestMemsetNodes(const Context& context, const Stream& stream) {
  DeviceMemory memory(kMiB);
  for (unsigned element : {1u, 2u, 4u}) {
    for (size_t bytes : {size_t{4}, size_t{1000}, kMiB}) {
      const unsigned value = element == 1 ? 0xa1 : element == 2 ? 0xa1a1 : 0xa1a1a1a1;
      SetDevice(memory.get(), 0, kMiB);
      Builder graph(context);
      graph.Memset({}, memory.get(), value, element, bytes / element);
      RunOnce(graph, stream);
      CheckDeviceFilled(memory.get(), 0xa1, bytes, "a memset node");
      CheckDeviceFilled(memory.get() + bytes, 0, kMiB - bytes, "behind a memset node");
    }
  }
}

void TestCopyNodes(const Context& context, const Stream& stream, size_t size) {
  DeviceMemory memory(kMiB);
  DeviceMemory other(kMiB);
  PinnedMemory pinned(kMiB);
  SetDevice(other.get(), 0, kMiB);
  FillPattern(pinned.as(), size, size);
  const Bytes want(pinned.as(), pinned.as() + size);

  Builder upload(context);
  upload.Upload({}, memory.get(), pinned.as(), size);
  RunOnce(upload, stream);
  CheckDevice(memory.get(), want.data(), size, "an upload node");

  Builder move(context);
  move.Move({}, other.get(), memory.get(), size);
  RunOnce(move, stream);
  CheckDevice(other.get(), want.data(), size, "a copy node");
  CheckDeviceFilled(other.get() + size, 0, kMiB - size, "behind a copy node");

  memset(pinned.as(), 0, kMiB);
  Builder download(context);
  download.Download({}, pinned.as(), other.get(), size);
  RunOnce(download, stream);
  CheckBytes(pinned.as(), want.data(), size, "a download node");
}

void TestEachNodeAlone(const Context& context, const Kernels& kernels) {
  Stream stream;
  {
    Builder graph(context);  // Nothing in it.
    RunOnce(graph, stream);
  }
  {
    Builder graph(context);
    graph.Empty({});
    RunOnce(graph, stream);
  }
  TestMemsetNodes(context, stream);
  for (size_t size : {size_t{1}, size_t{4}, size_t{1001}, size_t{70000}, kMiB}) {
    TestCopyNodes(context, stream, size);
  }
  {
    int host_calls = 0;
    Builder graph(context);
    graph.Host(
        {}, [](void* data) { ++*static_cast<int*>(data); }, &host_calls);
    Executable exec(graph.get());
    for (int i = 0; i < 3; ++i) exec.Launch(stream);
    stream.Synchronize();
    CHECK_EQ(host_calls, 3);
  }
  {
    Builder graph(context);
    graph.Kernel({}, kernels, 100);
    RunOnce(graph, stream);
  }
}

struct Round {
  uint32_t* counter;          // The device gets this.
  const uint32_t* came_back;  // And this is what came back through the chain.
  uint32_t mismatches = 0;
};

// host -> upload -> kernel -> copy -> memset -> download -> host, launched a hundred times without
// a pause: every launch sees the counter that its own first node has set.
void TestHundredLaunches(const Context& context, const Kernels& kernels) {
  Stream stream;
  DeviceMemory memory(256);
  PinnedMemory pinned(256);
  memset(pinned.as(), 0, 256);
  Round round{pinned.as<uint32_t>(), pinned.as<uint32_t>() + 16};
  Builder graph(context);
  const CUgraphNode begin = graph.Host(
      {}, [](void* data) { ++*static_cast<Round*>(data)->counter; }, &round);
  const CUgraphNode up = graph.Upload({begin}, memory.get(), round.counter, 4);
  const CUgraphNode kernel = graph.Kernel({up}, kernels, 7);
  const CUgraphNode move = graph.Move({kernel}, memory.get() + 64, memory.get(), 4);
  const CUgraphNode clear = graph.Memset({move}, memory.get(), 0, 4, 1);
  const CUgraphNode down = graph.Download({clear}, pinned.as() + 64, memory.get() + 64, 4);
  graph.Host(
      {down},
      [](void* data) {
        auto* r = static_cast<Round*>(data);
        if (*r->came_back != *r->counter) ++r->mismatches;
      },
      &round);
  Executable exec(graph.get());
  CU_CHECK(cuGraphUpload(exec.get(), stream.get()));
  for (int i = 0; i < 100; ++i) exec.Launch(stream);
  stream.Synchronize();
  CHECK_EQ(*round.counter, 100u);
  CHECK_EQ(*round.came_back, 100u);
  CHECK_EQ(round.mismatches, 0u);
  CheckDeviceFilled(memory.get(), 0, 4, "cleared by the graph");
}

// The same with device nodes only, which the driver may run without the host.
void TestHundredDeviceLaunches(const Context& context, const Kernels& kernels) {
  Stream stream;
  constexpr size_t kSize = 4096;
  constexpr int kStages = 12;
  DeviceMemory memory((kStages + 1) * kSize);
  PinnedMemory pinned(kSize);
  FillPattern(pinned.as(), kSize, 3);
  Builder graph(context);
  CUgraphNode last = graph.Upload({}, memory.get(), pinned.as(), kSize);
  for (int i = 0; i < kStages; ++i) {
    last = graph.Kernel({last}, kernels, static_cast<unsigned>(i + 1));
    last = graph.Move({last}, memory.get() + (i + 1) * kSize, memory.get() + i * kSize, kSize);
    last = graph.Memset({last}, memory.get() + i * kSize, 0xee, 1, kSize);
  }
  Executable exec(graph.get());
  for (int i = 0; i < 100; ++i) exec.Launch(stream);
  stream.Synchronize();
  CheckDevice(memory.get() + kStages * kSize, pinned.as(), kSize, "the end of the chain");
  CheckDeviceFilled(memory.get(), 0xee, kStages * kSize, "the stages of the chain");
}

struct Join {
  const uint32_t* results;
  int branches;
  uint32_t want;
  int wrong = 0;
};

// root -> 8 branches of copies and kernels -> join, twice in a row.
void TestForkJoin(const Context& context, const Kernels& kernels) {
  constexpr int kBranches = 8;
  Stream stream;
  DeviceMemory memory(kBranches * 512);
  PinnedMemory pinned(kBranches * 8);
  memset(pinned.as(), 0, pinned.size());
  Join join{pinned.as<uint32_t>(), kBranches, 0x0badcafe};
  Builder graph(context);
  Nodes previous = {graph.Empty({})};
  for (int layer = 0; layer < 2; ++layer) {
    Nodes ends;
    for (int i = 0; i < kBranches; ++i) {
      const CUdeviceptr at = memory.get() + 512 * i;
      CUgraphNode node = graph.Memset(previous, at, join.want, 4, 1);
      for (int k = 0; k < i % 3; ++k) node = graph.Kernel({node}, kernels, 2);
      node = graph.Move({node}, at + 256, at, 4);
      ends.push_back(graph.Download({node}, pinned.as() + 4 * i, at + 256, 4));
    }
    previous = {graph.Host(
        ends,
        [](void* data) {
          auto* j = static_cast<Join*>(data);
          for (int i = 0; i < j->branches; ++i) {
            if (j->results[i] != j->want) ++j->wrong;
          }
        },
        &join)};
  }
  Executable exec(graph.get());
  for (int i = 0; i < 20; ++i) exec.Launch(stream);
  stream.Synchronize();
  CHECK_EQ(join.wrong, 0);
  for (int i = 0; i < kBranches; ++i) CHECK_EQ(pinned.as<uint32_t>()[i], join.want);
}

// A diamond lattice: every node of a layer depends on two of the layer before.
void TestLattice(const Context& context, const Kernels& kernels) {
  Stream stream;
  constexpr int kWidth = 6;
  constexpr int kLayers = 8;
  DeviceMemory memory(kWidth * kLayers * 256);
  const auto at = [&](int layer, int i) {
    return memory.get() + static_cast<size_t>(layer * kWidth + i) * 256;
  };
  SetDevice(memory.get(), 0, memory.size());
  Builder graph(context);
  Nodes layer_nodes;
  for (int i = 0; i < kWidth; ++i) {
    layer_nodes.push_back(graph.Memset({}, at(0, i), static_cast<unsigned>(100 + i), 4, 64));
  }
  for (int layer = 1; layer < kLayers; ++layer) {
    Nodes next;
    for (int i = 0; i < kWidth; ++i) {
      const Nodes after = {layer_nodes[i], layer_nodes[(i + 1) % kWidth]};
      CUgraphNode node = i % 2 ? graph.Kernel(after, kernels, 3) : graph.Empty(after);
      node = graph.Move({node}, at(layer, i), at(layer - 1, i), 128);
      next.push_back(graph.Move({node}, at(layer, i) + 128, at(layer - 1, (i + 1) % kWidth), 128));
    }
    layer_nodes = next;
  }
  Executable exec(graph.get());
  for (int launch = 0; launch < 3; ++launch) {
    SetDevice(at(1, 0), 0, (kLayers - 1) * kWidth * 256);
    exec.Launch(stream);
    stream.Synchronize();
    std::vector<uint32_t> got(64);
    for (int layer = 0; layer < kLayers; ++layer) {
      for (int i = 0; i < kWidth; ++i) {
        CU_CHECK(cuMemcpyDtoH(got.data(), at(layer, i), 256));
        // The first half of each block comes straight down from the first layer.
        CHECK_EQ(got[0], static_cast<uint32_t>(100 + i));
        CHECK_EQ(got[63], static_cast<uint32_t>(100 + (layer == 0 ? i : (i + 1) % kWidth)));
      }
    }
  }
}

void TestEventNodes(const Context& context) {
  Stream stream;
  Stream other;
  DeviceMemory memory(8);
  PinnedMemory pinned(8);
  SetDevice(memory.get(), 0, 8);
  Event inside(CU_EVENT_DISABLE_TIMING);
  Event outside(CU_EVENT_DISABLE_TIMING);
  Builder graph(context);
  CUgraphNode wait = nullptr;
  CUgraphNode record = nullptr;
  CU_CHECK(cuGraphAddEventWaitNode(&wait, graph.get(), nullptr, 0, outside.get()));
  const CUgraphNode set = graph.Memset({wait}, memory.get(), 0x55, 4, 1);
  CU_CHECK(cuGraphAddEventRecordNode(&record, graph.get(), &set, 1, inside.get()));
  Executable exec(graph.get());

  Gate gate;
  gate.Close(other.get());
  CU_CHECK(cuEventRecord(outside.get(), other.get()));
  exec.Launch(stream);
  CU_EXPECT(cuStreamQuery(stream.get()), CUDA_ERROR_NOT_READY);
  gate.Open();
  other.Synchronize();
  CU_CHECK(cuEventSynchronize(outside.get()));
  stream.Synchronize();
  CU_CHECK(cuEventQuery(inside.get()));
  CU_CHECK(cuStreamWaitEvent(other.get(), inside.get(), 0));
  CU_CHECK(cuMemcpyDtoHAsync(pinned.as(), memory.get(), 4, other.get()));
  other.Synchronize();
  CHECK_EQ(*pinned.as<uint32_t>(), 0x55u);
}

void TestChildGraph(const Context& context) {
  Stream stream;
  DeviceMemory memory(12);
  Builder child(context);
  const CUgraphNode child_set = child.Memset({}, memory.get() + 4, 2, 4, 1);
  child.Move({child_set}, memory.get() + 8, memory.get(), 4);
  Builder parent(context);
  const CUgraphNode before = parent.Memset({}, memory.get(), 1, 4, 1);
  CUgraphNode node = nullptr;
  CU_CHECK(cuGraphAddChildGraphNode(&node, parent.get(), &before, 1, child.get()));
  parent.Memset({node}, memory.get(), 9, 4, 1);
  Executable exec(parent.get());
  exec.Launch(stream);
  stream.Synchronize();
  const uint32_t want[3] = {9, 2, 1};
  CheckDevice(memory.get(), want, sizeof want, "a graph with a child");
}

void TestStructure(const Context& context, const Kernels& kernels) {
  Builder graph(context);
  const CUgraphNode a = graph.Empty({});
  const CUgraphNode b = graph.Kernel({a}, kernels, 1);
  const CUgraphNode c = graph.Empty({a});
  const CUgraphNode d = graph.Empty({b, c});
  size_t count = 0;
  CU_CHECK(cuGraphGetNodes(graph.get(), nullptr, &count));
  CHECK_EQ(count, 4u);
  CU_CHECK(cuGraphGetRootNodes(graph.get(), nullptr, &count));
  CHECK_EQ(count, 1u);
  CU_CHECK(cuGraphGetEdges(graph.get(), nullptr, nullptr, &count));
  CHECK_EQ(count, 4u);
  CU_CHECK(cuGraphNodeGetDependencies(d, nullptr, &count));
  CHECK_EQ(count, 2u);
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  CU_CHECK(cuGraphNodeGetType(b, &type));
  CHECK_EQ(type, CU_GRAPH_NODE_TYPE_KERNEL);
  CU_EXPECT(cuGraphAddDependencies(graph.get(), &a, &a, 1), CUDA_ERROR_INVALID_VALUE);
  CU_CHECK(cuGraphRemoveDependencies(graph.get(), &c, &d, 1));
  CU_CHECK(cuGraphGetEdges(graph.get(), nullptr, nullptr, &count));
  CHECK_EQ(count, 3u);
  CU_CHECK(cuGraphDestroyNode(c));
  CU_CHECK(cuGraphGetNodes(graph.get(), nullptr, &count));
  CHECK_EQ(count, 3u);
  // A cycle cannot be instantiated.
  CU_CHECK(cuGraphAddDependencies(graph.get(), &d, &a, 1));
  CUgraphExec exec = nullptr;
  CHECK_NE(cuGraphInstantiate(&exec, graph.get(), 0), CUDA_SUCCESS);
}

void TestLarge(const Context& context, const Kernels& kernels) {
  Stream stream;
  Builder graph(context);
  CUgraphNode last = graph.Empty({});
  for (int i = 0; i < 500; ++i) last = graph.Kernel({last}, kernels, 1);
  Executable exec(graph.get());
  for (int i = 0; i < 10; ++i) exec.Launch(stream);
  stream.Synchronize();
}

// Several graphs and plain work share a stream and keep their order; one graph runs in two streams.
void TestOrderWithStream(const Context& context) {
  Stream stream;
  Stream other;
  DeviceMemory memory(8);
  PinnedMemory pinned(4 * 100);
  Builder graph(context);
  graph.Move({}, memory.get() + 4, memory.get(), 4);
  Executable exec(graph.get());
  for (uint32_t i = 0; i < 100; ++i) {
    CU_CHECK(cuMemsetD32Async(memory.get(), i, 1, stream.get()));
    exec.Launch(stream);
    CU_CHECK(cuMemcpyDtoHAsync(pinned.as() + 4 * i, memory.get() + 4, 4, stream.get()));
  }
  stream.Synchronize();
  for (uint32_t i = 0; i < 100; ++i) CHECK_EQ(pinned.as<uint32_t>()[i], i);
  for (int i = 0; i < 20; ++i) {
    exec.Launch(stream);
    exec.Launch(other);  // Waits for the launch before, as it is the same executable graph.
  }
  CU_CHECK(cuCtxSynchronize());
}

}  // namespace

TRACEE(graphs_explicit) {
  Context context;
  Kernels kernels;
  TestEachNodeAlone(context, kernels);
  TestHundredLaunches(context, kernels);
  TestHundredDeviceLaunches(context, kernels);
  TestForkJoin(context, kernels);
  TestLattice(context, kernels);
  TestEventNodes(context);
  TestChildGraph(context);
  TestStructure(context, kernels);
  TestLarge(context, kernels);
  TestOrderWithStream(context);
}
