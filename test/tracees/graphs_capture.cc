// Graphs captured from streams: one stream, forks and joins by events, memory allocated inside;
// what is forbidden while capturing; replays in a row and with changed input.
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "test/tracees/kernels.h"
#include "test/tracees/tracee.h"

namespace {

CUgraphExec Instantiate(CUgraph graph) {
  CUgraphExec exec = nullptr;
  CU_CHECK(cuGraphInstantiate(&exec, graph, 0));
  CU_CHECK(cuGraphDestroy(graph));  // The executable graph needs it no more.
  return exec;
}

size_t NodeCount(CUgraph graph) {
  size_t count = 0;
  CU_CHECK(cuGraphGetNodes(graph, nullptr, &count));
  return count;
}

CUgraph EndCapture(const Stream& stream) {
  CUgraph graph = nullptr;
  CU_CHECK(cuStreamEndCapture(stream.get(), &graph));
  CHECK_TRUE(graph != nullptr);
  return graph;
}

void Begin(const Stream& stream) {
  CU_CHECK(cuStreamBeginCapture(stream.get(), CU_STREAM_CAPTURE_MODE_GLOBAL));
}

void EmptyKernel(const Kernels& kernels, const Stream& stream) {
  CUdeviceptr address = 0;
  uint32_t n = 0;
  void* parameters[] = {&address, &address, &address, &n};
  CU_CHECK(cuLaunchKernel(kernels.Get("vector_add"), 4, 1, 1, 64, 1, 1, 0, stream.get(), parameters,
                          nullptr));
}

void TestStatus() {
  Stream stream;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  CU_CHECK(cuStreamIsCapturing(stream.get(), &status));
  CHECK_EQ(status, CU_STREAM_CAPTURE_STATUS_NONE);
  Begin(stream);
  CU_CHECK(cuStreamIsCapturing(stream.get(), &status));
  CHECK_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  const CUgraph graph = EndCapture(stream);
  CHECK_EQ(NodeCount(graph), 0u);
  CU_CHECK(cuStreamIsCapturing(stream.get(), &status));
  CHECK_EQ(status, CU_STREAM_CAPTURE_STATUS_NONE);
  CU_CHECK(cuGraphDestroy(graph));
}

// Nothing runs while it is captured; each replay reads its input anew.
void TestReplay(const Kernels& kernels) {
  Stream stream;
  constexpr size_t kSize = 10000;
  DeviceMemory memory(3 * kSize);
  PinnedMemory in(kSize);
  PinnedMemory out(kSize);
  SetDevice(memory.get(), 0, memory.size());
  memset(out.as(), 0, kSize);
  CU_CHECK(cuCtxSynchronize());
  Begin(stream);
  CU_CHECK(cuMemcpyHtoDAsync(memory.get(), in.as(), kSize, stream.get()));
  EmptyKernel(kernels, stream);
  CU_CHECK(cuMemcpyDtoDAsync(memory.get() + kSize, memory.get(), kSize, stream.get()));
  CU_CHECK(cuMemsetD8Async(memory.get(), 0x99, kSize, stream.get()));
  EmptyKernel(kernels, stream);
  CU_CHECK(cuMemcpyDtoHAsync(out.as(), memory.get() + kSize, kSize, stream.get()));
  const CUgraph graph = EndCapture(stream);
  CHECK_EQ(NodeCount(graph), 6u);
  CheckDeviceFilled(memory.get(), 0, memory.size(), "nothing runs during capture");
  const CUgraphExec exec = Instantiate(graph);
  for (uint64_t round = 0; round < 10; ++round) {
    FillPattern(in.as(), kSize, round);
    CU_CHECK(cuGraphLaunch(exec, stream.get()));
    stream.Synchronize();
    CheckBytes(out.as(), in.as(), kSize, "replay " + std::to_string(round));
  }
  CheckDeviceFilled(memory.get(), 0x99, kSize, "set by the replay");
  CU_CHECK(cuGraphExecDestroy(exec));
}

struct Counter {
  uint32_t* word;
};

// The form of a training loop: one captured step, a hundred replays, one wait.
void TestHundredReplays(const Kernels& kernels) {
  Stream stream;
  DeviceMemory memory(8);
  PinnedMemory pinned(8);
  memset(pinned.as(), 0, 8);
  SetDevice(memory.get(), 0, 8);
  Counter counter{pinned.as<uint32_t>()};
  Begin(stream);
  CU_CHECK(cuLaunchHostFunc(
      stream.get(), [](void* data) { ++*static_cast<Counter*>(data)->word; }, &counter));
  CU_CHECK(cuMemcpyHtoDAsync(memory.get(), pinned.as(), 4, stream.get()));
  for (int i = 0; i < 20; ++i) EmptyKernel(kernels, stream);
  CU_CHECK(cuMemcpyDtoDAsync(memory.get() + 4, memory.get(), 4, stream.get()));
  CU_CHECK(cuMemcpyDtoHAsync(pinned.as() + 4, memory.get() + 4, 4, stream.get()));
  const CUgraphExec exec = Instantiate(EndCapture(stream));
  for (int i = 0; i < 100; ++i) CU_CHECK(cuGraphLaunch(exec, stream.get()));
  stream.Synchronize();
  CHECK_EQ(pinned.as<uint32_t>()[0], 100u);
  CHECK_EQ(pinned.as<uint32_t>()[1], 100u);
  CU_CHECK(cuGraphExecDestroy(exec));
}

// Side streams join the capture by waiting for an event of it, and must be joined again.
void TestForkJoin(const Kernels& kernels) {
  constexpr int kSides = 5;
  Stream stream;
  std::vector<std::unique_ptr<Stream>> sides;
  std::vector<std::unique_ptr<Event>> ends;
  DeviceMemory memory(4 * (kSides + 1));
  PinnedMemory out(4 * (kSides + 1));
  Event fork(CU_EVENT_DISABLE_TIMING);
  for (int i = 0; i < kSides; ++i) {
    sides.push_back(std::make_unique<Stream>());
    ends.push_back(std::make_unique<Event>(CU_EVENT_DISABLE_TIMING));
  }
  Begin(stream);
  CU_CHECK(cuMemsetD32Async(memory.get(), 7, kSides + 1, stream.get()));
  CU_CHECK(cuEventRecord(fork.get(), stream.get()));
  for (int i = 0; i < kSides; ++i) {
    CU_CHECK(cuStreamWaitEvent(sides[i]->get(), fork.get(), 0));
    EmptyKernel(kernels, *sides[i]);
    CU_CHECK(cuMemsetD32Async(memory.get() + 4 * (i + 1), static_cast<unsigned>(100 + i), 1,
                              sides[i]->get()));
    CU_CHECK(cuEventRecord(ends[i]->get(), sides[i]->get()));
  }
  EmptyKernel(kernels, stream);
  for (int i = 0; i < kSides; ++i) CU_CHECK(cuStreamWaitEvent(stream.get(), ends[i]->get(), 0));
  CU_CHECK(cuMemcpyDtoHAsync(out.as(), memory.get(), 4 * (kSides + 1), stream.get()));
  const CUgraphExec exec = Instantiate(EndCapture(stream));
  for (int round = 0; round < 30; ++round) {
    memset(out.as(), 0, out.size());
    CU_CHECK(cuGraphLaunch(exec, stream.get()));
    stream.Synchronize();
    CHECK_EQ(out.as<uint32_t>()[0], 7u);
    for (int i = 0; i < kSides; ++i) {
      CHECK_EQ(out.as<uint32_t>()[i + 1], static_cast<uint32_t>(100 + i));
    }
  }
  CU_CHECK(cuGraphExecDestroy(exec));
}

void TestErrors() {
  {
    Stream stream;
    Begin(stream);
    CU_EXPECT(cuStreamBeginCapture(stream.get(), CU_STREAM_CAPTURE_MODE_GLOBAL),
              CUDA_ERROR_ILLEGAL_STATE);
    CU_EXPECT(cuStreamSynchronize(stream.get()), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CU_CHECK(cuStreamIsCapturing(stream.get(), &status));
    CHECK_EQ(status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    CUgraph graph = nullptr;
    CU_EXPECT(cuStreamEndCapture(stream.get(), &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CHECK_TRUE(graph == nullptr);
    stream.Synchronize();  // The stream itself is fine.
  }
  {
    // A side stream that was never joined.
    Stream stream;
    Stream side;
    DeviceMemory memory(4);
    Event fork(CU_EVENT_DISABLE_TIMING);
    Begin(stream);
    CU_CHECK(cuEventRecord(fork.get(), stream.get()));
    CU_CHECK(cuStreamWaitEvent(side.get(), fork.get(), 0));
    CU_CHECK(cuMemsetD32Async(memory.get(), 1, 1, side.get()));
    CUgraph graph = nullptr;
    CU_EXPECT(cuStreamEndCapture(stream.get(), &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    stream.Synchronize();
    side.Synchronize();
  }
  {
    // Without a capture there is none to end; the legacy stream cannot be captured.
    Stream stream;
    CUgraph graph = nullptr;
    CHECK_NE(cuStreamEndCapture(stream.get(), &graph), CUDA_SUCCESS);
    CU_EXPECT(cuStreamBeginCapture(CU_STREAM_LEGACY, CU_STREAM_CAPTURE_MODE_GLOBAL),
              CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }
}

// Allocation and release inside the graph.
void TestMemoryNodes(const Context& context) {
  Stream stream;
  constexpr size_t kSize = 5 * kMiB;
  PinnedMemory out(4);
  CUdeviceptr block = 0;
  Begin(stream);
  CU_CHECK(cuMemAllocAsync(&block, kSize, stream.get()));
  CU_CHECK(cuMemsetD32Async(block, 0x31415926, kSize / 4, stream.get()));
  CU_CHECK(cuMemcpyDtoHAsync(out.as(), block + kSize - 4, 4, stream.get()));
  CU_CHECK(cuMemFreeAsync(block, stream.get()));
  const CUgraphExec exec = Instantiate(EndCapture(stream));
  for (int i = 0; i < 10; ++i) {
    *out.as<uint32_t>() = 0;
    CU_CHECK(cuGraphLaunch(exec, stream.get()));
    stream.Synchronize();
    CHECK_EQ(*out.as<uint32_t>(), 0x31415926u);
  }
  const auto statistic = [&](CUgraphMem_attribute attribute) {
    cuuint64_t value = 99;
    CU_CHECK(cuDeviceGetGraphMemAttribute(context.device(), attribute, &value));
    return uint64_t{value};
  };
  // "Used" is what belongs to executable graphs, running or not.
  CHECK_GE(statistic(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), kSize);
  CHECK_GE(statistic(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), kSize);
  CU_CHECK(cuGraphExecDestroy(exec));
  CU_CHECK(cuDeviceGraphMemTrim(context.device()));
  CHECK_EQ(statistic(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 0u);
  CHECK_EQ(statistic(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 0u);
}

}  // namespace

TRACEE(graphs_capture) {
  Context context;
  Kernels kernels;
  TestStatus();
  TestReplay(kernels);
  TestHundredReplays(kernels);
  TestForkJoin(kernels);
  TestErrors();
  TestMemoryNodes(context);
}
