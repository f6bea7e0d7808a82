#include "tools/run_recorder.h"

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "trap/gpu/qmd.h"

namespace phantora {
namespace {

// The track of a process's host waits; channels are numbered from 1.
constexpr uint64_t kHostTrack = 0;

double Microseconds(VirtualSpan span) { return static_cast<double>(span.picoseconds()) / 1e6; }

}  // namespace

RunRecorder::~RunRecorder() {
  if (trace_ == nullptr) return;
  std::fputs("\n]}\n", trace_);
  std::fclose(trace_);
}

absl::Status RunRecorder::OpenTrace(const std::string& path) {
  trace_ = std::fopen(path.c_str(), "we");
  if (trace_ == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot write the trace ", path, ": ", std::strerror(errno)));
  }
  std::fputs("{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n", trace_);
  std::fputs("{\"ph\": \"M\", \"pid\": 0, \"name\": \"trace_start\"}", trace_);
  return absl::OkStatus();
}

RunRecorder::Totals& RunRecorder::Of(pid_t process) {
  auto [it, made] = totals_.try_emplace(process);
  if (made) {
    it->second.number = static_cast<int>(totals_.size()) - 1;
    if (trace_ != nullptr) {
      std::fprintf(trace_,
                   ",\n{\"ph\": \"M\", \"pid\": %d, \"name\": \"process_name\", \"args\": "
                   "{\"name\": \"rank process %d\"}}",
                   it->second.number, it->second.number);
    }
  }
  return it->second;
}

void RunRecorder::NameTrack(int process, uint64_t track, const std::string& name) {
  if (!named_.try_emplace({process, track}, true).second) return;
  std::fprintf(trace_,
               ",\n{\"ph\": \"M\", \"pid\": %d, \"tid\": %llu, \"name\": \"thread_name\", "
               "\"args\": {\"name\": \"%s\"}}",
               process, static_cast<unsigned long long>(track), name.c_str());
}

void RunRecorder::Event(const Work& work, absl::string_view name, const std::string& arguments) {
  const int number = totals_.at(work.process).number;
  NameTrack(number, work.channel, absl::StrFormat("GPU %d channel %d", work.gpu, work.channel));
  std::fprintf(trace_,
               ",\n{\"ph\": \"X\", \"pid\": %d, \"tid\": %u, \"ts\": %.6f, \"dur\": %.6f, "
               "\"name\": \"%.*s\", \"args\": {%s}}",
               number, work.channel, Microseconds(work.start - start_), Microseconds(work.duration),
               static_cast<int>(name.size()), name.data(), arguments.c_str());
}

void RunRecorder::Kernel(const Work& work, const Qmd& launch, const char* internal) {
  Totals& totals = Of(work.process);
  ++totals.kernels;
  totals.kernel_time = totals.kernel_time + work.duration;
  if (trace_ == nullptr) return;
  Event(work, internal != nullptr ? internal : "kernel",
        absl::StrFormat("\"grid\": [%d, %d, %d], \"block\": [%d, %d, %d], \"registers\": %d, "
                        "\"shared_bytes\": %d, \"time_from\": \"%s\"",
                        launch.grid.x, launch.grid.y, launch.grid.z, launch.block.x, launch.block.y,
                        launch.block.z, launch.registers, launch.shared_bytes, source_));
}

void RunRecorder::Copy(const Work& work, uint64_t bytes, bool over_pcie) {
  Totals& totals = Of(work.process);
  ++totals.copies;
  totals.copy_time = totals.copy_time + work.duration;
  if (trace_ == nullptr) return;
  Event(work, over_pcie ? "copy over PCIe" : "copy in memory",
        absl::StrFormat("\"bytes\": %d", bytes));
}

void RunRecorder::Wait(pid_t process, pid_t thread, VirtualTime since, VirtualTime until) {
  const int number = Of(process).number;
  if (trace_ == nullptr) return;
  NameTrack(number, kHostTrack, "host waits for GPUs");
  std::fprintf(trace_,
               ",\n{\"ph\": \"X\", \"pid\": %d, \"tid\": %d, \"ts\": %.6f, \"dur\": %.6f, "
               "\"name\": \"wait\", \"args\": {}}",
               number, static_cast<int>(kHostTrack), Microseconds(since - start_),
               Microseconds(until - since));
}

}  // namespace phantora
