#include "tools/profiler/profiler_client.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "trap/gpu/kernels/kernel_image.h"
#include "trap/log.h"

namespace phantora {
namespace {

// For a context on a busy machine; for a measurement with a restart in it.
constexpr std::chrono::seconds kToStart(180), kToMeasure(180), kToSend(60);
constexpr char kProfile[] = "phantora-profile";

}  // namespace

absl::StatusOr<std::unique_ptr<ProfilerClient>> ProfilerClient::Start(const std::string& command,
                                                                      const RequestHeader& header) {
  std::vector<std::string> words = {"/bin/sh", "-c", absl::StrCat("exec ", command)};
  if (command.empty()) {
    std::error_code ignored;
    const auto self = std::filesystem::read_symlink("/proc/self/exe", ignored);
    words = {self.parent_path() / kProfile, "-", "--results", "-"};
  }
  auto process = LineProcess::Start(words);
  if (!process.ok()) return process.status();
  std::unique_ptr<ProfilerClient> client(new ProfilerClient(*std::move(process)));
  auto status = client->process_->Send(ToLine(header), kToSend);
  if (!status.ok()) return status;
  const auto first = client->process_->Receive(kToStart);
  if (!first.ok()) {
    return absl::UnavailableError(
        absl::StrCat("--gpu-profiler does not start: ", std::string(first.status().message())));
  }
  auto gpu = ParseProfiledGpu(*first);
  if (!gpu.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("--gpu-profiler: ", std::string(gpu.status().message())));
  }
  client->gpu_ = *std::move(gpu);
  return client;
}

absl::StatusOr<ReplayResult> ProfilerClient::Ask(const LaunchRequest& request,
                                                 const KernelImage* image) {
  if (image != nullptr && sent_.insert(*request.image).second) {
    // One that cannot be read any more is not sent, and the kernel then not measured.
    if (const auto cubin = image->Read()) {
      auto status = process_->Send(ImageToLine(*request.image, *cubin), kToSend);
      if (!status.ok()) return status;
    }
  }
  auto status = process_->Send(ToLine(request), kToSend);
  if (!status.ok()) return status;
  const auto line = process_->Receive(kToMeasure);
  if (!line.ok()) return line.status();
  return ParseReplayResult(*line);
}

std::optional<LaunchMeasurer::Measured> ProfilerClient::Measure(const LaunchRequest& request,
                                                                const KernelImage* image) {
  if (process_ == nullptr) return std::nullopt;
  const auto result = Ask(request, image);
  if (!result.ok()) {
    LogWarning(absl::StrCat("the profiler of kernels failed (",
                            std::string(result.status().message()),
                            "); what follows is not measured"));
    process_.reset();
    return std::nullopt;
  }
  if (!result->failed.empty()) {
    LogInfo(absl::StrCat("not measured: ", request.kernel, ": ", result->failed));
    return std::nullopt;
  }
  rows_.Add(request, result->time);
  return Measured{result->time.microseconds, result->time.error};
}

absl::Status ProfilerClient::Save(const std::string& file) const {
  std::error_code ignored;
  const std::filesystem::path path(file);
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), ignored);
  const bool fresh =
      !std::filesystem::exists(path, ignored) || std::filesystem::file_size(path, ignored) == 0;
  std::ofstream out(file, std::ios::app);
  out << rows_.Text(gpu_, Today(), fresh);
  if (!out.flush()) return absl::InvalidArgumentError(absl::StrCat("cannot write ", file));
  return absl::OkStatus();
}

}  // namespace phantora
