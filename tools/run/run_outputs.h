// The files that a run writes, opened before it begins: a name that cannot be written is told
// before anything was done in vain.
#ifndef PHANTORA_TOOLS_RUN_RUN_OUTPUTS_H_
#define PHANTORA_TOOLS_RUN_RUN_OUTPUTS_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/observe/run_report.h"
#include "tools/observe/trace_writer.h"
#include "tools/run/learned_host_time.h"
#include "tools/run/rank_output.h"
#include "tools/run/run_plan.h"
#include "tools/run/session_options.h"
#include "trap/call_log.h"
#include "trap/gpu/pricing/kernel_log.h"
#include "trap/gpu/pricing/missing_launches.h"

namespace phantora {

struct RunOutputs {
  // What was not asked for is nullptr, but for the log of calls. Errors: a file cannot be written.
  static absl::StatusOr<RunOutputs> Open(const SessionOptions& options, const RunPlan& plan,
                                         ProfilerClient* profiler);

  std::unique_ptr<CallLog> calls;
  std::unique_ptr<TraceWriter> trace;
  std::unique_ptr<ReportFiles> report;
  std::unique_ptr<KernelLog> kernels;
  std::unique_ptr<MissingLaunches> missing;
  std::unique_ptr<RankOutput> ranks;  // of a cluster
  std::unique_ptr<LearnedHostTime> host_time;

  // Of each rank, its output and its errors; see RankOutput.
  std::vector<std::pair<int, int>> rank_descriptors;
};

}  // namespace phantora

#endif  // PHANTORA_TOOLS_RUN_RUN_OUTPUTS_H_
