// What is said and written when a run is over.
#ifndef PHANTORA_TOOLS_RUN_SESSION_REPORT_H_
#define PHANTORA_TOOLS_RUN_SESSION_REPORT_H_

#include <string>

#include "tools/observe/step_view.h"
#include "tools/profiler/profiler_client.h"
#include "tools/run/emulated_cluster.h"
#include "tools/run/host_memory.h"
#include "tools/run/run_outputs.h"
#include "tools/run/run_plan.h"
#include "tools/run/session_options.h"
#include "trap/memory/page_sharing.h"
#include "trap/supervisor/supervisor.h"

namespace phantora {

class SessionReport {
 public:
  struct Sources {
    const SessionOptions* options;
    const RunPlan* plan;
    RunOutputs* outputs;
    EmulatedCluster* cluster;
    const Supervisor* supervisor;
    const PageSharing* sharing;  // nullptr if memory is not shared
    const HostMemory* memory;
    ProfilerClient* profiler;  // nullptr if nothing is measured
  };
  explicit SessionReport(const Sources& from) : from_(from) {}

  // Everything, in order. What cannot be written is told.
  void WriteAll();

 private:
  void WriteKernels();
  void TellReductions();
  void TellNetwork();
  void TellMemory();
  void WriteStep();
  void TellUnknowns();
  void TellTime();
  // How many kernels were executed, and why others were not.
  std::string ExecutedKernels() const;
  void TellSummary();
  StepView::Terms StepTerms() const;
  // If simulated time is to repeat: what has kept it from that.
  void TellWhetherItRepeats();
  void WriteReport();
  void TellCounters();

  const Sources from_;
};

}  // namespace phantora

#endif  // PHANTORA_TOOLS_RUN_SESSION_REPORT_H_
