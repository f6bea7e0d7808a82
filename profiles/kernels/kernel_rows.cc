#include "profiles/kernels/kernel_rows.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "profiles/data/embedded_data.h"

namespace phantora {
namespace {

constexpr char kHeader[] =
    "family\tprecision\tdirection\tkernel\tshape\tflops\tbytes\ttiles\ttime_us\terror\tsource";
constexpr size_t kColumns = 11;
constexpr double kFarthest = 2;        // in powers of two, all sizes together
constexpr double kUncorrected = 0.25;  // weight of no correction, where a row at 2 has as much
constexpr double kSame = 1e-3;

// The shape by which rows are compared: a product's rows and columns may be swapped.
std::array<double, 5> Normal(const KernelWork& work, WorkFamily family) {
  auto shape = work.shape;
  if (family == WorkFamily::kGemm && shape[0] < shape[1]) std::swap(shape[0], shape[1]);
  return shape;
}

double Square(double value) { return value * value; }

// In powers of two. Shapes of one group have the same dimensions.
double Distance(const KernelWork& a, const KernelWork& b, WorkFamily family) {
  double sum = 0;
  bool shaped = false;
  for (size_t i = 0; i < a.shape.size(); ++i) {
    if (a.shape[i] <= 0 || b.shape[i] <= 0) continue;
    shaped = true;
    sum += Square(std::log2(a.shape[i] / b.shape[i]));
  }
  // Of one shape, causal attention does half.
  if (family == WorkFamily::kAttention && shaped && a.flops > 0 && b.flops > 0) {
    double sizes = 0;
    for (size_t i = 0; i < a.shape.size(); ++i) {
      if (a.shape[i] > 0 && b.shape[i] > 0) sizes += std::log2(a.shape[i] / b.shape[i]);
    }
    sum += Square(std::log2(a.flops / b.flops) - sizes);
  }
  if (!shaped) sum = Square(std::log2(std::max(a.bytes, 1.0) / std::max(b.bytes, 1.0)));
  return std::sqrt(sum);
}

template <typename Enum>
std::optional<Enum> ByName(absl::string_view name, int count) {
  for (int i = 0; i < count; ++i) {
    if (name == Name(static_cast<Enum>(i))) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

absl::Status Wrong(size_t line, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("kernel rows, line ", line, ": ", what));
}

}  // namespace

std::string KernelRows::KeyOf(const KernelWork& work, WorkFamily family, std::string_view kernel) {
  // Tensor cores are as fast with either type of 16 bits.
  const MathPrecision precision =
      work.precision == MathPrecision::kBf16 ? MathPrecision::kFp16 : work.precision;
  return absl::StrCat(static_cast<int>(family), " ", static_cast<int>(precision), " ",
                      work.backward ? 1 : 0, " ", absl::string_view(kernel.data(), kernel.size()));
}

std::string_view KernelRows::Header() { return kHeader; }

std::string KernelRows::NameOf(const KernelWork& work, WorkFamily family, std::string_view kernel) {
  std::string name(kernel);  // whatever its file says
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return c < ' ' || c > '~'; }, '?');
  size_t sizes = work.shape.size();
  while (sizes > 0 && work.shape[sizes - 1] <= 0) --sizes;
  std::string shape = sizes == 0 ? "-" : "";
  for (size_t i = 0; i < sizes; ++i) {
    absl::StrAppendFormat(&shape, "%s%.0f", i == 0 ? "" : "x", work.shape[i]);
  }
  return absl::StrFormat("%s\t%s\t%s\t%s\t%s\t%.0f\t%.0f\t%.0f", Name(family), Name(work.precision),
                         work.backward ? "backward" : "forward", name, shape, work.flops,
                         work.bytes, work.tiles);
}

absl::StatusOr<KernelRows> KernelRows::Parse(std::string_view text, const GpuRates& rates,
                                             int sms) {
  KernelRows rows;
  size_t number = 0;
  bool header = false;
  for (const absl::string_view line :
       absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    ++number;
    if (line.empty() || line[0] == '#' || (header && line == kHeader)) continue;
    if (!header) {
      if (line != kHeader) return Wrong(number, absl::StrCat("the columns must be ", kHeader));
      header = true;
      continue;
    }
    const std::vector<absl::string_view> cells = absl::StrSplit(line, '\t');
    if (cells.size() != kColumns)
      return Wrong(number, absl::StrCat("needs ", kColumns, " columns"));
    const auto family = ByName<WorkFamily>(cells[0], kWorkFamilies);
    if (!family) return Wrong(number, absl::StrCat("no family ", cells[0]));
    const auto precision = ByName<MathPrecision>(cells[1], kMathPrecisions);
    if (!precision) return Wrong(number, absl::StrCat("no precision ", cells[1]));
    if (cells[2] != "forward" && cells[2] != "backward") return Wrong(number, "no direction");
    Row row;
    row.name = std::string(line.substr(0, cells[5].data() - line.data() - 1));
    row.family = *family;
    row.kernel = std::string(cells[3]);
    row.work.precision = *precision;
    row.work.backward = cells[2] == "backward";
    if (cells[4] != "-") {
      const std::vector<absl::string_view> sizes = absl::StrSplit(cells[4], 'x');
      if (sizes.size() > row.work.shape.size()) return Wrong(number, "too many sizes");
      for (size_t i = 0; i < sizes.size(); ++i) {
        if (!absl::SimpleAtod(sizes[i], &row.work.shape[i]) || row.work.shape[i] <= 0) {
          return Wrong(number, "a size is no positive number");
        }
      }
    }
    double microseconds = 0;
    if (!absl::SimpleAtod(cells[5], &row.work.flops) ||
        !absl::SimpleAtod(cells[6], &row.work.bytes) ||
        !absl::SimpleAtod(cells[7], &row.work.tiles) ||
        !absl::SimpleAtod(cells[8], &microseconds) || !absl::SimpleAtod(cells[9], &row.error) ||
        !(microseconds > 0) || !(row.error >= 0)) {
      return Wrong(number, "flops, bytes, tiles, time_us and error must be numbers");
    }
    row.work.shape = Normal(row.work, *family);
    if (*family == WorkFamily::kGemm) {
      row.work.written_bytes = row.work.shape[0] * row.work.shape[1] * row.work.shape[3] * 2;
    }
    row.seconds = microseconds * 1e-6;
    row.missed_by = std::log(row.seconds / EstimateOf(row.work, *family, rates, sms).seconds);
    rows.groups_[KeyOf(row.work, *family, row.kernel)].rows.push_back(row);
    ++rows.size_;
  }
  for (auto& [key, group] : rows.groups_) LeaveOneOut(group);
  return rows;
}

absl::StatusOr<KernelRows> KernelRows::Find(const std::string& gpu, const GpuRates& rates,
                                            int sms) {
  std::string text;
  for (const char* name : {"kernels.tsv", "measured_kernels.tsv", "peers.tsv"}) {
    const std::string path = absl::StrCat("profiles/data/", gpu, "/", name);
    for (const EmbeddedFile& file : EmbeddedData()) {
      if (file.name == path) absl::StrAppend(&text, std::string(file.content), "\n");
    }
  }
  return text.empty() ? KernelRows() : Parse(text, rates, sms);
}

std::optional<double> KernelRows::Correction(const Group& group, const KernelWork& work,
                                             const Row* but) {
  double sum = 0, weights = 0;
  for (const Row& row : group.rows) {
    if (&row == but) continue;
    const double distance = Distance(row.work, work, row.family);
    if (distance > kFarthest) continue;
    const double weight = 1 / (Square(distance) + kSame);
    sum += weight * row.missed_by;
    weights += weight;
  }
  if (weights == 0) return std::nullopt;
  return sum / (weights + kUncorrected);
}

void KernelRows::LeaveOneOut(Group& group) {
  double squares = 0;
  int count = 0;
  for (const Row& row : group.rows) {
    const auto correction = Correction(group, row.work, &row);
    if (!correction) continue;
    squares += Square(std::expm1(*correction - row.missed_by));
    ++count;
  }
  if (count > 0) group.left_out_error = std::sqrt(squares / count);
}

void KernelRows::TransferWith(const std::array<double, kWorkFamilies>& error) {
  transferred_ = true;
  transfer_error_ = error;
}

std::vector<KernelRows::Comparison> KernelRows::Compare() const {
  std::vector<Comparison> comparisons;
  for (const auto& [key, group] : groups_) {
    for (const Row& row : group.rows) {
      Comparison comparison = {.row = row.name,
                               .work = row.work,
                               .family = row.family,
                               .kernel = row.kernel,
                               .measured_s = row.seconds,
                               .modelled_s = row.seconds / std::exp(row.missed_by),
                               .others_s = std::nullopt};
      if (const auto correction = Correction(group, row.work, &row)) {
        comparison.others_s = comparison.modelled_s * std::exp(*correction);
      }
      comparisons.push_back(std::move(comparison));
    }
  }
  std::sort(comparisons.begin(), comparisons.end(),
            [](const Comparison& a, const Comparison& b) { return a.row < b.row; });
  return comparisons;
}

std::optional<KernelRows::Found> KernelRows::Of(const KernelWork& work, WorkFamily family,
                                                std::string_view kernel,
                                                const TimeEstimate& estimate) const {
  if (groups_.empty()) return std::nullopt;
  KernelWork normal = work;
  normal.shape = Normal(work, family);
  for (const std::string_view of : {kernel, std::string_view("*")}) {
    const auto group = groups_.find(KeyOf(work, family, of));
    if (group == groups_.end()) continue;
    for (const Row& row : group->second.rows) {
      const bool same =
          std::abs(row.work.flops - work.flops) <= kSame * work.flops &&
          (work.flops > 0 || std::abs(row.work.bytes - work.bytes) <= kSame * work.bytes);
      if (same && !transferred_ && Distance(row.work, normal, family) < kSame) {
        return Found{{row.seconds, row.error}, true};
      }
    }
    const auto correction = Correction(group->second, normal, nullptr);
    if (!correction) continue;
    // What rows miss each other by is known of few, and near each other: it never narrows the bar.
    const double error = std::max(std::hypot(estimate.error, group->second.left_out_error),
                                  transfer_error_[static_cast<size_t>(family)]);
    return Found{{estimate.seconds * std::exp(*correction), error}, false};
  }
  return std::nullopt;
}

}  // namespace phantora
