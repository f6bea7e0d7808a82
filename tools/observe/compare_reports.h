// Two reports of runs, side by side.
#ifndef PHANTORA_TOOLS_OBSERVE_COMPARE_REPORTS_H_
#define PHANTORA_TOOLS_OBSERVE_COMPARE_REPORTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace phantora {

// report.json of a directory that --report wrote, or that file. Errors: it cannot be read, or is no
// report of a schema that is known.
absl::StatusOr<nlohmann::json> ReadReport(const std::string& path);

// Lines of a table: what the runs took, their steps, what kernels and NCCL's operations took in
// each, where that differs most; each with the second over the first.
std::vector<std::string> CompareReports(const nlohmann::json& first, const nlohmann::json& second);

}  // namespace phantora

#endif  // PHANTORA_TOOLS_OBSERVE_COMPARE_REPORTS_H_
