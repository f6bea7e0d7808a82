#include "tools/executor/executor_client.h"

#include <string.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/executor/messages.h"
#include "tools/executor/transport.h"
#include "trap/gpu/kernels/kernel_image.h"

namespace phantora {
namespace {

using executor::Answer;
using executor::Kind;
using executor::Request;

// For a context on a busy machine; for all that was begun and is not over, of which no kernel may
// take longer than the process itself allows.
constexpr std::chrono::seconds kToStart(180), kToWork(180);
constexpr char kProfile[] = "phantora-profile";
constexpr uint64_t kAlignment = 256;

class ProcessSpace : public RemoteSpace {
 public:
  static absl::StatusOr<std::unique_ptr<ProcessSpace>> Open(UniqueFd socket, const UniqueFd& memory,
                                                            std::string* name, Answer* about) {
    void* const at =
        mmap(nullptr, executor::kSharedBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
    if (at == MAP_FAILED) return absl::InternalError(absl::StrCat("mmap: ", strerror(errno)));
    std::unique_ptr<ProcessSpace> space(
        new ProcessSpace(std::move(socket), static_cast<uint8_t*>(at)));
    if (auto status = space->Receive(kToStart, *about, *name); !status.ok()) return status;
    return space;
  }
  ~ProcessSpace() override { munmap(shared_, executor::kSharedBytes); }

  absl::Status Reserve(uint64_t address) override {
    return Ask({.kind = Kind::kReserve, .address = address});
  }
  absl::Status Map(uint64_t address) override {
    return Send({.kind = Kind::kMap, .address = address});
  }
  absl::Status Unmap(uint64_t address) override {
    return Send({.kind = Kind::kUnmap, .address = address});
  }
  absl::Status MapHost(uint64_t address, uint64_t bytes, int file, uint64_t offset) override {
    const Request request = {
        .kind = Kind::kMapHost, .address = address, .bytes = bytes, .place = offset};
    auto status = executor::SendDescriptors(
        socket_.get(), {reinterpret_cast<const char*>(&request), sizeof request}, {file}, kToWork);
    return status.ok() ? Answered() : status;
  }
  absl::Status UnmapHost(uint64_t address, uint64_t bytes) override {
    return Send({.kind = Kind::kUnmapHost, .address = address, .bytes = bytes});
  }
  absl::Status Put(uint64_t address, uint64_t bytes,
                   absl::FunctionRef<void(uint8_t*)> fill) override {
    if (put_ + bytes > executor::kPutBytes) {
      // Until it has taken what lies there.
      if (auto status = Finish(); !status.ok()) return status;
      put_ = 0;
    }
    const uint64_t place = executor::kPutAt + put_;
    fill(shared_ + place);
    put_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return Send({.kind = Kind::kPut, .address = address, .bytes = bytes, .place = place});
  }
  absl::StatusOr<absl::Span<const uint8_t>> Get(uint64_t address, uint64_t bytes) override {
    if (auto status = Ask({.kind = Kind::kGet, .address = address, .bytes = bytes}); !status.ok()) {
      return status;
    }
    return absl::Span<const uint8_t>(shared_ + executor::kGetAt, bytes);
  }
  absl::Status Copy(uint64_t to, uint64_t from, uint64_t bytes) override {
    return Send({.kind = Kind::kCopy, .address = to, .bytes = bytes, .place = from});
  }
  absl::Status Fill(uint64_t address, uint64_t bytes, absl::Span<const uint8_t> pattern) override {
    uint64_t value = 0;
    memcpy(&value, pattern.data(), std::min(pattern.size(), sizeof value));
    return Send({.kind = Kind::kFill,
                 .address = address,
                 .bytes = bytes,
                 .place = value,
                 .count = pattern.size()});
  }
  absl::StatusOr<uint64_t> Know(const KernelImage& of, const std::string& symbol) override {
    const auto image = of.place();
    const auto known = kernels_.find({image, symbol});
    if (known != kernels_.end()) {
      if (known->second.why_not.empty()) return known->second.number;
      return absl::NotFoundError(known->second.why_not);
    }
    Kernel& kernel = kernels_[{image, symbol}];
    kernel.number = kernels_.size();
    const auto [sent, is_new] = images_.try_emplace(image, images_.size() + 1);
    if (is_new) {
      const auto cubin = of.Read();
      if (!cubin) {
        kernel.why_not = "its library cannot be read any more";
        return absl::NotFoundError(kernel.why_not);
      }
      auto status = Send({.kind = Kind::kImage, .count = sent->second}, *cubin);
      if (!status.ok()) return status;
    }
    const auto status = Ask({.kind = Kind::kKernel, .place = sent->second, .count = kernel.number},
                            {reinterpret_cast<const uint8_t*>(symbol.data()), symbol.size()});
    if (absl::IsNotFound(status)) kernel.why_not = std::string(status.message());
    if (!status.ok()) return status;
    return kernel.number;
  }
  absl::Status Launch(const RemoteLaunch& launch) override {
    executor::LaunchHead head = {};
    std::copy(launch.grid.begin(), launch.grid.end(), head.grid);
    std::copy(launch.block.begin(), launch.block.end(), head.block);
    std::copy(launch.cluster.begin(), launch.cluster.end(), head.cluster);
    head.shared_bytes = launch.shared_bytes;
    head.cooperative = launch.cooperative ? 1 : 0;
    head.parameter_bytes = static_cast<uint32_t>(launch.parameters.size());
    message_.resize(sizeof head + launch.parameters.size());
    memcpy(message_.data(), &head, sizeof head);
    std::copy(launch.parameters.begin(), launch.parameters.end(), message_.begin() + sizeof head);
    return Send({.kind = Kind::kLaunch, .count = launch.kernel}, message_);
  }
  absl::Status Finish() override { return Ask({.kind = Kind::kFinish}); }

 private:
  ProcessSpace(UniqueFd socket, uint8_t* shared) : socket_(std::move(socket)), shared_(shared) {}

  absl::Status Send(Request request, absl::Span<const uint8_t> rest = {}) {
    request.following = static_cast<uint32_t>(rest.size());
    return executor::SendAll(socket_.get(), &request, sizeof request, rest.data(), rest.size(),
                             kToWork);
  }
  absl::Status Receive(std::chrono::milliseconds timeout, Answer& answer, std::string& said) {
    auto status = executor::ReceiveAll(socket_.get(), &answer, sizeof answer, timeout);
    if (!status.ok()) return status;
    said.resize(std::min<uint32_t>(answer.following, 1 << 16));
    status = executor::ReceiveAll(socket_.get(), said.data(), said.size(), timeout);
    if (!status.ok()) return status;
    return absl::Status(static_cast<absl::StatusCode>(answer.code), answer.code == 0 ? "" : said);
  }
  absl::Status Ask(const Request& request, absl::Span<const uint8_t> rest = {}) {
    if (auto status = Send(request, rest); !status.ok()) return status;
    return Answered();
  }
  absl::Status Answered() {
    Answer answer;
    std::string said;
    return Receive(kToWork, answer, said);
  }

  struct Kernel {
    uint64_t number = 0;
    std::string why_not;
  };
  using Place = std::pair<const void*, uint64_t>;

  UniqueFd socket_;
  uint8_t* shared_;
  uint64_t put_ = 0;
  std::map<Place, uint64_t> images_;
  std::map<std::pair<Place, std::string>, Kernel> kernels_;
  std::vector<uint8_t> message_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ExecutorClient>> ExecutorClient::Start(const std::string& command,
                                                                      int architecture) {
  std::vector<std::string> words = {"/bin/sh", "-c", absl::StrCat("exec ", command)};
  if (command.empty()) {
    std::error_code ignored;
    const auto self = std::filesystem::read_symlink("/proc/self/exe", ignored);
    words = {self.parent_path() / kProfile, "execute"};
  }
  auto process = LineProcess::Start(words);
  if (!process.ok()) return process.status();
  std::unique_ptr<ExecutorClient> client(new ExecutorClient(*std::move(process)));
  auto first = client->NewSpace();
  if (!first.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("--execute gpu: ", std::string(first.status().message())));
  }
  client->first_ = *std::move(first);
  // Machine code is for one generation, and for what is newer within it.
  const int here = static_cast<int>(client->architecture_);
  if (here / 10 != architecture / 10 || here < architecture) {
    return absl::FailedPreconditionError(
        absl::StrFormat("--execute gpu: the %s here runs code for sm_%d, the emulated GPU's is for "
                        "sm_%d; emulate one "
                        "of its generation (--gpu)",
                        client->name_, here, architecture));
  }
  return client;
}

absl::StatusOr<std::unique_ptr<RemoteSpace>> ExecutorClient::NewSpace() {
  if (first_ != nullptr) return std::move(first_);
  if (auto status = process_->Send("space", kToWork); !status.ok()) return status;
  auto descriptors = executor::ReceiveDescriptors(process_->socket(), kToStart);
  if (!descriptors.ok()) return descriptors.status();
  std::string name;
  Answer about;
  auto space =
      ProcessSpace::Open(std::move(descriptors->first), descriptors->second, &name, &about);
  if (!space.ok()) return space.status();
  if (name_.empty()) {
    name_ = name;
    free_bytes_ = about.free_bytes;
    architecture_ = about.architecture;
  }
  return space;
}

}  // namespace phantora
