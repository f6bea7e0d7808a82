#include "tools/run/learned_host_time.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace phantora {
namespace {

// 100 bytes a key are more than there are.
constexpr off_t kLargestFile = static_cast<off_t>(HostProfile::kMostKeys) * 100;

// nullopt if it is not there.
absl::StatusOr<std::optional<HostProfile>> Read(const std::string& file) {
  struct stat status;
  if (file.empty() || (stat(file.c_str(), &status) != 0 && errno == ENOENT)) return std::nullopt;
  std::ifstream in(file);
  if (!in || !S_ISREG(status.st_mode) || status.st_size > kLargestFile) {
    return absl::InvalidArgumentError(absl::StrCat("cannot read ", file, ": ",
                                                   !in ? std::strerror(errno)
                                                   : !S_ISREG(status.st_mode)
                                                       ? "not an ordinary file"
                                                       : "longer than any host profile"));
  }
  auto profile = HostProfile::Parse(
      std::string(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()));
  if (!profile.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": ", std::string(profile.status().message())));
  }
  return *std::move(profile);
}

absl::Status CannotWrite(const std::string& file) {
  return absl::InvalidArgumentError(
      absl::StrCat("cannot write ", file, ": ", std::strerror(errno)));
}

double Percent(VirtualSpan part, VirtualSpan whole) {
  return whole > VirtualSpan() ? 100.0 * static_cast<double>(part.picoseconds()) /
                                     static_cast<double>(whole.picoseconds())
                               : 0;
}

}  // namespace

absl::Status LearnedHostTime::Check(const std::string& file) { return Read(file).status(); }

absl::StatusOr<std::unique_ptr<LearnedHostTime>> LearnedHostTime::Open(const HostTime& host,
                                                                       const std::string& file) {
  auto known = Read(file);
  if (!known.ok()) return known.status();
  std::unique_ptr<LearnedHostTime> learned(new LearnedHostTime(host, file, *std::move(known)));
  if (!file.empty() && !learned->known_) {
    if (!std::ofstream(learned->Partial())) return CannotWrite(learned->Partial());
  }
  return learned;
}

absl::Status LearnedHostTime::Close() {
  if (file_.empty() || known_) return absl::OkStatus();
  std::ofstream out(Partial(), std::ios::trunc);
  out << segments_.learned().Text();
  out.close();
  if (!out) return CannotWrite(Partial());
  return std::rename(Partial().c_str(), file_.c_str()) == 0 ? absl::OkStatus() : CannotWrite(file_);
}

std::string LearnedHostTime::Line() const {
  const HostSegments::Counters& parts = segments_.counters();
  const VirtualSpan all = parts.taken.cost + parts.repeated.cost + parts.full.cost +
                          parts.similar.cost + parts.unknown.cost;
  const double seconds = static_cast<double>(all.nanoseconds()) * 1e-9;
  if (known_) {
    return absl::StrFormat(
        "host time: %.3f s of all threads by %s: %.1f %% for what it knows, %.1f %% for what is "
        "like that (%d pieces); %d pieces are not known, and cost nothing but their launches",
        seconds, file_, Percent(parts.full.cost, all), Percent(parts.similar.cost, all),
        parts.similar.segments, parts.unknown.segments);
  }
  return absl::StrFormat(
      "host time: %.3f s of all threads, %.1f %% of it for what had come %d times before, and cost "
      "its mean%s",
      seconds, Percent(parts.repeated.cost, all), HostSegments::kRepeats,
      file_.empty() ? "" : absl::StrCat("; written to ", file_));
}

}  // namespace phantora
