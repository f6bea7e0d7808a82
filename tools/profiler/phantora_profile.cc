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
#include "tools/profiler/profile_session.h"
#include "tools/profiler/replay_worker.h"

namespace phantora {
namespace {

struct ProfileOptions {
  std::string list, rows, results, only, worker;
  int timeout_s = 30;
  uint64_t pool_mib = 576;
  bool any_gpu = false;
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

int Profile(const ProfileOptions& options) {
  std::ifstream file;
  if (options.list != "-") file.open(options.list);
  std::istream& list = options.list == "-" ? std::cin : file;
  if (!list) return Fail(absl::StrCat("cannot read ", options.list));
  std::ofstream results_file;
  if (!options.results.empty() && options.results != "-") results_file.open(options.results);
  std::ostream& results = options.results == "-" ? std::cout : results_file;
  std::vector<std::string> worker = {"/proc/self/exe", "worker", "--pool-mib",
                                     absl::StrCat(options.pool_mib)};
  if (!options.worker.empty()) worker = {"/bin/sh", "-c", absl::StrCat("exec ", options.worker)};
  std::unique_ptr<ProfileSession> session;
  ProfiledRows rows;
  Tally tally;
  std::map<std::string, Alike> alike;
  std::string text;
  for (int number = 1; std::getline(list, text); ++number) {
    auto line = ParseRequestLine(text);
    if (!line.ok()) {
      return Fail(
          absl::StrCat(options.list, ":", number, ": ", std::string(line.status().message())));
    }
    if (line->header) {
      auto started = ProfileSession::Start(
          {worker, std::chrono::seconds(options.timeout_s), options.any_gpu}, *line->header);
      if (!started.ok()) {
        if (!options.results.empty())
          results << RefusalLine(started.status().message()) << std::endl;
        return Fail(started.status().message());
      }
      session = *std::move(started);
      if (!options.results.empty()) results << ToLine(session->gpu()) << std::endl;
      continue;
    }
    if (session == nullptr)
      return Fail(absl::StrCat(options.list, " does not begin with its header"));
    if (line->image) {
      session->AddImage(line->image->id, std::move(text));
      continue;
    }
    const LaunchRequest& request = *line->request;
    if (!absl::StrContains(request.kernel, options.only)) continue;
    // Launches that differ in a seed or an offset alone.
    Alike& like = alike[KeyOf(request)];
    const bool again = like.times < kMeasuredAlike || !like.last.failed.empty();
    if (again) {
      like.last = session->Measure(request);
      ++like.times;
    } else {
      ++tally.alike;
    }
    ReplayResult result = like.last;
    result.launch = request.id;
    if (!options.results.empty()) results << ToLine(result) << std::endl;
    const double us = request.modelled_us * static_cast<double>(request.launches);
    tally.us += us;
    if (result.failed.empty()) {
      ++tally.measured;
      rows.Add(request, result.time);
    } else {
      ++tally.failed;
      tally.failed_us += us;
      std::cerr << "phantora-profile: not measured: " << request.kernel << ": " << result.failed
                << std::endl;
    }
  }
  if (session == nullptr) return Fail(absl::StrCat(options.list, " is empty"));
  if (!options.rows.empty()) {
    std::ofstream out(options.rows);
    out << rows.Text(session->gpu(), Today());
    if (!out.flush()) return Fail(absl::StrCat("cannot write ", options.rows));
  }
  std::cerr
      << absl::StrFormat(
             "phantora-profile: %d of %d launches measured on an %s (%d by others like them), "
             "%.1f %% of the time that they were modelled to take; %d restarts",
             tally.measured, tally.measured + tally.failed, session->gpu().name, tally.alike,
             tally.us > 0 ? 100 * (1 - tally.failed_us / tally.us) : 100.0, session->restarts())
      << std::endl;
  return 0;
}

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
  CLI::App* const worker = app.add_subcommand("worker", "the process that has the GPU");
  add_pool(worker);
  CLI11_PARSE(app, argc, argv);
  if (worker->parsed()) {
    phantora::MoveOutOfTheWay(argv);
    return phantora::RunReplayWorker(options.pool_mib << 20);
  }
  if (options.list.empty()) {
    std::cerr << app.help();
    return 125;
  }
  return phantora::Profile(options);
}
