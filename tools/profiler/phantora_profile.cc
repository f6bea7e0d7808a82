// phantora-profile: measures on a real GPU what a simulation lacked.
#include <CLI/CLI.hpp>
#include <chrono>
#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "profiles/kernels/launch_request.h"
#include "tools/executor/executor_broker.h"
#include "tools/executor/space_worker.h"
#include "tools/profiler/profile_session.h"
#include "tools/profiler/replay_worker.h"
#include "tools/version.h"

namespace phantora {
namespace {

struct ProfileOptions {
  std::string list, rows, results, only, worker;
  int timeout_s = 30, most_seconds = 60;
  uint64_t pool_mib = 576;
  bool any_gpu = false, synchronous = false;
};

int Fail(absl::string_view what) {
  std::cerr << "phantora-profile: " << what << std::endl;
  return 1;
}

struct Tally {
  int measured = 0, failed = 0, alike = 0;
  double us = 0, failed_us = 0;  // as modelled, times launches
};

// Launches of the same code that do the same work as far as the rules know.
struct Alike {
  int times = 0;
  ReplayResult last;
};
constexpr int kMeasuredAlike = 2;
std::string KeyOf(const LaunchRequest& request) {
  return absl::StrCat(request.fingerprint, " ", absl::StrJoin(request.grid, ","), " ",
                      absl::StrJoin(request.block, ","), " ", request.shared_bytes, " ",
                      request.modelled_us, " ", request.row);
}

// Measures the launches of a list, one line after the other.
class Profiling {
 public:
  explicit Profiling(const ProfileOptions& options) : options_(options) {}

  // Returns the exit status.
  int Run() {
    std::ifstream file;
    if (options_.list != "-") file.open(options_.list);
    std::istream& list = options_.list == "-" ? std::cin : file;
    if (!list) return Fail(absl::StrCat("cannot read ", options_.list));
    if (writes_results() && options_.results != "-") results_file_.open(options_.results);
    std::string text;
    for (int number = 1; std::getline(list, text); ++number) {
      auto line = ParseRequestLine(text);
      if (!line.ok()) {
        return Fail(
            absl::StrCat(options_.list, ":", number, ": ", std::string(line.status().message())));
      }
      if (line->header) {
        if (auto status = Start(*line->header); !status.ok()) return Fail(status.message());
        continue;
      }
      if (session_ == nullptr) {
        return Fail(absl::StrCat(options_.list, " does not begin with its header"));
      }
      if (line->image) {
        session_->AddImage(line->image->id, std::move(text));
      } else if (absl::StrContains(line->request->kernel, options_.only)) {
        Measure(*line->request);
      }
    }
    if (session_ == nullptr) return Fail(absl::StrCat(options_.list, " is empty"));
    return Finish();
  }

 private:
  bool writes_results() const { return !options_.results.empty(); }
  std::ostream& results() { return options_.results == "-" ? std::cout : results_file_; }

  absl::Status Start(const RequestHeader& header) {
    std::vector<std::string> worker = {"/proc/self/exe", "worker", "--pool-mib",
                                       absl::StrCat(options_.pool_mib)};
    if (!options_.worker.empty()) {
      worker = {"/bin/sh", "-c", absl::StrCat("exec ", options_.worker)};
    }
    auto started = ProfileSession::Start(
        {worker, std::chrono::seconds(options_.timeout_s), options_.any_gpu}, header);
    if (!started.ok()) {
      if (writes_results()) results() << RefusalLine(started.status().message()) << std::endl;
      return started.status();
    }
    session_ = *std::move(started);
    if (writes_results()) results() << ToLine(session_->gpu()) << std::endl;
    return absl::OkStatus();
  }

  void Measure(const LaunchRequest& request) {
    // Launches that differ in a seed or an offset alone.
    Alike& like = alike_[KeyOf(request)];
    const bool again = like.times < kMeasuredAlike || !like.last.failed.empty();
    if (again) {
      like.last = session_->Measure(request);
      ++like.times;
    } else {
      ++tally_.alike;
    }
    ReplayResult result = like.last;
    result.launch = request.id;
    if (writes_results()) results() << ToLine(result) << std::endl;
    const double us = request.modelled_us * static_cast<double>(request.launches);
    tally_.us += us;
    if (result.failed.empty()) {
      ++tally_.measured;
      rows_.Add(request, result.time);
    } else {
      ++tally_.failed;
      tally_.failed_us += us;
      std::cerr << "phantora-profile: not measured: " << request.kernel << ": " << result.failed
                << std::endl;
    }
  }

  int Finish() {
    if (!options_.rows.empty()) {
      std::ofstream out(options_.rows);
      out << rows_.Text(session_->gpu(), Today());
      if (!out.flush()) return Fail(absl::StrCat("cannot write ", options_.rows));
    }
    std::cerr
        << absl::StrFormat(
               "phantora-profile: %d of %d launches measured on an %s (%d by others like them), "
               "%.1f %% of the time that they were modelled to take; %d restarts",
               tally_.measured, tally_.measured + tally_.failed, session_->gpu().name, tally_.alike,
               tally_.us > 0 ? 100 * (1 - tally_.failed_us / tally_.us) : 100.0,
               session_->restarts())
        << std::endl;
    return 0;
  }

  const ProfileOptions& options_;
  std::ofstream results_file_;
  std::unique_ptr<ProfileSession> session_;
  ProfiledRows rows_;
  Tally tally_;
  std::map<std::string, Alike> alike_;  // by KeyOf()
};

}  // namespace
}  // namespace phantora

int main(int argc, char** argv) {
  phantora::ProfileOptions options;
  CLI::App app(
      "Measures kernels that a simulation had no measured price for, on the GPU of this machine:\n"
      "  phantora-run --gpu h200-sxm5-141gb --missing missing.jsonl -- python train.py\n"
      "  phantora-profile missing.jsonl -o rows.tsv            (where the H200 is)\n"
      "  phantora-run --gpu h200-sxm5-141gb --rows rows.tsv -- python train.py",
      "phantora-profile");
  app.set_version_flag("--version", absl::StrCat("phantora-profile ", phantora::kPhantoraVersion));
  const auto add_pool = [&options](CLI::App* to) {
    to->add_option("--pool-mib", options.pool_mib,
                   "GPU memory that stands in for all that kernels touch; several times the "
                   "second-level cache")
        ->check(CLI::Range(32, 65536))
        ->capture_default_str();
  };
  app.add_option("list", options.list, "what phantora-run --missing wrote; - reads standard input");
  app.add_option("-o,--rows", options.rows, "file for the measured rows, as of kernels.tsv");
  app.add_option("--results", options.results,
                 "file for what came of each launch, as lines of JSON; - for standard output");
  app.add_option("--only", options.only, "only kernels with this in their name");
  app.add_option("--timeout", options.timeout_s, "seconds for one launch's measurement")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
  app.add_option("--worker", options.worker, "command of the worker process (default: itself)");
  app.add_flag("--any-gpu", options.any_gpu,
               "measure also if the GPU here is not the one that was emulated");
  add_pool(&app);
  // The empty group: they are for other processes of this program, and in no help.
  CLI::App* const worker = app.add_subcommand("worker", "the process that has the GPU")->group("");
  add_pool(worker);
  CLI::App* const execute = app.add_subcommand(
      "execute", "executes kernels for a phantora-run --execute gpu, which talks to it");
  execute->add_option("--worker", options.worker, "command of its processes (default: itself)");
  CLI::App* const execute_worker =
      app.add_subcommand("execute-worker", "the process that has the GPU for one of its contexts")
          ->group("");
  for (CLI::App* const each : {execute, execute_worker}) {
    each->add_option("--most-seconds", options.most_seconds,
                     "a kernel that runs for longer is given up, and its context with it")
        ->check(CLI::Range(1, 3600))
        ->capture_default_str();
    each->add_flag("--synchronous", options.synchronous,
                   "wait for each kernel, so that an error names the one that made it");
  }
  CLI11_PARSE(app, argc, argv);
  if (worker->parsed()) {
    phantora::MoveOutOfTheWay(argv);
    return phantora::RunReplayWorker(options.pool_mib << 20);
  }
  if (execute->parsed()) {
    std::vector<std::string> words = {"--most-seconds", absl::StrCat(options.most_seconds)};
    if (options.synchronous) words.emplace_back("--synchronous");
    return phantora::RunExecutorBroker(options.worker, words);
  }
  if (execute_worker->parsed()) {
    phantora::MoveOutOfTheWay(argv);
    return phantora::RunSpaceWorker(options.most_seconds, options.synchronous);
  }
  if (options.list.empty()) {
    std::cerr << app.help();
    return 125;
  }
  return phantora::Profiling(options).Run();
}
