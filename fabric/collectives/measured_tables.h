// Published measurements of NCCL operations: fabric/data/{measured,in_a_host,held_out}/*.tsv.
#ifndef PHANTORA_FABRIC_COLLECTIVES_MEASURED_TABLES_H_
#define PHANTORA_FABRIC_COLLECTIVES_MEASURED_TABLES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "profiles/data/embedded_data.h"

namespace phantora {

// The files, compiled into the program: what the model was made from and is checked against, and
// what its times of operations in a host are corrected by.
const std::vector<EmbeddedFile>& MeasuredData();
const std::vector<EmbeddedFile>& HostData();

// Of nccl-tests.
enum class BenchmarkedOperation {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kAllToAll,
  kSendReceive
};
const char* Name(BenchmarkedOperation operation);  // "all-reduce"

struct MeasuredTable {
  std::string name;     // "table" in the file
  std::string cluster;  // as FindCluster takes it
  BenchmarkedOperation operation = BenchmarkedOperation::kAllReduce;
  int ranks = 0;          // the first so many GPUs; 0: all
  std::string algorithm;  // NCCL_ALGO
  // Whether switches can combine the elements ("type half") or not ("type int8"); nullopt: the
  // operation combines none, or the source does not say.
  std::optional<bool> nvls;
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
