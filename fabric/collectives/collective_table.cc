// What the model says of published measurements, as a Markdown table.
//
//   bazel run //fabric/collectives:collective_table [-- [--model-only] FILE.tsv ...]
//
// Without files, of fabric/data/measured. --model-only: not corrected by measurements in a host.
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "fabric/collectives/measured_tables.h"
#include "fabric/collectives/table_check.h"

namespace phantora {
namespace {

std::string SizeOf(int64_t bytes) {
  for (const auto& [unit, name] :
       {std::pair{int64_t{1} << 30, " GiB"}, std::pair{int64_t{1} << 20, " MiB"},
        std::pair{int64_t{1} << 10, " KiB"}}) {
    if (bytes % unit == 0) return std::to_string(bytes / unit) + name;
  }
  return std::to_string(bytes) + " B";
}

bool Print(const std::string& file, const std::string& text, bool corrected, std::string& summary) {
  const auto tables = ParseMeasuredTables(file, text);
  if (!tables.ok()) {
    std::fprintf(stderr, "%s\n", std::string(tables.status().message()).c_str());
    return false;
  }
  for (const MeasuredTable& table : *tables) {
    const auto checked = Check(table, corrected);
    if (!checked.ok()) {
      std::fprintf(stderr, "%s: %s\n", table.name.c_str(),
                   std::string(checked.status().message()).c_str());
      return false;
    }
    for (const CheckedRow& row : checked->rows) {
      std::printf("| %s | %s | %s | %.1f | %.1f | %+.1f %% | %s | %s |\n", table.name.c_str(),
                  Name(table.operation), SizeOf(row.bytes).c_str(), row.measured_us,
                  row.simulated_us, 100 * row.error,
                  !row.counts    ? "launches"
                  : row.Within() ? "yes"
                                 : "no",
                  row.choice.c_str());
    }
    char line[256];
    std::snprintf(line, sizeof line, "| %s | %s | %d of %d | %.1f %% | %+.1f %% |\n",
                  table.name.c_str(), Name(table.operation), checked->within, checked->counted,
                  100 * checked->median, 100 * checked->worst);
    summary += line;
  }
  return true;
}

int Main(int count, char** arguments) {
  std::printf(
      "| system | operation | size | measured us | simulated us | error | within | how |\n"
      "|---|---|---|---|---|---|---|---|\n");
  std::string summary;
  bool good = true;
  const bool corrected = count < 2 || std::string(arguments[1]) != "--model-only";
  const int first = corrected ? 1 : 2;
  if (count <= first) {
    for (const EmbeddedFile& file : MeasuredData()) {
      good = Print(std::string(file.name), std::string(file.content), corrected, summary) && good;
    }
  }
  for (int i = first; i < count; ++i) {
    std::ifstream file(arguments[i]);
    std::stringstream text;
    text << file.rdbuf();
    if (!file) std::fprintf(stderr, "cannot read %s\n", arguments[i]);
    good = file && Print(arguments[i], text.str(), corrected, summary) && good;
  }
  std::printf(
      "\n| system | operation | within tolerance | median error | worst |\n"
      "|---|---|---|---|---|\n%s",
      summary.c_str());
  return good ? 0 : 1;
}

}  // namespace
}  // namespace phantora

int main(int count, char** arguments) { return phantora::Main(count, arguments); }
