// Streams and events: flags, priorities, sixteen streams at work, waits across streams, queries
// before and after completion, elapsed times, host functions and callbacks, the legacy and the
// per-thread default stream. Gates opened by the host make "not yet finished" certain.
#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "test/tracees/kernels.h"
#include "test/tracees/tracee.h"

namespace {

float Elapsed(const Event& from, const Event& to) {
  float milliseconds = std::nanf("");
  CU_CHECK(cuEventElapsedTime(&milliseconds, from.get(), to.get()));
  return milliseconds;
}

void TestProperties(const Context& context) {
  int least = 0;
  int greatest = 0;
  CU_CHECK(cuCtxGetStreamPriorityRange(&least, &greatest));
  for (unsigned flags : {CU_STREAM_DEFAULT, CU_STREAM_NON_BLOCKING}) {
    for (int priority : {least, greatest, greatest - 100, least + 100}) {
      CUstream stream = nullptr;
      CU_CHECK(cuStreamCreateWithPriority(&stream, flags, priority));
      int got_priority = 99;
      unsigned got_flags = 99;
      CUcontext owner = nullptr;
      CU_CHECK(cuStreamGetPriority(stream, &got_priority));
      CU_CHECK(cuStreamGetFlags(stream, &got_flags));
      CU_CHECK(cuStreamGetCtx(stream, &owner));
      // A priority outside the range is brought into it.
      CHECK_EQ(got_priority, priority < greatest ? greatest : priority > least ? least : priority);
      CHECK_EQ(got_flags, flags);
      CHECK_EQ(owner, context.get());
      CU_CHECK(cuStreamQuery(stream));
      CU_CHECK(cuStreamSynchronize(stream));
      CU_CHECK(cuStreamDestroy(stream));
    }
  }
  CUstream stream = nullptr;
  CUevent event = nullptr;
  CU_EXPECT(cuStreamCreate(&stream, 0x100), CUDA_ERROR_INVALID_VALUE);
  CU_EXPECT(cuEventCreate(&event, 0x100), CUDA_ERROR_INVALID_VALUE);
  Stream a;
  Stream b;
  unsigned long long id_a = 0;  // NOLINT(google-runtime-int): the documented type.
  unsigned long long id_b = 0;  // NOLINT(google-runtime-int)
  CU_CHECK(cuStreamGetId(a.get(), &id_a));
  CU_CHECK(cuStreamGetId(b.get(), &id_b));
  CHECK_NE(id_a, id_b);
}

void TestQueryAndWait() {
  Stream stream;
  Gate gate;
  Event event;
  Event before;
  CU_CHECK(cuEventQuery(event.get()));  // An event never recorded is complete.
  CU_CHECK(cuEventSynchronize(event.get()));
  CU_CHECK(cuEventRecord(before.get(), stream.get()));
  gate.Close(stream.get());
  CU_CHECK(cuEventRecord(event.get(), stream.get()));
  for (int i = 0; i < 3; ++i) {
    CU_EXPECT(cuEventQuery(event.get()), CUDA_ERROR_NOT_READY);
    CU_EXPECT(cuStreamQuery(stream.get()), CUDA_ERROR_NOT_READY);
  }
  float milliseconds = 0;
  CU_EXPECT(cuEventElapsedTime(&milliseconds, before.get(), event.get()), CUDA_ERROR_NOT_READY);
  CU_CHECK(cuEventSynchronize(before.get()));
  gate.Open();
  CU_CHECK(cuEventSynchronize(event.get()));
  CU_CHECK(cuEventQuery(event.get()));
  CU_CHECK(cuStreamSynchronize(stream.get()));
  CU_CHECK(cuStreamQuery(stream.get()));
  CHECK_GE(Elapsed(before, event), 0.0f);

  // Recording again makes it incomplete again.
  gate.Close(stream.get());
  CU_CHECK(cuEventRecord(event.get(), stream.get()));
  CU_EXPECT(cuEventQuery(event.get()), CUDA_ERROR_NOT_READY);
  gate.Open();
  CU_CHECK(cuCtxSynchronize());
  CU_CHECK(cuEventQuery(event.get()));
}

void TestElapsed() {
  Stream stream;
  DeviceMemory memory(kMiB);
  constexpr int kEvents = 20;
  std::vector<std::unique_ptr<Event>> events;
  for (int i = 0; i < kEvents; ++i) {
    events.push_back(std::make_unique<Event>());
    CU_CHECK(cuEventRecord(events.back()->get(), stream.get()));
    CU_CHECK(cuMemsetD8Async(memory.get(), 1, memory.size(), stream.get()));
  }
  stream.Synchronize();
  float previous = 0;
  float sum = 0;
  for (int i = 1; i < kEvents; ++i) {
    const float step = Elapsed(*events[i - 1], *events[i]);
    const float total = Elapsed(*events[0], *events[i]);
    CHECK_GE(step, 0.0f);
    CHECK_GE(total, previous);
    sum += step;
    // The documented resolution is about half a microsecond.
    CHECK_LE(std::fabs(total - sum), 0.001f * static_cast<float>(i) + 0.001f);
    CHECK_LE(std::fabs(Elapsed(*events[i], *events[0]) + total), 0.001f);
    previous = total;
  }
  CHECK_EQ(Elapsed(*events[0], *events[0]), 0.0f);

  // While the stream sits before a gate, time passes between its events.
  Gate gate;
  Event first;
  Event last;
  CU_CHECK(cuEventRecord(first.get(), stream.get()));
  gate.Close(stream.get());
  CU_CHECK(cuEventRecord(last.get(), stream.get()));
  CU_CHECK(cuEventSynchronize(first.get()));
  const double start = Seconds();
  while (Seconds() < start + 0.02) {
  }
  gate.Open();
  stream.Synchronize();
  CHECK_GE(Elapsed(first, last), 15.0f);
  CHECK_LE(Elapsed(first, last), 60000.0f);

  Event untimed(CU_EVENT_DISABLE_TIMING);
  Event never;
  float milliseconds = 0;
  CU_CHECK(cuEventRecord(untimed.get(), stream.get()));
  stream.Synchronize();
  CU_EXPECT(cuEventElapsedTime(&milliseconds, first.get(), untimed.get()),
            CUDA_ERROR_INVALID_HANDLE);
  CU_EXPECT(cuEventElapsedTime(&milliseconds, first.get(), never.get()), CUDA_ERROR_INVALID_HANDLE);
}

void TestManyStreams(const Kernels& kernels) {
  constexpr int kStreams = 16;
  constexpr size_t kSize = 100003;
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<std::unique_ptr<DeviceMemory>> memory;
  std::vector<std::unique_ptr<PinnedMemory>> in;
  std::vector<std::unique_ptr<PinnedMemory>> out;
  for (int i = 0; i < kStreams; ++i) {
    streams.push_back(std::make_unique<Stream>());
    memory.push_back(std::make_unique<DeviceMemory>(2 * kSize));
    in.push_back(std::make_unique<PinnedMemory>(kSize));
    out.push_back(std::make_unique<PinnedMemory>(kSize));
  }
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < kStreams; ++i) {
      const CUstream stream = streams[i]->get();
      const CUdeviceptr device = memory[i]->get();
      FillPattern(in[i]->as(), kSize, static_cast<uint64_t>(100 * round + i));
      memset(out[i]->as(), 0, kSize);
      CU_CHECK(cuMemcpyHtoDAsync(device, in[i]->as(), kSize, stream));
      // A kernel over no elements: it takes its place in the stream and touches nothing.
      CUdeviceptr none = device;
      uint32_t zero = 0;
      void* parameters[] = {&none, &none, &none, &zero};
      CU_CHECK(cuLaunchKernel(kernels.Get("vector_add"), 4, 1, 1, 64, 1, 1, 0, stream, parameters,
                              nullptr));
      CU_CHECK(cuMemcpyDtoDAsync(device + kSize, device, kSize, stream));
      CU_CHECK(cuMemsetD8Async(device, 0xcc, kSize, stream));
      CU_CHECK(cuMemcpyDtoHAsync(out[i]->as(), device + kSize, kSize, stream));
    }
    CU_CHECK(cuCtxSynchronize());
    for (int i = 0; i < kStreams; ++i) {
      CU_CHECK(cuStreamQuery(streams[i]->get()));
      CheckBytes(out[i]->as(), in[i]->as(), kSize, "one of 16 streams");
    }
  }
}

void TestCrossStream() {
  // A token goes round eight streams; each adds its own byte and hands on by an event.
  constexpr int kStreams = 8;
  constexpr int kRounds = 20;
  std::vector<std::unique_ptr<Stream>> streams;
  for (int i = 0; i < kStreams; ++i) streams.push_back(std::make_unique<Stream>());
  DeviceMemory token(4);
  PinnedMemory log(4 * kStreams * kRounds);
  Event turn(CU_EVENT_DISABLE_TIMING);
  Gate gate;
  gate.Close(streams[0]->get());
  for (int i = 0; i < kStreams * kRounds; ++i) {
    const CUstream stream = streams[i % kStreams]->get();
    if (i > 0) CU_CHECK(cuStreamWaitEvent(stream, turn.get(), 0));
    CU_CHECK(cuMemcpyDtoHAsync(log.as() + 4 * i, token.get(), 4, stream));
    CU_CHECK(cuMemsetD32Async(token.get(), static_cast<unsigned>(i + 1), 1, stream));
    // One event recorded over and over: a wait refers to the record that precedes it.
    CU_CHECK(cuEventRecord(turn.get(), stream));
  }
  CU_EXPECT(cuEventQuery(turn.get()), CUDA_ERROR_NOT_READY);
  gate.Open();
  CU_CHECK(cuEventSynchronize(turn.get()));
  for (int i = 1; i < kStreams * kRounds; ++i) {
    CHECK_EQ(log.as<uint32_t>()[i], static_cast<uint32_t>(i));
  }
  uint32_t last = 0;
  CU_CHECK(cuMemcpyDtoH(&last, token.get(), 4));
  CHECK_EQ(last, static_cast<uint32_t>(kStreams * kRounds));
}

struct HostLog {
  std::vector<int> order;
  std::atomic<int> calls{0};
};
struct HostStep {
  HostLog* log;
  int number;
  const volatile uint32_t* device_result;  // What a copy before the step has put there.
  volatile uint32_t* next_input;           // What a copy after the step will read.
  uint32_t seen;
};

void RunStep(void* data) {
  auto* step = static_cast<HostStep*>(data);
  step->log->order.push_back(step->number);
  step->seen = *step->device_result;
  *step->next_input = static_cast<uint32_t>(1000 + step->number);
  ++step->log->calls;
}

void RunStepAsCallback(CUstream, CUresult status, void* data) {
  if (status != CUDA_SUCCESS) Fail("a stream callback got error %d", static_cast<int>(status));
  RunStep(data);
}

void TestHostFunctions() {
  Stream stream;
  DeviceMemory device(8);
  // libcuda lets no more than some 55 host calls wait in front of a closed gate.
  constexpr int kSteps = 32;
  PinnedMemory results(4 * kSteps);
  PinnedMemory inputs(4 * kSteps);
  PinnedMemory copies(4 * kSteps);
  memset(results.as(), 0, results.size());
  memset(inputs.as(), 0, inputs.size());
  memset(copies.as(), 0, copies.size());
  HostLog log;
  std::vector<HostStep> steps(kSteps);
  Gate gate;
  gate.Close(stream.get());
  for (int i = 0; i < kSteps; ++i) {
    steps[i] = {&log, i, results.as<uint32_t>() + i, inputs.as<uint32_t>() + i, 0};
    CU_CHECK(cuMemsetD32Async(device.get(), static_cast<unsigned>(i + 1), 1, stream.get()));
    CU_CHECK(cuMemcpyDtoHAsync(results.as() + 4 * i, device.get(), 4, stream.get()));
    if (i % 2 == 0) {
      CU_CHECK(cuLaunchHostFunc(stream.get(), RunStep, &steps[i]));
    } else {
      CU_CHECK(cuStreamAddCallback(stream.get(), RunStepAsCallback, &steps[i], 0));
    }
    CU_CHECK(cuMemcpyHtoDAsync(device.get() + 4, inputs.as() + 4 * i, 4, stream.get()));
    CU_CHECK(cuMemcpyDtoHAsync(copies.as() + 4 * i, device.get() + 4, 4, stream.get()));
  }
  CHECK_EQ(log.calls.load(), 0);
  CU_EXPECT(cuStreamQuery(stream.get()), CUDA_ERROR_NOT_READY);
  gate.Open();
  stream.Synchronize();
  CHECK_EQ(log.calls.load(), kSteps);
  for (int i = 0; i < kSteps; ++i) {
    CHECK_EQ(log.order[i], i);
    CHECK_EQ(steps[i].seen, static_cast<uint32_t>(i + 1));
    CHECK_EQ(copies.as<uint32_t>()[i], static_cast<uint32_t>(1000 + i));
  }
}

void TestDefaultStreams() {
  DeviceMemory device(4);
  PinnedMemory out(8);
  Gate gate;
  {
    // The legacy default stream waits for blocking streams and they for it.
    Stream blocking(CU_STREAM_DEFAULT);
    Event done(CU_EVENT_DISABLE_TIMING);
    gate.Close(blocking.get());
    CU_CHECK(cuMemsetD32Async(device.get(), 1, 1, blocking.get()));
    CU_CHECK(cuMemcpyDtoHAsync(out.as(), device.get(), 4, CU_STREAM_LEGACY));
    CU_CHECK(cuEventRecord(done.get(), nullptr));
    CU_EXPECT(cuEventQuery(done.get()), CUDA_ERROR_NOT_READY);
    CU_CHECK(cuMemsetD32Async(device.get(), 2, 1, blocking.get()));
    CU_CHECK(cuMemcpyDtoHAsync(out.as() + 4, device.get(), 4, nullptr));
    gate.Open();
    CU_CHECK(cuStreamSynchronize(nullptr));
    CHECK_EQ(out.as<uint32_t>()[0], 1u);
    CHECK_EQ(out.as<uint32_t>()[1], 2u);
  }
  {
    // A non-blocking stream has nothing to do with it.
    Stream independent(CU_STREAM_NON_BLOCKING);
    Event done(CU_EVENT_DISABLE_TIMING);
    gate.Close(independent.get());
    CU_CHECK(cuEventRecord(done.get(), nullptr));
    CU_CHECK(cuEventSynchronize(done.get()));
    CU_EXPECT(cuStreamQuery(independent.get()), CUDA_ERROR_NOT_READY);
    CU_CHECK(cuStreamQuery(CU_STREAM_LEGACY));
    gate.Open();
  }
  // Every thread has a default stream of its own, which the legacy one waits for.
  constexpr int kThreads = 4;
  DeviceMemory words(4 * kThreads);
  std::vector<std::thread> threads;
  CUcontext context = nullptr;
  CU_CHECK(cuCtxGetCurrent(&context));
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&words, context, i] {
      CU_CHECK(cuCtxSetCurrent(context));
      for (int round = 0; round < 50; ++round) {
        CU_CHECK(cuMemsetD32Async(words.get() + 4 * i, static_cast<unsigned>(100 * i + round), 1,
                                  CU_STREAM_PER_THREAD));
      }
      if (i % 2 == 0) CU_CHECK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    });
  }
  for (std::thread& thread : threads) thread.join();
  uint32_t got[kThreads] = {};
  CU_CHECK(cuMemcpyDtoH(got, words.get(), sizeof got));  // On the legacy stream.
  for (int i = 0; i < kThreads; ++i) CHECK_EQ(got[i], static_cast<uint32_t>(100 * i + 49));
}

void TestDestroyBusyStream() {
  DeviceMemory device(4);
  Gate gate;
  CUstream stream = nullptr;
  CUevent event = nullptr;
  Event kept(CU_EVENT_DISABLE_TIMING);
  SetDevice(device.get(), 0, 4);
  CU_CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CU_CHECK(cuEventCreate(&event, 0));
  gate.Close(stream);
  CU_CHECK(cuMemsetD32Async(device.get(), 7, 1, stream));
  CU_CHECK(cuEventRecord(event, stream));
  CU_CHECK(cuEventRecord(kept.get(), stream));
  // Both calls return at once; the work goes on.
  CU_CHECK(cuEventDestroy(event));
  CU_CHECK(cuStreamDestroy(stream));
  CU_EXPECT(cuEventQuery(kept.get()), CUDA_ERROR_NOT_READY);
  gate.Open();
  CU_CHECK(cuEventSynchronize(kept.get()));
  uint32_t got = 0;
  CU_CHECK(cuMemcpyDtoH(&got, device.get(), 4));
  CHECK_EQ(got, 7u);
}

void TestManyEvents() {
  Stream stream;
  std::vector<std::unique_ptr<Event>> events;
  for (int i = 0; i < 3000; ++i) {
    events.push_back(std::make_unique<Event>(i % 2 ? CU_EVENT_DISABLE_TIMING : CU_EVENT_DEFAULT));
    CU_CHECK(cuEventRecord(events.back()->get(), stream.get()));
  }
  CU_CHECK(cuEventSynchronize(events.back()->get()));
  for (const auto& event : events) CU_CHECK(cuEventQuery(event->get()));
}

}  // namespace

TRACEE(streams_events) {
  Context context;
  Kernels kernels;
  TestProperties(context);
  TestQueryAndWait();
  TestElapsed();
  TestManyStreams(kernels);
  TestCrossStream();
  TestHostFunctions();
  TestDefaultStreams();
  TestDestroyBusyStream();
  TestManyEvents();
}
