// Published measurements of NCCL operations: fabric/data/measured/*.tsv.
#ifndef PHANTORA_FABRIC_COLLECTIVES_MEASURED_TABLES_H_
#define PHANTORA_FABRIC_COLLECTIVES_MEASURED_TABLES_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "profiles/data/embedded_data.h"

namespace phantora {

// The files, compiled into the program.
const std::vector<EmbeddedFile>& MeasuredData();

struct MeasuredTable {
  std::string name;       // "table" in the file
  std::string cluster;    // as FindCluster takes it
  std::string operation;  // all-reduce, all-gather, reduce-scatter, all-to-all, sendrecv
  int ranks = 0;          // the first so many GPUs; 0: all
  std::string algorithm;  // NCCL_ALGO
  // What the benchmark's own launches take: a row of up to a quarter more says nothing of NCCL.
  double floor_us = 0;
  double added_us = 0;  // that the benchmark measures beside the operation
  struct Row {
    int64_t bytes = 0;
    double us = 0;
  };
  std::vector<Row> rows;
};

// Errors name the file and line.
absl::StatusOr<std::vector<MeasuredTable>> ParseMeasuredTables(const std::string& file,
                                                               const std::string& text);

}  // namespace phantora

#endif  // PHANTORA_FABRIC_COLLECTIVES_MEASURED_TABLES_H_
