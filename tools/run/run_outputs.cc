#include "tools/run/run_outputs.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "tools/run/output_paths.h"
#include "trap/linux/unique_fd.h"

namespace phantora {
namespace {

template <typename T, typename Opened>
absl::Status Take(std::unique_ptr<T>& to, Opened opened) {
  if (!opened.ok()) return opened.status();
  to = *std::move(opened);
  return absl::OkStatus();
}

// It is written at the end; looked at now.
absl::Status CheckWritable(const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
  if (file.valid()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("cannot write ", path, ": ", std::strerror(errno)));
}

// Of the command: where programs may put what belongs to the report
// (tools/observe/served_requests.h).
constexpr char kReportVariable[] = "PHANTORA_REPORT";

absl::StatusOr<RunOutputs> CheckAll(const SessionOptions& options) {
  // In the order of Open().
  OutputPaths paths;
  absl::Status status = paths.File(options.log_calls);
  status.Update(paths.Directory(options.report));
  status.Update(paths.File(options.trace));
  for (const char* name : {"/report.json", "/report.html"}) {
    if (!options.report.empty()) status.Update(paths.File(options.report + name));
  }
  status.Update(paths.File(options.log_kernels));
  status.Update(paths.File(options.missing.list));
  status.Update(paths.File(options.record_step));
  status.Update(paths.File(options.host_profile));
  status.Update(LearnedHostTime::Check(options.host_profile));
  if (const std::string& ranks = options.job.output; RankOutput::IsDirectory(ranks)) {
    status.Update(paths.Directory(ranks));
  }
  if (!status.ok()) return status;
  RunOutputs outputs;
  outputs.calls = std::make_unique<CallLog>();
  return outputs;
}

absl::Status OpenRanks(const SessionOptions& options, const Job& job, RunOutputs& outputs) {
  std::vector<std::string> labels;
  for (const RankCommand& rank : job.ranks) labels.push_back(rank.label);
  const auto status = Take(outputs.ranks, RankOutput::Create(options.job.output, labels));
  if (!status.ok()) return status;
  for (size_t rank = 0; rank < job.ranks.size(); ++rank) {
    outputs.rank_descriptors.push_back(outputs.ranks->DescriptorsOf(static_cast<int>(rank)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RunOutputs> RunOutputs::Open(const SessionOptions& options, const RunPlan& plan,
                                            ProfilerClient* profiler) {
  if (options.dry_run) return CheckAll(options);
  RunOutputs outputs;
  outputs.calls = std::make_unique<CallLog>();
  absl::Status status;
  if (!options.log_calls.empty())
    status.Update(Take(outputs.calls, CallLog::Open(options.log_calls)));
  unsetenv(kReportVariable);
  if (!options.report.empty()) {
    status.Update(Take(outputs.report, ReportFiles::Open(options.report)));
    setenv(kReportVariable, std::filesystem::absolute(options.report).c_str(), 1);
  }
  // It may be in the directory of the report.
  if (!options.trace.empty()) status.Update(Take(outputs.trace, TraceWriter::Open(options.trace)));
  if (!options.log_kernels.empty()) {
    status.Update(Take(outputs.kernels, KernelLog::Open(options.log_kernels, plan.profile.name)));
  }
  status.Update(Take(outputs.missing, OpenMissing(options.missing, plan.profile, profiler)));
  status.Update(CheckWritable(options.record_step));
  if (options.host_time.mode == HostTimeMode::kLearned) {
    status.Update(
        Take(outputs.host_time, LearnedHostTime::Open(options.host_time, options.host_profile)));
  }
  if (plan.job && status.ok()) status.Update(OpenRanks(options, *plan.job, outputs));
  if (!status.ok()) return status;
  return outputs;
}

}  // namespace phantora
