#include "profiles/gpu/transfer_check.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "profiles/data/embedded_data.h"
#include "profiles/gpu/gpu_profile.h"
#include "profiles/gpu/rate_transfer.h"
#include "profiles/kernels/kernel_rows.h"

namespace phantora {
namespace {

struct Target {
  GpuProfile profile;
  std::vector<std::string_view> files;
};

absl::StatusOr<std::vector<Target>> Targets() {
  std::vector<Target> targets;
  for (const std::string& name : MeasuredGpus()) {
    auto profile = FindGpuProfile(name);
    if (!profile.ok()) return profile.status();
    targets.push_back({*std::move(profile), {}});
  }
  // A GPU that nothing here is made from: the A100 data sheet's other form, 1,935 GB/s and 300 W.
  auto pcie = *FindGpuProfile("a100-sxm4-80gb");
  pcie.name = "a100-pcie-80gb", pcie.memory.clock_mhz = 1512, pcie.power_limit_watts = 300;
  targets.push_back({std::move(pcie), {}});
  for (Target& target : targets) {
    for (const EmbeddedFile& file : EmbeddedData()) {
      const absl::string_view name(file.name.data(), file.name.size());
      if (name == absl::StrCat("profiles/data/", target.profile.name, "/kernels.tsv") ||
          name == absl::StrCat("profiles/data/published/", target.profile.name, ".tsv")) {
        target.files.push_back(file.content);
      }
    }
  }
  return targets;
}

absl::Status Check(const Target& target, const GpuProfile& source,
                   std::vector<TransferredRow>& checked) {
  const auto rates = FindGpuRates(source.name);
  if (!rates.ok()) return rates.status();
  const auto transferred = TransferRates(target.profile, source, *rates);
  if (!transferred.ok()) return transferred.status();
  auto known = KernelRows::Find(source.name, *rates, static_cast<int>(source.sms()));
  if (!known.ok()) return known.status();
  known->TransferWith(transferred->error);
  const auto own = FindGpuRates(target.profile.name);
  const int sms = static_cast<int>(target.profile.sms());
  for (const std::string_view file : target.files) {
    const auto rows = KernelRows::Parse(file, transferred->rates, sms);
    if (!rows.ok()) return rows.status();
    for (const auto& row : rows->Compare()) {
      TransferredRow result{
          .gpu = target.profile.name,
          .from = source.name,
          .same_compute_capability = source.sm_architecture() == target.profile.sm_architecture(),
          .row = row.row,
          .family = row.family,
          .measured_s = row.measured_s,
          .own = {},
          .priced = EstimateOf(row.work, row.family, transferred->rates, sms)};
      result.model_s = result.priced.seconds;
      if (own.ok()) result.own = EstimateOf(row.work, row.family, *own, sms);
      if (auto found = known->Of(row.work, row.family, row.kernel, result.priced)) {
        result.priced = found->time;
      }
      checked.push_back(std::move(result));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::optional<double> NineOfTen(const std::vector<TransferredRow>& rows, bool same,
                                WorkFamily family, const std::string& without) {
  std::vector<double> errors;
  for (const TransferredRow& row : rows) {
    if (row.same_compute_capability == same && row.family == family && row.gpu != without) {
      errors.push_back(std::abs(row.Error()));
    }
  }
  if (errors.empty()) return std::nullopt;
  std::sort(errors.begin(), errors.end());
  return errors[static_cast<size_t>(std::ceil(0.9 * static_cast<double>(errors.size()))) - 1];
}

absl::StatusOr<std::vector<TransferredRow>> CheckTransfers() {
  const auto targets = Targets();
  if (!targets.ok()) return targets.status();
  std::vector<TransferredRow> checked;
  for (const Target& target : *targets) {
    for (const std::string& name : MeasuredGpus()) {
      if (target.profile.name == name) continue;
      const auto source = FindGpuProfile(name);
      if (!source.ok()) return source.status();
      if (auto status = Check(target, *source, checked); !status.ok()) return status;
    }
  }
  return checked;
}

}  // namespace phantora
