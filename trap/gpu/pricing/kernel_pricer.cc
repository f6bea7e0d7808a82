#include "trap/gpu/pricing/kernel_pricer.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "profiles/gpu/rate_transfer.h"
#include "trap/gpu/front/qmd.h"
#include "trap/gpu/kernels/known_kernel.h"

namespace phantora {
namespace {

// An empty kernel takes about 2 us from start to end on A100 and H100, a copy 1.5.
constexpr VirtualSpan kSmallestKernel = VirtualSpan::Nanoseconds(2000);
constexpr VirtualSpan kCopyLatency = VirtualSpan::Nanoseconds(1500);
constexpr double kBytesPerThread = 16;
constexpr char kMostMeasuredGpu[] = "h100-sxm5-80gb";
// Whose surfaces of FlashAttention 2 there are.
constexpr char kFlash2Gpu[] = "a100-sxm4-80gb";
constexpr double kNoIdea = 1;  // the error of a price that nothing is known of
constexpr size_t kMostPrices = 1 << 16;

// One way, of what a link of NVLink 3 and 4 is for (25 GB/s), a copy engine reaches 274 GB/s of an
// A100's 300 and 376 of an H100's 450 (p2pBandwidthLatencyTest in stas00/ml-engineering).
constexpr double kLinkBytesPerS = 25e9;
constexpr uint32_t kNvlink4 = 7;  // NV2080_CTRL_NVLINK_STATUS_NVLINK_VERSION_4_0
double PeerBytesPerS(const GpuProfile::Nvlink& nvlink) {
  return kLinkBytesPerS * nvlink.links * (nvlink.version >= kNvlink4 ? 0.836 : 0.913);
}

// At most an hour: launches may be hostile.
VirtualSpan Seconds(double seconds) {
  return VirtualSpan::Picoseconds(static_cast<int64_t>(std::clamp(seconds, 0.0, 3600.0) * 1e12));
}

LaunchShape ShapeOf(const KernelLaunch& launch) {
  const Qmd& qmd = *launch.qmd;
  return {.grid = {qmd.grid.x, qmd.grid.y, qmd.grid.z},
          .block = {qmd.block.x, qmd.block.y, qmd.block.z},
          .parameters = launch.parameters,
          .memory = launch.memory};
}

// A file may have a shipped GPU's name and be another.
bool HasItsOwnRates(const GpuProfile& profile) {
  const auto shipped = FindGpuProfile(profile.name);
  return !profile.rated.given && shipped.ok() && SameHardware(profile, *shipped);
}

}  // namespace

KernelPricer::KernelPricer(const GpuProfile& profile, Unknowns* unknowns)
    : sms_(static_cast<int>(profile.sms())),
      memory_bytes_per_s_(MemoryBytesPerSecond(profile)),
      // A pinned copy reaches 55 GB/s of PCIe 5.0's 64, and 26 of 4.0's 32 (napkin-math-gpu,
      // stas00's nvbandwidth).
      pcie_bytes_per_s_(profile.pci.generation >= 5 ? 55e9 : 26e9),
      peer_bytes_per_s_(profile.nvlink.links > 0 ? PeerBytesPerS(profile.nvlink)
                                                 : pcie_bytes_per_s_),
      sm_clock_hz_(1e6 * profile.sm_clock_mhz),
      unknowns_(unknowns) {}

absl::StatusOr<std::unique_ptr<KernelPricer>> KernelPricer::Create(const GpuProfile& profile,
                                                                   Options options,
                                                                   Unknowns* unknowns) {
  std::unique_ptr<KernelPricer> pricer(new KernelPricer(profile, unknowns));
  auto rates = FindGpuRates(profile.name);
  if (!rates.ok() && !absl::IsNotFound(rates.status())) return rates.status();
  std::string measured = profile.name;
  int sms = pricer->sms_;
  std::array<double, kWorkFamilies> error{};
  const bool transferred = !rates.ok() || !HasItsOwnRates(profile);
  if (transferred) {
    const auto made = TransferRates(profile);
    if (absl::IsNotFound(made.status())) {
      absl::StrAppend(&pricer->source_, ", since ", std::string(made.status().message()));
      return pricer;
    }
    if (!made.ok()) return made.status();
    const auto from = FindGpuProfile(made->from);
    rates = FindGpuRates(made->from);
    if (!from.ok() || !rates.ok()) return from.ok() ? rates.status() : from.status();
    measured = made->from, error = made->error, sms = static_cast<int>(from->sms());
    pricer->rates_ = made->rates;
  } else {
    pricer->rates_ = *rates;
  }
  if (options.rows) {
    auto rows = KernelRows::Find(measured, *rates, sms);
    if (!rows.ok()) return rows.status();
    if (transferred) rows->TransferWith(error);
    pricer->rows_ = *std::move(rows);
    pricer->surfaces_.emplace(measured);
    if (transferred) pricer->measured_ = Measured{*rates, sms, error};
    if (measured != kFlash2Gpu) {
      const auto flash2 = FindGpuProfile(kFlash2Gpu);
      auto flash2_rates = FindGpuRates(kFlash2Gpu);
      if (!flash2.ok() || !flash2_rates.ok()) {
        return flash2.ok() ? flash2_rates.status() : flash2.status();
      }
      pricer->flash2_surfaces_.emplace(kFlash2Gpu);
      // What is not known is how far this GPU's own rate of attention is off.
      pricer->flash2_measured_ = Measured{*std::move(flash2_rates), static_cast<int>(flash2->sms()),
                                          pricer->rates_->error};
    }
    if (measured != kMostMeasuredGpu) {
      const auto near = FindGpuProfile(kMostMeasuredGpu);
      auto near_rates = FindGpuRates(kMostMeasuredGpu);
      if (!near.ok() || !near_rates.ok()) return near.ok() ? near_rates.status() : near.status();
      auto rows_there =
          KernelRows::Find(kMostMeasuredGpu, *near_rates, static_cast<int>(near->sms()));
      if (!rows_there.ok()) return rows_there.status();
      // Without what a GPU of this kind can do, the errors are those of the model.
      const auto made = TransferRates(profile, *near, *near_rates);
      rows_there->TransferWith(made.ok() ? made->error : pricer->rates_->error);
      pricer->near_rows_ = *std::move(rows_there);
      pricer->near_is_like_ = profile.sm_architecture() == near->sm_architecture();
    }
    auto own = KernelRows::Parse(options.own_rows, *pricer->rates_, pricer->sms_);
    if (!own.ok()) return own.status();
    pricer->own_rows_ = *std::move(own);
  }
  const bool rows = options.rows, own_rows = pricer->own_rows_.size() > 0;
  const char* const model = "a model of what each kernel does";
  pricer->source_ =
      absl::StrCat(own_rows || (rows && !transferred) ? "measured kernels, and " : "", model);
  if (transferred) {
    absl::StrAppend(&pricer->source_, ", its rates ", rows ? "and measured kernels " : "",
                    "transferred from ", measured);
  }
  return pricer;
}

double KernelPricer::MemoryShare(double bytes, double seconds) const {
  const double rate = rates_->memory_bytes_per_s * rates_->memory;
  return std::clamp(bytes / (rate * seconds), 0.0, 1.0);
}

Price KernelPricer::Placeholder(const KernelLaunch& launch) const {
  const double threads = static_cast<double>(ShapeOf(launch).threads());
  return {kSmallestKernel + Seconds(threads * kBytesPerThread / memory_bytes_per_s_),
          PriceSource::kPlaceholder, 0, 0, kNoIdea};
}

std::optional<TimeEstimate> KernelPricer::Surface(const KernelWork& work, WorkFamily family,
                                                  const TimeEstimate& estimate, bool has_rows) {
  if (!surfaces_) return std::nullopt;
  auto found = surfaces_->Find(work, family);
  const std::optional<Measured>* from = &measured_;
  if (found.ok() && !*found && work.flash2 && flash2_surfaces_ && !has_rows) {
    found = flash2_surfaces_->Find(work, family);
    from = &flash2_measured_;
  }
  if (!found.ok()) {
    unknowns_->Count("surface that cannot be read", static_cast<uint64_t>(family),
                     std::string(found.status().message()));
    return std::nullopt;
  }
  if (!*found) return std::nullopt;
  TimeEstimate time = {(*found)->seconds, (*found)->bar};
  if (*from) {
    // What the model says of both GPUs is between them.
    const Measured& measured = **from;
    const double there = EstimateOf(work, family, measured.rates, measured.sms).seconds;
    time.seconds *= estimate.seconds / there;
    time.error = std::hypot(time.error, measured.error[static_cast<size_t>(family)]);
  }
  if (work.beside_bytes > 0) {
    // These are launches of their own here.
    KernelWork beside;
    beside.bytes = work.beside_bytes;
    const double alone =
        time.seconds - EstimateOf(beside, WorkFamily::kOther, *rates_, sms_).seconds;
    time.seconds = std::max(alone, time.seconds / 2);
  }
  return time;
}

std::optional<KernelRows::Found> KernelPricer::Near(const KernelWork& work, WorkFamily family,
                                                    const std::string& title,
                                                    const TimeEstimate& estimate) const {
  const bool of_arithmetic = family == WorkFamily::kGemm || family == WorkFamily::kAttention ||
                             family == WorkFamily::kConvolution || family == WorkFamily::kUnknown;
  if (of_arithmetic && !near_is_like_) return std::nullopt;
  return near_rows_.Of(work, family, title, estimate);
}

Price KernelPricer::Known(const KernelWork& work, const KernelLaunch& launch) {
  const WorkFamily family = launch.kernel->rule.family();
  TimeEstimate time = EstimateOf(work, family, *rates_, sms_);
  const bool sure = family != WorkFamily::kUnknown && !work.guessed;
  PriceSource source = sure ? PriceSource::kModelled : PriceSource::kEstimated;
  const auto own = own_rows_.Of(work, family, launch.kernel->title, time);
  const auto shipped = rows_.Of(work, family, launch.kernel->title, time);
  const auto near = own || shipped ? std::nullopt : Near(work, family, launch.kernel->title, time);
  // Thousands of shapes in one campaign tell more than one of another.
  const auto surface =
      own ? std::nullopt : Surface(work, family, time, (!measured_ && shipped) || near);
  const auto& row = own ? own : shipped ? shipped : near;
  if (surface) {
    time = *surface;
    source = PriceSource::kInterpolated;
  } else if (row) {
    time = row->time;
    source = row->measured ? PriceSource::kMeasured : PriceSource::kInterpolated;
  }
  return {Seconds(time.seconds),
          source,
          work.flops,
          work.bytes,
          time.error,
          MemoryShare(work.bytes, time.seconds)};
}

Price KernelPricer::Kernel(const KernelLaunch& launch) {
  if (rates_ && launch.moved_bytes) {
    KernelWork copy;
    copy.bytes = *launch.moved_bytes;
    const TimeEstimate time = EstimateOf(copy, WorkFamily::kElementwise, *rates_, sms_);
    return {Seconds(time.seconds),
            PriceSource::kModelled,
            0,
            copy.bytes,
            time.error,
            MemoryShare(copy.bytes, time.seconds)};
  }
  if (!rates_ || launch.kernel == nullptr || launch.kernel->symbol.empty()) {
    return Placeholder(launch);
  }
  const LaunchShape shape = ShapeOf(launch);
  const KernelWork work = launch.kernel->rule.Of(shape);
  if (!work.checked) {
    unknowns_->Count("launch that contradicts its rule", launch.kernel->fingerprint,
                     launch.kernel->title);
    return Placeholder(launch);
  }
  if (launch.kernel->rule.only_waits()) {
    return {kSmallestKernel + Seconds(work.clocks / sm_clock_hz_), PriceSource::kModelled};
  }
  const Key key = {
      launch.kernel->fingerprint,
      {shape.grid[0], shape.grid[1], shape.grid[2], shape.block[0], shape.block[1], shape.block[2]},
      {work.flops, work.bytes, work.cached_bytes, work.tiles, work.written_bytes, work.shape[0],
       work.shape[1], work.shape[2], work.shape[3], work.shape[4], work.kv_heads, work.window,
       work.single_queries, work.single_keys, work.rounds}};
  if (const auto known = prices_.find(key); known != prices_.end()) return known->second;
  if (prices_.size() >= kMostPrices) prices_.clear();
  return prices_[key] = Known(work, launch);
}

Price KernelPricer::Copy(uint64_t bytes, CopyKind kind) {
  double rate = pcie_bytes_per_s_;
  if (kind == CopyKind::kInDevice || kind == CopyKind::kFill) {
    rate = memory_bytes_per_s_ / 2;  // read, write
  } else if (kind == CopyKind::kPeer) {
    rate = peer_bytes_per_s_;
  }
  return {kCopyLatency + Seconds(static_cast<double>(bytes) / rate), PriceSource::kModelled};
}

}  // namespace phantora
