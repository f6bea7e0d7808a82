// What the driver's calls cost the host, as one line of JSON on standard output. Nothing is
// asserted: a test compares the numbers with its own limits.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "test/tracees/kernels.h"
#include "test/tracees/tracee.h"

namespace {

class Json {
 public:
  void Add(const char* name, double value) {
    char text[128];
    snprintf(text, sizeof text, "%s\"%s\": %.6g", text_.empty() ? "" : ", ", name, value);
    text_ += text;
  }
  void Print() const { printf("{%s}\n", text_.c_str()); }

 private:
  std::string text_;
};

double Time(const std::function<void()>& body) {
  const double start = Seconds();
  body();
  return Seconds() - start;
}

// Microseconds per call.
double Mean(int calls, const std::function<void()>& body) {
  return Time([&] {
           for (int i = 0; i < calls; ++i) body();
         }) /
         calls * 1e6;
}

double Median(int calls, const std::function<void()>& body) {
  std::vector<double> times;
  for (int i = 0; i < calls; ++i) times.push_back(Time(body) * 1e6);
  std::nth_element(times.begin(), times.begin() + calls / 2, times.end());
  return times[static_cast<size_t>(calls / 2)];
}

void MeasureCalls(Json& json) {
  Kernels kernels;
  Stream stream;
  Event event;
  DeviceMemory memory(4 * kMiB);
  const CUfunction function = kernels.Get("vector_add");
  CUdeviceptr address = memory.get();
  uint32_t n = 32;
  void* parameters[] = {&address, &address, &address, &n};
  const auto launch = [&] {
    CU_CHECK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream.get(), parameters, nullptr));
  };
  for (int i = 0; i < 100; ++i) launch();
  stream.Synchronize();
  json.Add("launch_burst_us", Mean(500, launch));
  stream.Synchronize();
  json.Add("launch_sustained_us", Time([&] {
                                    for (int i = 0; i < 20000; ++i) launch();
                                    stream.Synchronize();
                                  }) / 20000 *
                                      1e6);
  json.Add("launch_sync_us", Median(1000, [&] {
             launch();
             stream.Synchronize();
           }));
  json.Add("event_sync_us", Median(1000, [&] {
             CU_CHECK(cuEventRecord(event.get(), stream.get()));
             CU_CHECK(cuEventSynchronize(event.get()));
           }));
  uint32_t word = 0;
  json.Add("dtoh_4_us", Median(1000, [&] { CU_CHECK(cuMemcpyDtoH(&word, address, 4)); }));
  json.Add("htod_4_us", Median(1000, [&] { CU_CHECK(cuMemcpyHtoD(address, &word, 4)); }));
  json.Add("alloc_free_4mib_us", Median(100, [] {
             CUdeviceptr block = 0;
             CU_CHECK(cuMemAlloc(&block, 4 * kMiB));
             CU_CHECK(cuMemFree(block));
           }));
  json.Add("alloc_free_async_us", Median(200, [&] {
             CUdeviceptr block = 0;
             CU_CHECK(cuMemAllocAsync(&block, kMiB, stream.get()));
             CU_CHECK(cuMemFreeAsync(block, stream.get()));
           }));
  stream.Synchronize();
}

void MeasureCopies(Json& json) {
  constexpr size_t kSize = 256 * kMiB;
  DeviceMemory memory(kSize);
  Bytes pageable(kSize, 1);
  PinnedMemory pinned(kSize);
  memset(pinned.as(), 1, kSize);
  const auto speed = [&](const void* from) {
    return static_cast<double>(kSize) / 1e9 / Time([&] {
             CU_CHECK(cuMemcpyHtoD(memory.get(), from, kSize));
             CU_CHECK(cuCtxSynchronize());
           });
  };
  json.Add("htod_pageable_gbs", speed(pageable.data()));
  json.Add("htod_pageable_again_gbs", speed(pageable.data()));
  json.Add("htod_pinned_gbs", speed(pinned.as()));
}

}  // namespace

TRACEE(launch_bench) {
  Json json;
  json.Add("rss_before_mib", static_cast<double>(ResidentBytes()) / kMiB);
  json.Add("init_ms", Time([] { CU_CHECK(cuInit(0)); }) * 1e3);
  CUdevice device = 0;
  CUcontext context = nullptr;
  CU_CHECK(cuDeviceGet(&device, 0));
  json.Add("context_ms", Time([&] { CU_CHECK(cuCtxCreate(&context, 0, device)); }) * 1e3);
  json.Add("rss_context_mib", static_cast<double>(ResidentBytes()) / kMiB);
  MeasureCalls(json);
  MeasureCopies(json);
  json.Add("context_destroy_ms", Time([&] { CU_CHECK(cuCtxDestroy(context)); }) * 1e3);
  json.Print();
}
