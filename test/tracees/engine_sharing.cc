// What kernels and copies of several streams make of one GPU: kernels that fit together overlap,
// those that fill the GPU queue, copies run beside kernels, priorities and events order. With
// --kernel-us N, kernels last that long. Order alone is checked unless --simulated says that times
// are exact (phantora-run --host-time fixed --kernel-time N).
#include <cmath>
#include <functional>
#include <memory>
#include <vector>

#include "test/tracees/kernels.h"
#include "test/tracees/tracee.h"

namespace {

// libcuda makes eight channels for kernels of a context unless CUDA_DEVICE_MAX_CONNECTIONS says
// otherwise, and gives them to streams in turn.
constexpr int kChannels = 8;

float Elapsed(const Event& from, const Event& to) {
  float milliseconds = std::nanf("");
  CU_CHECK(cuEventElapsedTime(&milliseconds, from.get(), to.get()));
  return milliseconds;
}

class PriorityStream {
 public:
  explicit PriorityStream(int priority) {
    CU_CHECK(cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, priority));
  }
  ~PriorityStream() { CU_CHECK(cuStreamDestroy(stream_)); }
  PriorityStream(const PriorityStream&) = delete;
  PriorityStream& operator=(const PriorityStream&) = delete;
  CUstream get() const { return stream_; }

 private:
  CUstream stream_ = nullptr;
};

class Test {
 public:
  Test(const Context& context, const Args& args)
      : kernel_us_(static_cast<uint32_t>(args.Number("kernel-us", 1000))),
        simulated_(args.Has("simulated")),
        busy_(kernels_.Get("busy")) {
    CU_CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks_, busy_, kThreads, 0));
    CHECK_GE(blocks_, 1);
    blocks_ *= context.Attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    for (int i = 0; i <= kChannels; ++i) streams_.push_back(std::make_unique<PriorityStream>(0));
    // What happens once, as loading code, happens before anything is measured.
    for (const auto& stream : streams_) Kernel(*stream, 1);
    CU_CHECK(cuCtxSynchronize());
  }

  void OneBlockEachOverlaps() {
    Measure(kChannels);
    for (int i = 0; i < kChannels; ++i) EndsAfter(i, 1);
  }
  // The ninth stream gets the channel of the first again, and a channel runs one kernel after the
  // other. Hardware need not wait here: libcuda orders the kernels of a stream by semaphores, and
  // two streams with a kernel each have none between them.
  void TheNinthStreamSharesAChannel() {
    Measure(kChannels + 1);
    for (int i = 0; i < kChannels; ++i) EndsAfter(i, 1);
    EndsAfter(kChannels, 2);
  }
  void KernelsThatFillTheGpuQueue() {
    Measure(3, blocks_);
    for (int i = 0; i < 3; ++i) EndsAfter(i, i + 1);
  }
  void AHalfAndAWhole() {
    Begin();
    Kernel(*streams_[0], blocks_ / 2);
    End(0);
    Kernel(*streams_[1], blocks_);
    End(1);
    CU_CHECK(cuCtxSynchronize());
    EndsAfter(0, 1);
    EndsAfter(1, 1.5);
  }
  void ACopyOverlapsAKernel() {
    constexpr size_t kSize = 4 * kMiB;
    DeviceMemory device(kSize);
    PinnedMemory host(kSize);
    FillPattern(host.as(), kSize, 1);
    Begin();
    Kernel(*streams_[0], blocks_);
    End(0);
    CU_CHECK(cuMemcpyHtoDAsync(device.get(), host.as(), kSize, streams_[1]->get()));
    End(1);
    CU_CHECK(cuCtxSynchronize());
    EndsAfter(0, 1);
    if (simulated_) CHECK_LE(Elapsed(start_, *ends_[1]), 0.5f * KernelMs());
    CheckDevice(device.get(), host.as(), kSize, "a copy beside a kernel");
  }
  void AnEventOrdersStreams() {
    Begin();
    Kernel(*streams_[0], 1);
    End(0);
    CU_CHECK(cuStreamWaitEvent(streams_[1]->get(), ends_[0]->get(), 0));
    Kernel(*streams_[1], 1);
    End(1);
    CU_CHECK(cuCtxSynchronize());
    EndsAfter(0, 1);
    EndsAfter(1, 2);
    CHECK_GE(Elapsed(*ends_[0], *ends_[1]), 0.9f * KernelMs());
  }
  void AnUrgentStreamOvertakes() {
    int least = 0, greatest = 0;
    CU_CHECK(cuCtxGetStreamPriorityRange(&least, &greatest));
    for (int priority = greatest; priority < least; ++priority) {
      // Its channel must not be that of one of the others.
      const PriorityStream urgent(priority), unused(least), another(priority);
      Begin();
      Kernel(*streams_[3], blocks_);
      End(0, *streams_[3]);
      Kernel(*streams_[4], blocks_);
      End(1, *streams_[4]);
      Kernel(urgent, blocks_);
      End(2, urgent);
      CU_CHECK(cuCtxSynchronize());
      EndsAfter(2, 1);
      EndsAfter(0, 2);
      EndsAfter(1, 3);
    }
  }
  // A diamond takes three kernels' time as a graph, four in a stream.
  void BranchesOfAGraphOverlap() {
    CUgraph graph = nullptr;
    CUgraphExec runnable = nullptr;
    CU_CHECK(cuGraphCreate(&graph, 0));
    uint32_t nanoseconds = kernel_us_ * 1000;
    void* parameters[] = {&nanoseconds};
    CUDA_KERNEL_NODE_PARAMS node{};
    node.func = busy_;
    node.gridDimX = node.gridDimY = node.gridDimZ = 1;
    node.blockDimX = kThreads;
    node.blockDimY = node.blockDimZ = 1;
    node.kernelParams = parameters;
    CUgraphNode head, branches[2], join;
    CU_CHECK(cuGraphAddKernelNode(&head, graph, nullptr, 0, &node));
    for (CUgraphNode& branch : branches) {
      CU_CHECK(cuGraphAddKernelNode(&branch, graph, &head, 1, &node));
    }
    CU_CHECK(cuGraphAddKernelNode(&join, graph, branches, 2, &node));
    CU_CHECK(cuGraphInstantiate(&runnable, graph, 0));
    const CUstream stream = streams_[0]->get();
    for (int replays : {1, 1, 3}) {
      Begin();
      for (int i = 0; i < replays; ++i) CU_CHECK(cuGraphLaunch(runnable, stream));
      End(0);
      CU_CHECK(cuCtxSynchronize());
      const double most = 3.1 * replays;
      if (simulated_) CHECK_LE(Elapsed(start_, *ends_[0]), most * KernelMs());
      CHECK_GE(Elapsed(start_, *ends_[0]), 2.9 * replays * KernelMs());
    }
    CU_CHECK(cuGraphExecDestroy(runnable));
    CU_CHECK(cuGraphDestroy(graph));
  }

 private:
  static constexpr int kThreads = 256;

  float KernelMs() const { return static_cast<float>(kernel_us_) / 1000.0f; }

  void Kernel(const PriorityStream& stream, int blocks) {
    uint32_t nanoseconds = kernel_us_ * 1000;
    void* parameters[] = {&nanoseconds};
    CU_CHECK(cuLaunchKernel(busy_, static_cast<unsigned>(blocks), 1, 1, kThreads, 1, 1, 0,
                            stream.get(), parameters, nullptr));
    // In simulated time, what streams submit between two calls may start in any order.
    Seconds();
  }
  void Begin() {
    ends_.clear();
    for (int i = 0; i <= kChannels; ++i) ends_.push_back(std::make_unique<Event>());
    CU_CHECK(cuEventRecord(start_.get(), streams_[0]->get()));
    Seconds();
  }
  void End(int i) { End(i, *streams_[i]); }
  void End(int i, const PriorityStream& stream) {
    CU_CHECK(cuEventRecord(ends_[i]->get(), stream.get()));
  }
  // A kernel on each of so many streams.
  void Measure(int streams, int blocks = 1) {
    Begin();
    for (int i = 0; i < streams; ++i) {
      Kernel(*streams_[i], blocks);
      End(i);
    }
    CU_CHECK(cuCtxSynchronize());
  }
  // Simulated launches and records cost microseconds, not a tenth of a kernel.
  void EndsAfter(int i, double kernels) {
    const float took = Elapsed(start_, *ends_[i]);
    CHECK_GE(took, 0.9f * KernelMs());
    if (!simulated_) return;
    CHECK_GE(took, (kernels - 0.1) * KernelMs());
    CHECK_LE(took, (kernels + 0.1) * KernelMs());
  }

  const uint32_t kernel_us_;
  const bool simulated_;
  Kernels kernels_;
  const CUfunction busy_;
  int blocks_ = 0;  // that the GPU holds at once
  std::vector<std::unique_ptr<PriorityStream>> streams_;
  Event start_;
  std::vector<std::unique_ptr<Event>> ends_;
};

}  // namespace

TRACEE(engine_sharing) {
  Context context;
  Test test(context, args);
  test.OneBlockEachOverlaps();
  test.TheNinthStreamSharesAChannel();
  test.KernelsThatFillTheGpuQueue();
  test.AHalfAndAWhole();
  test.ACopyOverlapsAKernel();
  test.AnEventOrdersStreams();
  test.AnUrgentStreamOvertakes();
  test.BranchesOfAGraphOverlap();
}
