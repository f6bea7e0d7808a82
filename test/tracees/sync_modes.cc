// Contexts that spin, yield or block while they wait, and events that block: two hundred launches
// with a wait each. Without wake-ups every wait would take 100 ms, the driver's own poll interval;
// a single slow wait says nothing on a busy machine.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "test/tracees/kernels.h"
#include "test/tracees/tracee.h"

namespace {

constexpr int kRounds = 200;

void Measure(const std::string& what, const std::function<void()>& round) {
  round();  // The first call may load something.
  std::vector<double> waits;
  for (int i = 0; i < kRounds; ++i) {
    const double start = Seconds();
    round();
    waits.push_back(Seconds() - start);
  }
  std::sort(waits.begin(), waits.end());
  const double median = waits[kRounds / 2];
  printf("%s: median %.1f us, slowest %.1f us\n", what.c_str(), median * 1e6, waits.back() * 1e6);
  if (median > 0.09) Fail("%s: half of the waits took %.1f ms", what.c_str(), median * 1e3);
}

void TestContext(unsigned flags, const std::string& name) {
  Context context(0, flags);
  unsigned got = 99;
  CU_CHECK(cuCtxGetFlags(&got));
  CHECK_EQ(got & CU_CTX_SCHED_MASK, flags);
  Kernels kernels;
  Stream stream;
  DeviceMemory memory(4096);
  PinnedMemory pinned(4096);
  uint32_t value = 0;
  const CUfunction busy = kernels.Get("busy");
  uint32_t nanoseconds = 50000;  // Long enough that the host really waits.
  void* parameters[] = {&nanoseconds};
  const auto launch = [&] {
    CU_CHECK(cuLaunchKernel(busy, 1, 1, 1, 1, 1, 1, 0, stream.get(), parameters, nullptr));
  };
  Measure(name + ", cuStreamSynchronize", [&] {
    launch();
    stream.Synchronize();
  });
  Measure(name + ", cuCtxSynchronize", [&] {
    launch();
    CU_CHECK(cuCtxSynchronize());
  });
  Measure(name + ", copy and wait", [&] {
    ++value;
    CU_CHECK(cuMemsetD32Async(memory.get(), value, 1, stream.get()));
    CU_CHECK(cuMemcpyDtoHAsync(pinned.as(), memory.get(), 4, stream.get()));
    stream.Synchronize();
    CHECK_EQ(*pinned.as<uint32_t>(), value);
  });
  Measure(name + ", cuMemcpyDtoH", [&] {
    uint32_t back = 0;
    CU_CHECK(cuMemcpyDtoH(&back, memory.get(), 4));
    CHECK_EQ(back, value);
  });
  for (unsigned event_flags :
       {0u, static_cast<unsigned>(CU_EVENT_BLOCKING_SYNC),
        static_cast<unsigned>(CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING)}) {
    Event event(event_flags);
    Measure(name + ", event with flags " + std::to_string(event_flags), [&] {
      launch();
      CU_CHECK(cuEventRecord(event.get(), stream.get()));
      CU_CHECK(cuEventSynchronize(event.get()));
      CU_CHECK(cuEventQuery(event.get()));
    });
  }
  Measure(name + ", host function", [&] {
    int calls = 0;
    CU_CHECK(cuLaunchHostFunc(
        stream.get(), [](void* data) { ++*static_cast<int*>(data); }, &calls));
    stream.Synchronize();
    CHECK_EQ(calls, 1);
  });
}

}  // namespace

TRACEE(sync_modes) {
  TestContext(CU_CTX_SCHED_AUTO, "auto");
  TestContext(CU_CTX_SCHED_SPIN, "spin");
  TestContext(CU_CTX_SCHED_YIELD, "yield");
  TestContext(CU_CTX_SCHED_BLOCKING_SYNC, "blocking");
}
