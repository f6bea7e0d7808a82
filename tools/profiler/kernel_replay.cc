#include "tools/profiler/kernel_replay.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace phantora {
namespace {

constexpr size_t kMostModules = 256;
constexpr int kWarmUps = 2;
// A sample is long enough for the resolution of events, 0.5 us; there are several, but not for
// longer than this together.
constexpr double kSampleUs = 200, kAllSamplesUs = 20'000;
constexpr int kMostLaunches = 200;  // fewer than libcuda queues
constexpr int kFewestSamples = 5, kMostSamples = 25;

// NOLINTNEXTLINE(cppcoreguidelines-macro-usage): returns from the caller.
#define RETURN_IF_ERROR(expression) \
  if (absl::Status status_ = (expression); !status_.ok()) return status_

}  // namespace

absl::StatusOr<std::unique_ptr<KernelReplay>> KernelReplay::Create(uint64_t pool_bytes) {
  auto api = cuda::Api::Load();
  if (!api.ok()) return api.status();
  std::unique_ptr<KernelReplay> replay(new KernelReplay);
  const cuda::Api& cu = replay->api_ = *api;
  RETURN_IF_ERROR(cu.Check(cu.Init(0), "cuInit"));
  RETURN_IF_ERROR(cu.Check(cu.DeviceGet(&replay->device_, 0), "cuDeviceGet"));
  char name[256] = {};
  int version = 0, clock_khz = 0;
  RETURN_IF_ERROR(
      cu.Check(cu.DeviceGetName(name, sizeof name, replay->device_), "cuDeviceGetName"));
  RETURN_IF_ERROR(cu.Check(cu.DriverGetVersion(&version), "cuDriverGetVersion"));
  cu.DeviceGetAttribute(&clock_khz, cuda::kClockRate, replay->device_);
  cu.DeviceGetAttribute(&replay->gpu_.sms, cuda::kMultiprocessors, replay->device_);
  replay->gpu_.name = name;
  replay->gpu_.driver = absl::StrCat(version / 1000, ".", version % 1000 / 10);
  replay->gpu_.clock_mhz = clock_khz / 1000;
  replay->kernels_ = std::make_unique<LoadedKernels>(&replay->api_, replay->device_, kMostModules);
  cuda::Context context = nullptr;
  RETURN_IF_ERROR(cu.Check(cu.CtxCreate(&context, 0, replay->device_), "cuCtxCreate"));
  RETURN_IF_ERROR(cu.Check(cu.StreamCreate(&replay->stream_, 1), "cuStreamCreate"));
  RETURN_IF_ERROR(cu.Check(cu.EventCreate(&replay->begin_, 0), "cuEventCreate"));
  RETURN_IF_ERROR(cu.Check(cu.EventCreate(&replay->end_, 0), "cuEventCreate"));
  void* gate = nullptr;
  RETURN_IF_ERROR(
      cu.Check(cu.MemHostAlloc(&gate, 64, cuda::kHostAllocDeviceMap), "cuMemHostAlloc"));
  replay->gate_ = static_cast<volatile uint32_t*>(gate);
  *replay->gate_ = 0;
  RETURN_IF_ERROR(cu.Check(cu.MemHostGetDevicePointer(&replay->gate_address_, gate, 0),
                           "cuMemHostGetDevicePointer"));
  auto mirror = AddressMirror::Create(replay->api_, replay->device_, pool_bytes);
  if (!mirror.ok()) return mirror.status();
  replay->mirror_ = *std::move(mirror);
  return replay;
}

absl::StatusOr<double> KernelReplay::Sample(const cuda::LaunchConfig& config,
                                            cuda::Function function, void** extra, int launches) {
  ++passed_;
  RETURN_IF_ERROR(
      api_.Check(api_.StreamWaitValue32(stream_, gate_address_, passed_, cuda::kWaitGreaterOrEqual),
                 "cuStreamWaitValue32"));
  absl::Status status = api_.Check(api_.EventRecord(begin_, stream_), "cuEventRecord");
  for (int i = 0; status.ok() && i < launches; ++i) {
    status = api_.Check(api_.LaunchKernelEx(&config, function, nullptr, extra), "the launch");
  }
  if (status.ok()) status = api_.Check(api_.EventRecord(end_, stream_), "cuEventRecord");
  *gate_ = passed_;  // also after an error, or the stream would wait forever
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(api_.Check(api_.EventSynchronize(end_), "the kernel"));
  float milliseconds = 0;
  RETURN_IF_ERROR(
      api_.Check(api_.EventElapsedTime(&milliseconds, begin_, end_), "cuEventElapsedTime"));
  return static_cast<double>(milliseconds) * 1e3;
}

absl::StatusOr<ReplayTime> KernelReplay::Measure(const LaunchRequest& request) {
  if (!request.image) return absl::NotFoundError("its code is not known");
  const auto function = kernels_->Find(*request.image, request.symbol);
  if (!function.ok()) return function.status();
  cuda::LaunchConfig config;
  cuda::LaunchAttribute attributes[2];
  RETURN_IF_ERROR(kernels_->Configure(*function,
                                      {.grid = request.grid,
                                       .block = request.block,
                                       .cluster = request.cluster,
                                       .shared_bytes = request.shared_bytes},
                                      &config, attributes));
  config.stream = stream_;
  RETURN_IF_ERROR(mirror_->Map(request.memory));
  RETURN_IF_ERROR(mirror_->Fill(request.zeros, stream_));
  std::vector<uint8_t> parameters = request.parameters;
  size_t bytes = parameters.size();
  void* extra[] = {cuda::kParameterBuffer, parameters.data(), cuda::kParameterBytes, &bytes,
                   cuda::kParameterEnd};
  double once = 0;
  for (int i = 0; i < kWarmUps; ++i) {
    const auto sample = Sample(config, *function, extra, 1);
    if (!sample.ok()) return sample.status();
    once = *sample;
  }
  ReplayTime time;
  once = std::max(once, 0.5);
  time.launches_each =
      static_cast<int>(std::clamp(std::ceil(kSampleUs / once), 1.0, double{kMostLaunches}));
  const double each_us = once * time.launches_each;
  time.samples = static_cast<int>(
      std::clamp(kAllSamplesUs / each_us, double{kFewestSamples}, double{kMostSamples}));
  std::vector<double> samples;
  for (int i = 0; i < time.samples; ++i) {
    const auto sample = Sample(config, *function, extra, time.launches_each);
    if (!sample.ok()) return sample.status();
    samples.push_back(*sample / time.launches_each);
  }
  std::sort(samples.begin(), samples.end());
  time.microseconds = samples[samples.size() / 2];
  if (!(time.microseconds > 0)) return absl::InternalError("it took no time at all");
  // The quartiles: what lies outside does not count.
  const double spread = samples[samples.size() * 3 / 4] - samples[samples.size() / 4];
  time.error = std::max(0.01, spread / 2 / time.microseconds);
  return time;
}

}  // namespace phantora
