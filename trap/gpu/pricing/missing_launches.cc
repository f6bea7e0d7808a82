#include "trap/gpu/pricing/missing_launches.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "profiles/kernels/kernel_rows.h"
#include "trap/gpu/front/qmd.h"
#include "trap/gpu/kernels/kernel_image.h"
#include "trap/gpu/kernels/known_kernel.h"
#include "trap/gpu/pricing/launch_key.h"

namespace phantora {
namespace {

// Bytes that are kept of launches: a hostile program may invent them.
constexpr uint64_t kMostBytes = 256 << 20;

// How fast a product is depends on its numbers, by the power that they take; the others' may be
// indices, which must not lead anywhere.
bool NeedsNumbers(WorkFamily family) {
  return family == WorkFamily::kGemm || family == WorkFamily::kAttention ||
         family == WorkFamily::kConvolution;
}

absl::Status Failed(const std::string& path) {
  return absl::InvalidArgumentError(
      absl::StrCat("cannot write the list of missing kernels ", path, ": ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<MissingLaunches>> MissingLaunches::Open(Options options) {
  std::unique_ptr<MissingLaunches> missing(new MissingLaunches(std::move(options)));
  if (missing->options_.file.empty()) return missing;
  missing->file_ = std::fopen(missing->options_.file.c_str(), "we");
  if (missing->file_ == nullptr) return Failed(missing->options_.file);
  return missing;
}

MissingLaunches::~MissingLaunches() {
  if (file_ != nullptr) std::fclose(file_);
}

std::vector<std::pair<uint64_t, uint64_t>> MissingLaunches::MemoryOf(
    absl::Span<const uint8_t> parameters, AddressSpace& memory) {
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (size_t at = 0; at + 8 <= parameters.size(); at += 8) {
    // Not two small numbers, nor what libcuda keeps for itself below 1 TiB.
    if (!LooksLikePointer(parameters, at)) continue;
    uint64_t address;
    std::memcpy(&address, parameters.data() + at, 8);
    const bool known = std::any_of(ranges.begin(), ranges.end(), [address](const auto& range) {
      return address - range.first < range.second;
    });
    if (known) continue;
    if (const auto range = memory.RangeAround(address)) ranges.push_back(*range);
  }
  std::sort(ranges.begin(), ranges.end());
  return ranges;
}

Price MissingLaunches::Of(const KernelLaunch& launch, const Price& price, AddressSpace& memory) {
  if (price.source == PriceSource::kMeasured || launch.kernel == nullptr) return price;
  const std::string key = LaunchKey(launch, price);
  auto found = entries_.find(key);
  if (found == entries_.end()) {
    if (bytes_ > kMostBytes) {
      ++left_out_;
      return price;
    }
    const Qmd& qmd = *launch.qmd;
    const KnownKernel& kernel = *launch.kernel;
    const KernelWork work = kernel.rule.Of({.grid = {qmd.grid.x, qmd.grid.y, qmd.grid.z},
                                            .block = {qmd.block.x, qmd.block.y, qmd.block.z},
                                            .parameters = launch.parameters});
    Entry entry;
    entry.image = kernel.image;
    entry.request = {
        .id = entries_.size(),
        .image = std::nullopt,
        .kernel = kernel.title,
        .symbol = kernel.symbol,
        .fingerprint = kernel.fingerprint,
        .grid = {qmd.grid.x, qmd.grid.y, qmd.grid.z},
        .block = {qmd.block.x, qmd.block.y, qmd.block.z},
        .cluster = {qmd.cluster.x, qmd.cluster.y, qmd.cluster.z},
        .shared_bytes = qmd.shared_bytes,
        .parameters = {launch.parameters.begin(), launch.parameters.end()},
        .memory = MemoryOf(launch.parameters, memory),
        .zeros = !NeedsNumbers(kernel.rule.family()),
        .row = KernelRows::NameOf(work, kernel.rule.family(), kernel.title),
        .modelled_us = static_cast<double>(price.time.picoseconds()) / 1e6,
        .source = Name(price.source),
        .launches = 0,
    };
    if (options_.measurer != nullptr) {
      if (entry.image != nullptr) entry.request.image = NumberOf(*entry.image).first;
      entry.measured = options_.measurer->Measure(entry.request, entry.image.get());
      ++(entry.measured ? measured_ : failed_);
    }
    bytes_ += key.size() + sizeof entry + entry.request.parameters.size() +
              16 * entry.request.memory.size() + 2 * entry.request.symbol.size();
    found = entries_.emplace(key, std::move(entry)).first;
  }
  ++found->second.request.launches;
  if (!found->second.measured) return price;
  Price better = price;
  const double modelled_us = found->second.request.modelled_us;
  const double measured_us = std::clamp(found->second.measured->microseconds, 0.01, 3600e6);
  better.time = VirtualSpan::Picoseconds(static_cast<int64_t>(measured_us * 1e6));
  better.source = PriceSource::kMeasured;
  better.error = found->second.measured->error;
  better.memory_share = std::min(1.0, price.memory_share * modelled_us / measured_us);
  return better;
}

bool MissingLaunches::Write(const std::string& line) {
  return std::fwrite(line.data(), 1, line.size(), file_) == line.size() &&
         std::fputc('\n', file_) != EOF;
}

std::pair<uint64_t, bool> MissingLaunches::NumberOf(const KernelImage& image) {
  const auto [known, is_new] = images_.emplace(image.place(), images_.size());
  return {known->second, is_new};
}

absl::Status MissingLaunches::Close() {
  if (file_ == nullptr) return absl::OkStatus();
  std::vector<Entry*> entries;
  for (auto& [key, entry] : entries_) {
    if (!entry.measured) entries.push_back(&entry);
  }
  const auto time = [](const Entry* entry) {
    return entry->request.modelled_us * static_cast<double>(entry->request.launches);
  };
  std::sort(entries.begin(), entries.end(), [&](const Entry* a, const Entry* b) {
    return std::pair(-time(a), a->request.id) < std::pair(-time(b), b->request.id);
  });
  Write(ToLine(options_.header));
  images_.clear();  // those are the measurer's
  uint64_t id = 0;
  for (Entry* entry : entries) {
    entry->request.id = id++;
    entry->request.image.reset();
    if (entry->image != nullptr) {
      const auto [number, is_new] = NumberOf(*entry->image);
      const auto cubin = is_new ? entry->image->Read() : std::nullopt;
      if (cubin) Write(ImageToLine(number, *cubin));
      entry->request.image = number;
    }
    Write(ToLine(entry->request));
  }
  const bool good = std::ferror(file_) == 0;
  const bool closed = std::fclose(std::exchange(file_, nullptr)) == 0;
  if (!good || !closed) return Failed(options_.file);
  if (left_out_ > 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the list of missing kernels lacks ", left_out_,
                     " launches: there were too many different ones"));
  }
  return absl::OkStatus();
}

}  // namespace phantora
