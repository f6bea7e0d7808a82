#include "tools/profiler/profile_session.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "profiles/kernels/kernel_rows.h"

namespace phantora {
namespace {

// A context on a busy machine, loading an image of 100 MB.
constexpr std::chrono::seconds kToStart(120), kToSend(60);

}  // namespace

absl::StatusOr<std::unique_ptr<ProfileSession>> ProfileSession::Start(Options options,
                                                                      const RequestHeader& header) {
  std::unique_ptr<ProfileSession> session(new ProfileSession(std::move(options)));
  if (auto status = session->StartWorker(); !status.ok()) return status;
  if (session->gpu_.name != header.product && !session->options_.any_gpu) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the GPU here is an ", session->gpu_.name, ", but the launches were made for an ",
        header.product, " (--any-gpu measures them nevertheless)"));
  }
  return session;
}

absl::Status ProfileSession::StartWorker() {
  sent_.clear();
  worker_.reset();
  auto started = LineProcess::Start(options_.worker);
  if (!started.ok()) return started.status();
  worker_ = *std::move(started);
  const auto first = worker_->Receive(kToStart);
  absl::StatusOr<ProfiledGpu> gpu =
      first.ok() ? ParseProfiledGpu(*first)
                 : absl::StatusOr<ProfiledGpu>(absl::UnavailableError(absl::StrCat(
                       "the profiler of kernels does not start: ", first.status().message())));
  if (!gpu.ok()) {
    worker_.reset();
    return gpu.status();
  }
  gpu_ = *gpu;
  return absl::OkStatus();
}

ReplayResult ProfileSession::Try(const LaunchRequest& request) {
  ReplayResult failed = {.launch = request.id, .time = {}, .failed = "", .gave_up = true};
  if (worker_ == nullptr) {
    ++restarts_;
    if (auto status = StartWorker(); !status.ok()) {
      failed.failed = std::string(status.message());
      return failed;
    }
  }
  absl::Status sent;
  if (request.image && images_.contains(*request.image) && !sent_[*request.image]) {
    sent = worker_->Send(images_[*request.image], kToSend);
    sent_[*request.image] = true;
  }
  if (sent.ok()) sent = worker_->Send(ToLine(request), kToSend);
  const auto answer =
      sent.ok() ? worker_->Receive(options_.timeout) : absl::StatusOr<std::string>(sent);
  auto result =
      answer.ok() ? ParseReplayResult(*answer) : absl::StatusOr<ReplayResult>(answer.status());
  if (result.ok() && result->launch != request.id) {
    result = absl::InternalError("the profiler of kernels answered something else");
  }
  if (!result.ok()) {
    failed.failed = std::string(result.status().message());
    worker_->Kill();
    worker_.reset();
    return failed;
  }
  if (result->gave_up) worker_.reset();
  return *result;
}

ReplayResult ProfileSession::Measure(const LaunchRequest& request) {
  ReplayResult result = Try(request);
  if (!result.gave_up) return result;
  LaunchRequest again = request;
  again.zeros = true;
  return Try(again);
}

void ProfiledRows::Add(const LaunchRequest& request, const ReplayTime& time) {
  Row& row = rows_[request.row];
  const auto launches = static_cast<double>(std::max<uint64_t>(1, request.launches));
  row.shortest = row.launches == 0 ? time.microseconds : std::min(row.shortest, time.microseconds);
  row.longest = std::max(row.longest, time.microseconds);
  row.microseconds += time.microseconds * launches;
  row.launches += launches;
  row.error = std::max(row.error, time.error);
}

std::string Today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  return absl::StrFormat("%04d-%02d-%02d", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday);
}

std::string ProfiledRows::Text(const ProfiledGpu& gpu, const std::string& date, bool header) const {
  const std::string source = absl::StrCat("profiled-", date);
  std::string text = absl::StrFormat(
      "# %s: phantora-profile on an %s (%d SMs, at most %d MHz, driver of CUDA %s), "
      "second-level cache warm, launches one behind the other.\n",
      source, gpu.name, gpu.sms, gpu.clock_mhz, gpu.driver);
  if (header)
    absl::StrAppend(
        &text, absl::string_view(KernelRows::Header().data(), KernelRows::Header().size()), "\n");
  for (const auto& [name, row] : rows_) {
    const double mean = row.microseconds / row.launches;
    const double error = std::max(row.error, (row.longest - row.shortest) / 2 / mean);
    absl::StrAppendFormat(&text, "%s\t%.4g\t%.2g\t%s\n", name, mean, error, source);
  }
  return text;
}

}  // namespace phantora
