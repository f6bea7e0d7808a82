#include "tools/executor/space_worker.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tools/executor/messages.h"
#include "tools/executor/space_memory.h"
#include "tools/executor/transport.h"
#include "tools/profiler/cuda_api.h"
#include "tools/profiler/loaded_kernels.h"

namespace phantora {
namespace {

using executor::Answer;
using executor::Kind;
using executor::Request;

constexpr std::chrono::milliseconds kForever(-1);
constexpr std::chrono::seconds kToSend(60);
constexpr uint32_t kMostFollowing = uint32_t{1} << 31;

// NOLINTNEXTLINE(cppcoreguidelines-macro-usage): returns from the caller.
#define RETURN_IF_ERROR(expression) \
  if (absl::Status status_ = (expression); !status_.ok()) return status_

class SpaceWorker {
 public:
  explicit SpaceWorker(bool synchronous) : synchronous_(synchronous) {}

  absl::Status Start(std::string* name, Answer* about) {
    auto api = cuda::Api::Load();
    if (!api.ok()) return api.status();
    api_ = *api;
    shared_ = static_cast<uint8_t*>(mmap(nullptr, executor::kSharedBytes, PROT_READ | PROT_WRITE,
                                         MAP_SHARED, executor::kMemoryFd, 0));
    if (shared_ == MAP_FAILED) return absl::InternalError("mmap");
    RETURN_IF_ERROR(api_.Check(api_.Init(0), "cuInit"));
    RETURN_IF_ERROR(api_.Check(api_.DeviceGet(&device_, 0), "cuDeviceGet"));
    char text[256] = {};
    RETURN_IF_ERROR(api_.Check(api_.DeviceGetName(text, sizeof text, device_), "cuDeviceGetName"));
    *name = text;
    cuda::Context context = nullptr;
    RETURN_IF_ERROR(api_.Check(api_.CtxCreate(&context, 0, device_), "cuCtxCreate"));
    RETURN_IF_ERROR(api_.Check(api_.StreamCreate(&stream_, 1), "cuStreamCreate"));
    size_t left = 0, total = 0;
    RETURN_IF_ERROR(api_.Check(api_.MemGetInfo(&left, &total), "cuMemGetInfo"));
    about->free_bytes = left;
    int major = 0, minor = 0;
    api_.DeviceGetAttribute(&major, cuda::kComputeMajor, device_);
    api_.DeviceGetAttribute(&minor, cuda::kComputeMinor, device_);
    about->architecture = static_cast<uint64_t>(10 * major + minor);
    memory_ = std::make_unique<SpaceMemory>(&api_, device_, stream_);
    kernels_ = std::make_unique<LoadedKernels>(&api_, device_, 0);
    return absl::OkStatus();
  }

  // Whether it is one that is answered.
  static bool IsAnswered(Kind kind) {
    return kind == Kind::kReserve || kind == Kind::kMapHost || kind == Kind::kGet ||
           kind == Kind::kKernel || kind == Kind::kFinish;
  }

  // `file`: that came along.
  absl::Status Do(const Request& request, const std::vector<uint8_t>& rest, const UniqueFd& file) {
    switch (request.kind) {
      case Kind::kReserve:
        return memory_->Reserve(request.address);
      case Kind::kMap:
        return memory_->Map(request.address);
      case Kind::kUnmap:
        return memory_->Unmap(request.address);
      case Kind::kMapHost:
        return memory_->MapHost(request.address, request.bytes, file.get(), request.place);
      case Kind::kUnmapHost:
        return memory_->UnmapHost(request.address, request.bytes);
      case Kind::kPut:
        if (!IsIn(request.place, request.bytes)) return absl::InvalidArgumentError("a put");
        return api_.Check(
            api_.MemcpyHtoDAsync(request.address, shared_ + request.place, request.bytes, stream_),
            "cuMemcpyHtoDAsync");
      case Kind::kGet:
        if (!IsIn(executor::kGetAt, request.bytes)) return absl::InvalidArgumentError("a get");
        RETURN_IF_ERROR(api_.Check(api_.MemcpyDtoHAsync(shared_ + executor::kGetAt, request.address,
                                                        request.bytes, stream_),
                                   "cuMemcpyDtoHAsync"));
        return Finish();
      case Kind::kCopy:
        return api_.Check(
            api_.MemcpyDtoDAsync(request.address, request.place, request.bytes, stream_),
            "cuMemcpyDtoDAsync");
      case Kind::kFill:
        return Fill(request);
      case Kind::kImage:
        // What does not load shows with its first kernel.
        if (auto status = kernels_->Load(request.count, rest); !status.ok()) {
          bad_images_[request.count] = std::string(status.message());
        }
        return absl::OkStatus();
      case Kind::kKernel:
        return Find(request, std::string(rest.begin(), rest.end()));
      case Kind::kLaunch:
        return Launch(request.count, rest);
      case Kind::kFinish:
        return Finish();
    }
    return absl::InvalidArgumentError("a request of another version");
  }

 private:
  static bool IsIn(uint64_t place, uint64_t bytes) {
    return place <= executor::kSharedBytes && bytes <= executor::kSharedBytes - place;
  }
  absl::Status Finish() {
    return api_.Check(api_.StreamSynchronize(stream_), "a kernel or copy that was begun before");
  }
  absl::Status Fill(const Request& request) {
    const uint64_t count = request.bytes / std::max<uint64_t>(request.count, 1);
    switch (request.count) {
      case 1:
        return api_.Check(
            api_.MemsetD8Async(request.address, static_cast<unsigned char>(request.place), count,
                               stream_),
            "cuMemsetD8Async");
      case 2:
        return api_.Check(api_.MemsetD16Async(request.address,
                                              static_cast<unsigned short>(request.place),  // NOLINT
                                              count, stream_),
                          "cuMemsetD16Async");
      case 4:
        return api_.Check(api_.MemsetD32Async(request.address, static_cast<unsigned>(request.place),
                                              count, stream_),
                          "cuMemsetD32Async");
      default:
        return absl::InvalidArgumentError("a fill");
    }
  }
  absl::Status Find(const Request& request, const std::string& symbol) {
    if (const auto bad = bad_images_.find(request.place); bad != bad_images_.end()) {
      return absl::NotFoundError(absl::StrCat("its image does not load: ", bad->second));
    }
    auto function = kernels_->Find(request.place, symbol);
    if (!function.ok()) return absl::NotFoundError(function.status().message());
    functions_[request.count] = {*function, symbol};
    return absl::OkStatus();
  }
  absl::Status Launch(uint64_t kernel, const std::vector<uint8_t>& rest) {
    executor::LaunchHead head;
    const auto function = functions_.find(kernel);
    if (function == functions_.end() || rest.size() < sizeof head) {
      return absl::InvalidArgumentError("a launch");
    }
    std::memcpy(&head, rest.data(), sizeof head);
    parameters_.assign(rest.begin() + sizeof head, rest.end());
    LaunchForm form = {.shared_bytes = head.shared_bytes, .cooperative = head.cooperative != 0};
    std::copy_n(head.grid, 3, form.grid.begin());
    std::copy_n(head.block, 3, form.block.begin());
    std::copy_n(head.cluster, 3, form.cluster.begin());
    cuda::LaunchConfig config;
    cuda::LaunchAttribute attributes[2];
    RETURN_IF_ERROR(kernels_->Configure(function->second.first, form, &config, attributes));
    config.stream = stream_;
    size_t bytes = parameters_.size();
    void* extra[] = {cuda::kParameterBuffer, parameters_.data(), cuda::kParameterBytes, &bytes,
                     cuda::kParameterEnd};
    const std::string& name = function->second.second;
    RETURN_IF_ERROR(api_.Check(api_.LaunchKernelEx(&config, function->second.first, nullptr,
                                                   parameters_.empty() ? nullptr : extra),
                               absl::StrCat("a launch of ", name).c_str()));
    return synchronous_ ? api_.Check(api_.StreamSynchronize(stream_), name.c_str())
                        : absl::OkStatus();
  }

  const bool synchronous_;
  cuda::Api api_;
  cuda::Device device_ = 0;
  cuda::Stream stream_ = nullptr;
  uint8_t* shared_ = nullptr;
  std::unique_ptr<SpaceMemory> memory_;
  std::unique_ptr<LoadedKernels> kernels_;
  std::map<uint64_t, std::string> bad_images_;
  std::map<uint64_t, std::pair<cuda::Function, std::string>> functions_;  // with their names
  std::vector<uint8_t> parameters_;
};

absl::Status Say(const absl::Status& status, const std::string& text, Answer answer = {}) {
  answer.code = static_cast<uint32_t>(status.code());
  answer.following = static_cast<uint32_t>(text.size());
  return executor::SendAll(executor::kSocketFd, &answer, sizeof answer, text.data(), text.size(),
                           kToSend);
}

// Ends this process when one request takes longer than it may.
class Watch {
 public:
  explicit Watch(int most_seconds) : most_(most_seconds), thread_([this] { Run(); }) {}
  ~Watch() {
    ended_ = true;
    thread_.join();
  }
  void Begin() { begun_ = Now(); }
  void End() { begun_ = 0; }

 private:
  static int64_t Now() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  void Run() {
    while (!ended_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      const int64_t begun = begun_;
      if (begun != 0 && Now() - begun > int64_t{1000} * most_) {
        std::cerr << "phantora-profile: a kernel has run for " << most_
                  << " s on the GPU and is given up" << std::endl;
        _exit(1);
      }
    }
  }
  const int most_;
  std::atomic<int64_t> begun_ = 0;
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

}  // namespace

int RunSpaceWorker(int most_seconds, bool synchronous) {
  SpaceWorker worker(synchronous);
  std::string name;
  Answer about;
  absl::Status status = worker.Start(&name, &about);
  const std::string text = status.ok() ? name : std::string(status.message());
  if (!Say(status, text, about).ok() || !status.ok()) return 1;
  Watch watch(most_seconds);
  std::vector<uint8_t> rest;
  for (;;) {
    Request request;
    UniqueFd file;
    if (!executor::ReceiveAll(executor::kSocketFd, &request, sizeof request, kForever, &file)
             .ok()) {
      break;
    }
    if (request.following > kMostFollowing) break;
    rest.resize(request.following);
    if (!executor::ReceiveAll(executor::kSocketFd, rest.data(), rest.size(), kForever).ok()) break;
    watch.Begin();
    // After an error nothing is done any more.
    const absl::Status done = status.ok() ? worker.Do(request, rest, file) : status;
    watch.End();
    const bool answered = SpaceWorker::IsAnswered(request.kind);
    // What was asked for and cannot be is no error of what follows.
    const bool stays = absl::IsNotFound(done) || absl::IsAlreadyExists(done) ||
                       absl::IsFailedPrecondition(done) || absl::IsOutOfRange(done);
    if (!done.ok() && !(answered && stays)) status = done;
    if (answered && !Say(done, std::string(done.message())).ok()) break;
  }
  // The driver takes its time to give a context up, which the kernel does as well.
  _exit(0);
}

}  // namespace phantora
