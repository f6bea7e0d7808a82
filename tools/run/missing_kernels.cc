#include "tools/run/missing_kernels.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/run/user_cache.h"
#include "trap/log.h"

namespace phantora {

std::string RowsOf(const MissingKernelsOptions& options, const std::string& gpu) {
  if (!options.rows.empty() || !options.measure) return options.rows;
  const std::string cache = UserCache();
  return cache.empty() ? "" : absl::StrCat(cache, "/measured/", gpu, ".tsv");
}

absl::StatusOr<std::string> ReadRows(const MissingKernelsOptions& options, const std::string& gpu) {
  const std::string file = RowsOf(options, gpu);
  std::error_code ignored;
  // What is to be made need not be there.
  if (file.empty() || (options.measure && !std::filesystem::exists(file, ignored))) return "";
  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  if (!in) return absl::NotFoundError(absl::StrCat("cannot read ", file));
  return text.str();
}

absl::StatusOr<std::unique_ptr<ProfilerClient>> StartProfiler(const MissingKernelsOptions& options,
                                                              const GpuProfile& profile) {
  if (!options.measure) return nullptr;
  return ProfilerClient::Start(options.profiler, {profile.name, profile.product});
}

absl::StatusOr<std::unique_ptr<MissingLaunches>> OpenMissing(const MissingKernelsOptions& options,
                                                             const GpuProfile& profile,
                                                             ProfilerClient* profiler) {
  if (!options.wanted()) return nullptr;
  return MissingLaunches::Open({{profile.name, profile.product}, options.list, profiler});
}

void CloseMissing(const MissingKernelsOptions& options, const GpuProfile& profile,
                  MissingLaunches& missing, const ProfilerClient* profiler) {
  if (const auto status = missing.Close(); !status.ok()) LogError(std::string(status.message()));
  if (profiler == nullptr) return;
  const std::string file = RowsOf(options, profile.name);
  LogSummary(absl::StrFormat("%d kernels were measured on the GPU here, %d could not be%s",
                             missing.measured(), missing.failed(),
                             file.empty() ? "" : absl::StrCat("; see ", file)));
  if (file.empty() || profiler->kinds() == 0) return;
  if (const auto status = profiler->Save(file); !status.ok()) {
    LogError(std::string(status.message()));
  }
}

}  // namespace phantora
