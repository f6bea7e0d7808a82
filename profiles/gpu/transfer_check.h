// How well prices carry over from one GPU to another: each published measurement beside what it
// would be priced at with the rates of another GPU.
#ifndef PHANTORA_PROFILES_GPU_TRANSFER_CHECK_H_
#define PHANTORA_PROFILES_GPU_TRANSFER_CHECK_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "profiles/gpu/work_price.h"

namespace phantora {

struct TransferredRow {
  std::string gpu, from;  // measured on `gpu`, priced with what is known of `from`
  bool same_compute_capability = false;
  std::string row;  // family, precision, direction, kernel, shape, with tabs between
  WorkFamily family = WorkFamily::kUnknown;
  double measured_s = 0;
  TimeEstimate own;     // with the GPU's own rates, without rows; 0 if it has none
  TimeEstimate priced;  // with transferred rates and rows
  double model_s = 0;   // with transferred rates alone
  double Error() const { return priced.seconds / measured_s - 1; }
};

// Of all rows of profiles/data/*/kernels.tsv and all of profiles/data/published, from all
// MeasuredGpus(), of which H200 has most of its rates from H100.
absl::StatusOr<std::vector<TransferredRow>> CheckTransfers();

// What nine of ten of these rows miss by at most, of a family, between GPUs of the same compute
// capability or not, but for rows that `without` was measured on; nullopt: there are none.
std::optional<double> NineOfTen(const std::vector<TransferredRow>& rows, bool same,
                                WorkFamily family, const std::string& without = "");

}  // namespace phantora

#endif  // PHANTORA_PROFILES_GPU_TRANSFER_CHECK_H_
