// The report of a run: report.json (docs/report_schema.md) and report.html, which shows it.
#ifndef PHANTORA_TOOLS_OBSERVE_RUN_REPORT_H_
#define PHANTORA_TOOLS_OBSERVE_RUN_REPORT_H_

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/observe/run_recorder.h"

namespace phantora {

// What was run, where.
struct RunDescription {
  std::vector<std::string> command;
  std::string gpu, product;  // the personality's name and the card's
  int gpus = 1;
  std::string driver;
  std::string host_time;  // "measured", ...
  double host_scale = 1.0;
  std::string price_source;  // of kernels, in words
  std::string unknowns;      // one line each
  StepView::Terms steps;
};

// Depends on nothing but the arguments, so that equal runs have equal reports.
nlohmann::ordered_json BuildReport(const RunDescription& run, const RunRecorder& recorder);

// One page that needs no other file.
std::string ReportPage(const nlohmann::ordered_json& report);

class ReportFiles {
 public:
  // Makes the directory if it is missing, and empties the files. Errors: they cannot be
  // written.
  static absl::StatusOr<std::unique_ptr<ReportFiles>> Open(const std::string& directory);
  ~ReportFiles();

  // Once. Errors: something could not be written.
  absl::Status Write(const nlohmann::ordered_json& report);
  // What the run took of this machine, into host.json: it differs from run to run, and the report
  // must not. Errors as Write().
  absl::Status WriteHost(const nlohmann::ordered_json& host);

 private:
  ReportFiles() = default;
  std::string directory_;
  std::FILE* json_ = nullptr;
  std::FILE* page_ = nullptr;
  std::FILE* host_ = nullptr;
};

}  // namespace phantora

#endif  // PHANTORA_TOOLS_OBSERVE_RUN_REPORT_H_
