// What the model says of a published measurement, and how far off that is.
#ifndef PHANTORA_FABRIC_COLLECTIVES_TABLE_CHECK_H_
#define PHANTORA_FABRIC_COLLECTIVES_TABLE_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "fabric/collectives/measured_tables.h"

namespace phantora {

struct CheckedRow {
  int64_t bytes = 0;
  double measured_us = 0, simulated_us = 0;
  double error = 0;      // simulated / measured - 1
  double tolerance = 0;  // of its size: 5 to 20 % in a machine, 10 to 25 % between
  bool counts = true;    // false: the benchmark's launches were measured, not NCCL
  std::string choice;    // "Ring LL, 24 channels"
  bool Within() const { return error <= tolerance && error >= -tolerance; }
};

struct CheckedTable {
  std::vector<CheckedRow> rows;
  // How many rows count, and how many of these are within the bound.
  int counted = 0, within = 0;
  double median = 0, worst = 0;  // absolute error; the worst with its sign
};

// `corrected`: by measurements in a host, as runs are; else the model alone.
absl::StatusOr<CheckedTable> Check(const MeasuredTable& table, bool corrected);

}  // namespace phantora

#endif  // PHANTORA_FABRIC_COLLECTIVES_TABLE_CHECK_H_
