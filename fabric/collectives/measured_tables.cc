#include "fabric/collectives/measured_tables.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace phantora {
namespace {

constexpr struct {
  const char* name;
  BenchmarkedOperation operation;
} kOperations[] = {{"all-reduce", BenchmarkedOperation::kAllReduce},
                   {"all-gather", BenchmarkedOperation::kAllGather},
                   {"reduce-scatter", BenchmarkedOperation::kReduceScatter},
                   {"broadcast", BenchmarkedOperation::kBroadcast},
                   {"all-to-all", BenchmarkedOperation::kAllToAll},
                   {"sendrecv", BenchmarkedOperation::kSendReceive}};

bool SetOperation(absl::string_view name, MeasuredTable& table) {
  for (const auto& known : kOperations) {
    if (name != known.name) continue;
    table.operation = known.operation;
    return true;
  }
  return false;
}

bool Set(absl::string_view key, absl::string_view value, MeasuredTable& table) {
  if (key == "cluster") {
    table.cluster = std::string(value);
  } else if (key == "op") {
    return SetOperation(value, table);
  } else if (key == "type") {
    table.nvls = value == "half";
    return value == "half" || value == "int8";
  } else if (key == "algo") {
    table.algorithm = std::string(value);
  } else if (key == "ranks") {
    return absl::SimpleAtoi(value, &table.ranks);
  } else if (key == "floor_us") {
    return absl::SimpleAtod(value, &table.floor_us);
  } else if (key == "added_us") {
    return absl::SimpleAtod(value, &table.added_us);
  } else {
    return false;
  }
  return true;
}

}  // namespace

const char* Name(BenchmarkedOperation operation) {
  for (const auto& known : kOperations) {
    if (operation == known.operation) return known.name;
  }
  return "?";
}

absl::StatusOr<std::vector<MeasuredTable>> ParseMeasuredTables(const std::string& file,
                                                               const std::string& text) {
  std::vector<MeasuredTable> tables;
  int number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    if (line.empty() || line[0] == '#') continue;
    MeasuredTable::Row row;
    const std::pair<absl::string_view, absl::string_view> columns =
        absl::StrSplit(line, absl::MaxSplits('\t', 1));
    const std::pair<absl::string_view, absl::string_view> words =
        absl::StrSplit(line, absl::MaxSplits(' ', 1));
    if (words.first == "table") {
      tables.emplace_back().name = std::string(words.second);
    } else if (!tables.empty() && absl::SimpleAtoi(columns.first, &row.bytes) &&
               absl::SimpleAtod(columns.second, &row.us) && row.bytes > 0 && row.us > 0) {
      tables.back().rows.push_back(row);
    } else if (tables.empty() || !Set(words.first, words.second, tables.back())) {
      return absl::InvalidArgumentError(absl::StrCat(file, ":", number, ": what is ", line, "?"));
    }
  }
  return tables;
}

}  // namespace phantora
