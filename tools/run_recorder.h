// What a run did in simulated time: totals by process, and a timeline for Perfetto.
#ifndef PHANTORA_TOOLS_RUN_RECORDER_H_
#define PHANTORA_TOOLS_RUN_RECORDER_H_

#include <sys/types.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "trap/gpu/gpu_services.h"

namespace phantora {

// Called under the machine's lock.
class RunRecorder : public WorkObserver {
 public:
  // Times are told relative to `start`; `source` says where those of kernels come from.
  RunRecorder(VirtualTime start, std::string source) : start_(start), source_(std::move(source)) {}
  ~RunRecorder() override;

  // Writes a timeline to `path`, in the JSON form of the Trace Event Format, which
  // ui.perfetto.dev opens. Processes are numbered in the order of their first work, so
  // that the same run gives the same file.
  absl::Status OpenTrace(const std::string& path);

  void Kernel(const Work& work, const Qmd& launch, const char* internal) override;
  void Copy(const Work& work, uint64_t bytes, bool over_pcie) override;
  // A thread waited for its GPUs.
  void Wait(pid_t process, pid_t thread, VirtualTime since, VirtualTime until);

  struct Totals {
    int number = 0;  // from 0, by first work
    uint64_t kernels = 0, copies = 0;
    VirtualSpan kernel_time, copy_time;  // sums; work of several channels may overlap
  };
  const std::map<pid_t, Totals>& totals() const { return totals_; }
  const std::string& source() const { return source_; }

 private:
  Totals& Of(pid_t process);
  // Writes an event; `arguments` are members of a JSON object.
  void Event(const Work& work, absl::string_view name, const std::string& arguments);
  void NameTrack(int process, uint64_t track, const std::string& name);

  const VirtualTime start_;
  const std::string source_;
  std::FILE* trace_ = nullptr;
  std::map<pid_t, Totals> totals_;
  std::map<std::pair<int, uint64_t>, bool> named_;
};

}  // namespace phantora

#endif  // PHANTORA_TOOLS_RUN_RECORDER_H_
