#include "tools/observe/run_report.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "tools/observe/json_text.h"
#include "tools/observe/report_template.h"
#include "tools/observe/served_requests.h"

namespace phantora {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchemaVersion = 1;
constexpr size_t kLargestKernels = 10;
// A page with more plots is of no use.
constexpr size_t kMostPlots = 64;
constexpr size_t kMostSteps = 256;  // of a rank, the last

double Seconds(VirtualSpan span) { return static_cast<double>(span.picoseconds()) / 1e12; }

double Share(VirtualSpan part, VirtualSpan whole) {
  if (whole <= VirtualSpan()) return 0;
  return static_cast<double>(part.picoseconds()) / static_cast<double>(whole.picoseconds());
}

// {"measured": {"s": seconds, "share": fraction}, ...}
Json Sources(const TimeBySource& times) {
  Json sources;
  for (int i = 0; i < kPriceSources; ++i) {
    sources[Name(static_cast<PriceSource>(i))] = {{"s", Seconds(times[i])},
                                                  {"share", Share(times[i], Total(times))}};
  }
  return sources;
}

// The one source of all time, or "mixed".
std::string SourceOf(const TimeBySource& times) {
  for (int i = 0; i < kPriceSources; ++i) {
    if (times[i] == Total(times) && times[i] > VirtualSpan()) {
      return Name(static_cast<PriceSource>(i));
    }
  }
  return Total(times) > VirtualSpan() ? "mixed" : Name(PriceSource::kPlaceholder);
}

Json Kernels(const std::map<std::string, KernelSums>& sums, VirtualSpan all) {
  Json kernels = Json::array();
  for (const KernelSums& kernel : Largest(sums, kLargestKernels)) {
    kernels.push_back({{"name", kernel.name},
                       {"count", kernel.count},
                       {"total_s", Seconds(kernel.time)},
                       {"mean_s", Seconds(kernel.time) / static_cast<double>(kernel.count)},
                       {"share", Share(kernel.time, all)},
                       {"source", SourceOf(kernel.by_source)}});
  }
  return kernels;
}

Json Copies(const RankStatistics& rank) {
  Json copies;
  for (int i = 0; i < kCopyKinds; ++i) {
    const auto& kind = rank.copies()[i];
    copies[Name(static_cast<CopyKind>(i))] = {
        {"count", kind.count}, {"bytes", kind.bytes}, {"s", Seconds(kind.time)}};
  }
  return copies;
}

Json Bins(const TimeBins& bins, const char* name, double divisor) {
  Json values = Json::array();
  for (const int64_t value : bins.values()) {
    if (divisor == 1) {
      values.push_back(value);
    } else {
      values.push_back(static_cast<double>(value) / divisor);
    }
  }
  return {{"start_s", Seconds(bins.start())}, {"bin_s", Seconds(bins.width())}, {name, values}};
}

Json StepReport(const StepView::Step& step, const StepView::Terms& terms, VirtualTime start) {
  const double seconds = Seconds(step.time);
  Json report = {{"start_s", Seconds(step.start - start)},
                 {"s", seconds},
                 {"compute_s", Seconds(step.compute)},
                 {"communication_s", Seconds(step.communication)},
                 {"exposed_communication_s", Seconds(step.exposed)},
                 {"idle_s", Seconds(step.idle)},
                 {"flops", step.flops},
                 {"peak_memory_bytes", step.peak_memory}};
  if (terms.peak_flops_per_s > 0) report["mfu"] = step.flops / seconds / terms.peak_flops_per_s;
  if (terms.tokens > 0) report["tokens_per_s"] = terms.tokens / seconds;
  return report;
}

Json StepsReport(const StepView::Steps& steps, const StepView::Terms& terms, VirtualTime start) {
  Json all = Json::array();
  const size_t first = std::max(steps.steps.size(), kMostSteps) - kMostSteps;
  for (size_t i = first; i < steps.steps.size(); ++i) {
    all.push_back(StepReport(steps.steps[i], terms, start));
  }
  return {{"kernels", steps.kernels},
          {"count", steps.steps.size()},
          {"median", StepReport(steps.median(), terms, start)},
          {"steps", all}};
}

Json RankReport(const RunRecorder::Rank& rank, const StepView::Terms& terms, VirtualTime start,
                bool with_plots) {
  const RankStatistics& statistics = rank.statistics;
  const auto copies = statistics.all_copies();
  Json report = {{"number", rank.number},
                 {"name", rank.name},
                 {"gpus", statistics.gpus()},
                 {"simulated_s", Seconds(statistics.elapsed())},
                 {"gpu_busy_s", Seconds(statistics.busy())},
                 {"waited_s", Seconds(statistics.waited())},
                 {"peak_memory_bytes", statistics.peak_memory()},
                 {"kernels", statistics.kernels()},
                 {"kernels_of_libcuda", statistics.internal_kernels()},
                 {"kernel_s", Seconds(statistics.kernel_time())},
                 {"copies", copies.count},
                 {"copy_s", Seconds(copies.time)},
                 {"copies_by_kind", Copies(statistics)},
                 {"time_by_source", Sources(statistics.by_source())},
                 {"price_error", statistics.error()},
                 {"largest_kernels", Kernels(statistics.kernel_sums(), statistics.kernel_time())}};
  if (rank.steps) report["steps"] = StepsReport(*rank.steps, terms, start);
  if (with_plots) {
    const auto& busy = statistics.busy_bins();
    report["utilisation"] =
        Bins(busy, "busy_share", static_cast<double>(busy.width().picoseconds()));
    report["memory"] = Bins(statistics.memory_bins(), "peak_bytes", 1);
  }
  return report;
}

Json Caveats(const RunDescription& run) {
  Json caveats = {
      "Kernels that take long or are not understood were not executed (the end of the run says how "
      "many, and how much of what the host read depends on them): what the program computed from "
      "their outputs is wrong.",
      absl::StrCat("Times of kernels come from ", run.price_source,
                   "; those of copies from the bandwidth of the hardware. Where a source says "
                   "placeholder, the time is not a prediction."),
      "Kernels of one process share SMs and memory bandwidth; processes on one GPU do not slow "
      "each other."};
  if (run.host_time == "zero") {
    caveats.push_back("The program's own code takes no time in this mode.");
  } else if (run.host_time == "fixed") {
    caveats.push_back(
        "The program's own code takes a fixed time per call in this mode, whatever it does.");
  } else if (run.host_time == "learned") {
    caveats.push_back(
        "The program's own code takes the processor time that it took where it was learned, the mean "
        "of its repeats.");
  } else if (run.host_time == "measured") {
    caveats.push_back(
        "The program's own code takes the processor time that it took on this machine.");
  }
  return caveats;
}

std::FILE* OpenFile(const std::string& path) { return std::fopen(path.c_str(), "we"); }

}  // namespace

nlohmann::ordered_json BuildReport(const RunDescription& run, const RunRecorder& recorder) {
  std::map<std::string, KernelSums> kernels;
  TimeBySource sources{};
  VirtualSpan latest, kernel_time;
  uint64_t kernel_count = 0, copy_count = 0;
  Json ranks = Json::array();
  for (const auto* rank : recorder.ranks()) {
    const RankStatistics& statistics = rank->statistics;
    AddSums(statistics.kernel_sums(), kernels);
    latest = std::max(latest, statistics.elapsed());
    kernel_time = kernel_time + statistics.kernel_time();
    kernel_count += statistics.kernels();
    copy_count += statistics.all_copies().count;
    for (int i = 0; i < kPriceSources; ++i) sources[i] = sources[i] + statistics.by_source()[i];
    ranks.push_back(RankReport(*rank, run.steps, recorder.start(), ranks.size() < kMostPlots));
  }
  Json unknowns = Json::array();
  for (const auto line : absl::StrSplit(run.unknowns, '\n', absl::SkipWhitespace())) {
    unknowns.push_back(std::string(absl::StripAsciiWhitespace(line)));
  }
  return {{"schema", "phantora report"},
          {"schema_version", kSchemaVersion},
          {"run",
           {{"command", run.command},
            {"gpu", run.gpu},
            {"product", run.product},
            {"gpus", run.gpus},
            {"driver", run.driver},
            {"host_time", run.host_time},
            {"host_scale", run.host_scale},
            {"kernel_prices", run.price_source}}},
          {"caveats", Caveats(run)},
          {"unknowns", unknowns},
          {"totals",
           {{"simulated_s", Seconds(latest)},
            {"kernels", kernel_count},
            {"kernel_s", Seconds(kernel_time)},
            {"copies", copy_count},
            {"time_by_source", Sources(sources)},
            {"largest_kernels", Kernels(kernels, kernel_time)}}},
          {"ranks", ranks}};
}

std::string ReportPage(const nlohmann::ordered_json& report) {
  // No text of the report may end the element that holds it.
  const std::string data = absl::StrReplaceAll(DumpJson(report), {{"<", "\\u003c"}});
  return absl::StrReplaceAll(kReportTemplate, {{"@REPORT@", data}});
}

absl::StatusOr<std::unique_ptr<ReportFiles>> ReportFiles::Open(const std::string& directory) {
  std::unique_ptr<ReportFiles> files(new ReportFiles);
  files->directory_ = directory;
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (!error) {
    // Of an earlier run.
    std::filesystem::remove(absl::StrCat(directory, "/", kRequestsFile), error);
  }
  if (!error) {
    files->json_ = OpenFile(absl::StrCat(directory, "/report.json"));
    files->page_ =
        files->json_ == nullptr ? nullptr : OpenFile(absl::StrCat(directory, "/report.html"));
    files->host_ =
        files->page_ == nullptr ? nullptr : OpenFile(absl::StrCat(directory, "/host.json"));
  }
  if (files->host_ == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("cannot write a report to the directory ",
                                                   directory, ": ",
                                                   error ? error.message() : std::strerror(errno)));
  }
  return files;
}

ReportFiles::~ReportFiles() {
  for (std::FILE* file : {json_, page_, host_}) {
    if (file != nullptr) std::fclose(file);
  }
}

absl::Status ReportFiles::Write(const nlohmann::ordered_json& report) {
  bool written = std::fprintf(json_, "%s\n", DumpJson(report, 1).c_str()) > 0;
  written &= std::fputs(ReportPage(report).c_str(), page_) >= 0;
  for (std::FILE** file : {&json_, &page_}) {
    written &= std::fclose(*file) == 0;
    *file = nullptr;
  }
  if (written) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("the report in ", directory_, " is incomplete: ", std::strerror(errno)));
}

absl::Status ReportFiles::WriteHost(const nlohmann::ordered_json& host) {
  const bool written = std::fprintf(host_, "%s\n", DumpJson(host, 1).c_str()) > 0;
  if (std::fclose(std::exchange(host_, nullptr)) == 0 && written) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(directory_, "/host.json is incomplete: ", std::strerror(errno)));
}

}  // namespace phantora
