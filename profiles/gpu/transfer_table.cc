// transfer_table: published measurements of each GPU beside prices made with the rates and rows of
// another, and what errors of transfers follow from that.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "profiles/gpu/transfer_check.h"

namespace phantora {
namespace {

double Quantile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  const auto index = static_cast<size_t>(std::ceil(part * static_cast<double>(values.size())));
  return values[std::max<size_t>(index, 1) - 1];
}

int Run() {
  const auto rows = CheckTransfers();
  if (!rows.ok()) {
    absl::FPrintF(stderr, "transfer_table: %s\n", rows.status().message());
    return 1;
  }
  std::puts(
      "| GPU | from | work | measured us | own rates | transferred model | with rows | bar |");
  std::puts("|---|---|---|---|---|---|---|---|");
  struct Group {
    std::vector<double> errors;
    int within = 0;         // of the bar that prices have
    int within_others = 0;  // of what the rows of all other GPUs say
  };
  std::map<std::pair<bool, std::string>, Group> groups;
  for (const TransferredRow& row : *rows) {
    const std::string own =
        row.own.seconds > 0
            ? absl::StrFormat("%+.1f%%", (row.own.seconds / row.measured_s - 1) * 100)
            : "-";
    absl::PrintF("| %s | %s | %s | %.4g | %s | %+.1f%% | %+.1f%% | %.0f%% |\n", row.gpu, row.from,
                 absl::StrReplaceAll(row.row, {{"\t", " "}}), row.measured_s * 1e6, own,
                 (row.model_s / row.measured_s - 1) * 100, row.Error() * 100,
                 row.priced.error * 100);
    Group& group = groups[{row.same_compute_capability, Name(row.family)}];
    group.errors.push_back(std::abs(row.Error()));
    group.within += std::abs(row.Error()) <= row.priced.error;
    const auto others = NineOfTen(*rows, row.same_compute_capability, row.family, row.gpu);
    group.within_others += others && std::abs(row.Error()) <= *others;
  }
  std::puts(
      "\n| compute capability | family | rows | median | 90 % within | worst | in their bar | in "
      "what "
      "the other GPUs' rows say |\n|---|---|---|---|---|---|---|---|");
  for (const auto& [key, group] : groups) {
    absl::PrintF("| %s | %s | %d | %.1f%% | %.1f%% | %.1f%% | %d | %d |\n",
                 key.first ? "the same" : "another", key.second, group.errors.size(),
                 Quantile(group.errors, 0.5) * 100, Quantile(group.errors, 0.9) * 100,
                 Quantile(group.errors, 1) * 100, group.within, group.within_others);
  }
  return 0;
}

}  // namespace
}  // namespace phantora

int main() { return phantora::Run(); }
