#include "tools/run/driver_libraries.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "tools/run/setup.h"
#include "trap/log.h"

namespace phantora {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSystemDirectories[] = {"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib",
                                              "/usr/local/nvidia/lib64",
                                              "/usr/lib/x86_64-linux-gnu/nvidia/current"};

// Recorded on a real GPU, and what all tests run with.
constexpr char kDefaultVersion[] = "550.163.01";

// "550.163.01" from libcuda.so.550.163.01, which libcuda.so.1 links to.
std::optional<std::string> VersionOf(const fs::path& libcuda) {
  std::error_code error;
  const fs::path file = fs::canonical(libcuda, error);
  if (error) return std::nullopt;
  std::string name = file.filename().string();
  absl::string_view version = name;
  if (!absl::ConsumePrefix(&version, "libcuda.so.") || version.empty() ||
      !absl::ascii_isdigit(version[0]) || version == "1") {
    return std::nullopt;
  }
  return std::string(version);
}

absl::StatusOr<DriverLibraries> FromDirectory(const fs::path& directory, bool force,
                                              bool installed) {
  const fs::path libcuda = directory / "libcuda.so.1";
  std::error_code error;
  if (!fs::exists(libcuda, error)) {
    return absl::NotFoundError(absl::StrCat("there is no ", libcuda.string()));
  }
  auto text = VersionOf(libcuda);
  if (!text) {
    return absl::InvalidArgumentError(
        absl::StrCat(libcuda.string(), " does not link to libcuda.so.VERSION"));
  }
  auto version = ResolveDriverVersion(*text, force);
  if (!version.ok()) return version.status();
  DriverLibraries result{*version, fs::canonical(libcuda).string(), directory.string(), "",
                         installed};
  const fs::path programs = directory.parent_path() / "bin";
  if (!installed && fs::exists(programs / "nvidia-smi", error)) {
    result.program_directory = programs.string();
  }
  return result;
}

fs::path CachedDirectory(const std::string& version) {
  return fs::path(CacheDirectory()) / "drivers" / version / "lib";
}

}  // namespace

std::string CacheDirectory() {
  if (const char* cache = std::getenv("PHANTORA_CACHE"); cache != nullptr && *cache != '\0') {
    return cache;
  }
  const char* home = std::getenv("HOME");
  return absl::StrCat(home != nullptr ? home : "/root", "/.cache/phantora");
}

std::vector<std::string> CachedDriverVersions() {
  std::vector<std::string> versions;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(fs::path(CacheDirectory()) / "drivers", error)) {
    if (fs::exists(entry.path() / "lib" / "libcuda.so.1", error)) {
      versions.push_back(entry.path().filename().string());
    }
  }
  // Branches have three digits, so that text order is version order.
  std::sort(versions.rbegin(), versions.rend());
  return versions;
}

absl::StatusOr<DriverLibraries> FindDriverLibraries(const std::string& wanted, bool force) {
  if (wanted.find('/') != std::string::npos) return FromDirectory(wanted, force, false);
  const auto cached = CachedDriverVersions();
  if (wanted != "auto") {
    auto version = ResolveDriverVersion(wanted, force);
    if (!version.ok()) return version.status();
    auto found = FromDirectory(CachedDirectory(wanted), force, false);
    if (found.ok()) return found;
    return absl::NotFoundError(
        absl::StrCat("driver ", wanted, " is not in ", CacheDirectory(),
                     "/drivers (there: ", cached.empty() ? "nothing" : absl::StrJoin(cached, ", "),
                     "). Run ", SetupCommand(), ", or give the directory of its libcuda.so.1"));
  }
  absl::StatusOr<DriverLibraries> never_run = absl::NotFoundError("");
  for (const char* directory : kSystemDirectories) {
    auto found = FromDirectory(directory, force, true);
    if (found.ok() && found->version.evidence == DriverEvidence::kHeaders) {
      never_run = std::move(found);
      continue;
    }
    if (found.ok()) return found;
    if (absl::IsUnimplemented(found.status())) {
      LogInfo(absl::StrCat("the installed ", std::string(found.status().message()),
                           "; looking for another"));
    }
  }
  std::vector<std::string> in_order = {kDefaultVersion};
  in_order.insert(in_order.end(), cached.begin(), cached.end());
  for (const std::string& version : in_order) {
    auto found = FromDirectory(CachedDirectory(version), force, false);
    if (found.ok()) return found;
  }
  if (never_run.ok()) return never_run;
  return absl::NotFoundError(
      absl::StrCat("no NVIDIA driver libraries: none with a tested version is installed, and ",
                   CacheDirectory(), "/drivers has none. Run ", SetupCommand()));
}

}  // namespace phantora
