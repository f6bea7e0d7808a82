#include "tools/run/option_table.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "profiles/gpu/gpu_profile.h"
#include "tools/run/option_values.h"
#include "trap/rm/machine.h"

namespace phantora {
namespace {

// A word for each value. Its number is no word for it, unlike with CLI::CheckedTransformer.
template <typename T>
CLI::Option* AddChoice(CLI::App& app, const std::string& name, T* value,
                       const std::vector<std::pair<std::string, T>>& choices,
                       const std::string& description) {
  std::vector<std::string> words;
  for (const auto& [word, unused] : choices) words.push_back(word);
  const std::string list = absl::StrJoin(words, "|");
  const auto known = [choices, words, name](const std::string& given) -> std::string {
    if (std::find(words.begin(), words.end(), given) != words.end()) return "";
    return absl::StrCat("'", given, "' is none of ", absl::StrJoin(words, ", "));
  };
  return app
      .add_option_function<std::string>(
          name,
          [value, choices](const std::string& given) {
            for (const auto& [word, meant] : choices) {
              if (word == given) *value = meant;
            }
          },
          description)
      ->check(known)
      ->type_name(list);
}

CLI::Validator Between(int least, int most) { return CLI::Range(least, most).description(""); }

class OptionTable {
 public:
  OptionTable(CLI::App& app, SessionOptions& options) : app_(app), options_(options) {}

  void Add() {
    AddMachine();
    AddCluster();
    AddMemory();
    AddTime();
    AddNccl();
    AddExecution();
    AddPrices();
    AddOutputs();
    AddGeneral();
  }

 private:
  void AddMachine();
  void AddCluster();
  void AddMemory();
  void AddTime();
  void AddNccl();
  void AddExecution();
  void AddPrices();
  void AddOutputs();
  void AddGeneral();

  CLI::App& app_;
  SessionOptions& options_;
};

void OptionTable::AddMachine() {
  const std::string group = "The machine";
  app_.add_option("--gpu", options_.gpu,
                  absl::StrCat("GPU personality: ", absl::StrJoin(GpuProfileNames(), ", "),
                               ", or a .json file"))
      ->type_name("GPU")
      ->capture_default_str()
      ->group(group);
  app_.add_option("--gpus", options_.gpus,
                  absl::StrCat("how many GPUs the machine has, at most ", kMostGpus))
      ->check(Between(1, kMostGpus))
      ->type_name("N")
      ->capture_default_str()
      ->group(group);
  app_.add_option("--driver", options_.driver,
                  "driver libraries: auto, a version, or the directory of libcuda.so.1")
      ->type_name("auto|VERSION|DIR")
      ->capture_default_str()
      ->group(group);
  app_.add_flag("--force-driver-abi", options_.force_driver_abi,
                "use the nearest known interface for an untested driver version")
      ->group(group);
}

void OptionTable::AddCluster() {
  const std::string group = "A cluster";
  auto* cluster =
      app_.add_option("--cluster", options_.job.cluster,
                      "a cluster: a preset ('phantora-run clusters' lists them) or a "
                      ".yaml file, with :N for N hosts; the command is started once per GPU")
          ->type_name("NAME[:N]|FILE[:N]")
          ->group(group);
  app_.get_option("--gpu")->excludes(cluster);
  app_.get_option("--gpus")->excludes(cluster);
  auto* start = AddChoice<Started>(
      app_, "--start", &options_.job.started,
      {{"auto", Started::kAuto},
       {"per-rank", Started::kPerRank},
       {"per-host", Started::kPerHost},
       {"once", Started::kOnce}},
      "how often the command is started on a cluster. per-rank: once per GPU; per-host: for "
      "launchers such as torchrun; once: on the first host; auto (default): per-host for "
      "torchrun, else per-rank");
  start->needs(cluster)->group(group);
  app_.add_flag_callback(
          "--per-host", [&options = options_] { options.job.started = Started::kPerHost; },
          "the same as --start per-host")
      ->needs(cluster)
      ->excludes(start)
      ->group(group);
  app_.add_option("--ranks-per-host,--nproc-per-node,--ntasks-per-node",
                  options_.job.ranks_per_host, "start fewer ranks than a host has GPUs")
      ->check(Between(1, kMostGpus))
      ->type_name("N")
      ->needs(cluster)
      ->group(group);
  app_.add_option("--preload", options_.job.preload,
                  "ranks are copies of one process that has imported these Python modules: they "
                  "start sooner and share more memory (for 'python train.py', not for torchrun)")
      ->type_name("MODULE,...")
      ->needs(cluster)
      ->group(group);
  AddChoice<std::optional<bool>>(
      app_, "--share-memory", &options_.share_memory,
      {{"auto", std::nullopt}, {"on", true}, {"off", false}},
      "ranks share memory that is the same until they write to it, so that more of them fit: "
      "auto (default: if there is little), on or off")
      ->needs(cluster)
      ->group(group);
  app_.add_option("--rank-env", options_.job.variables,
                  "environment variables that ranks get: torch (RANK, MASTER_ADDR, ...), slurm, "
                  "ompi, none, or several with commas")
      ->type_name("KIND,...")
      ->capture_default_str()
      ->needs(cluster)
      ->group(group);
  app_.add_option("--output", options_.job.output,
                  "what ranks write. prefix: whole lines after '[rank 3] '; merged: as it comes; "
                  "else a directory that gets a file per rank")
      ->type_name("prefix|merged|DIR")
      ->capture_default_str()
      ->needs(cluster)
      ->group(group);
}

void OptionTable::AddMemory() {
  const std::string group = "This machine's memory";
  app_.add_option_function<std::string>(
          "--memory-limit",
          [&options = options_](const std::string& given) {
            options.memory_limit = *ParseSize(given);
          },
          "the most that the run takes of this machine's memory, such as 16G (default: "
          "what the machine or its control group has, less a little)")
      ->check(CheckSize)
      ->type_name("SIZE")
      ->group(group);
  AddChoice<OutOfMemory>(
      app_, "--out-of-memory", &options_.out_of_memory,
      {{"cuda", OutOfMemory::kCuda}, {"kill", OutOfMemory::kKill}},
      "when it is nearly used up. cuda: allocations of GPU memory fail as if the GPU had no more "
      "(default); kill: they go on; in the end who needs more is ended")
      ->group(group);
  app_.add_flag("--check-gpu-memory", options_.check_gpu_memory,
                "do everything that GPU memory goes through a second time, without sharing, and "
                "compare: slow, for finding mistakes of Phantora's own")
      ->group(group);
}

void OptionTable::AddTime() {
  const std::string group = "Time";
  AddChoice<HostTimeMode>(app_, "--host-time", &options_.host_time.mode,
                          {{"measured", HostTimeMode::kMeasured},
                           {"learned", HostTimeMode::kLearned},
                           {"fixed", HostTimeMode::kFixed},
                           {"zero", HostTimeMode::kZero},
                           {"real", HostTimeMode::kReal}},
                          "what the program's own code takes. measured: its processor time here "
                          "(default); learned: the same, as the mean of its repeats; fixed: a "
                          "charge per call, the same in every run; "
                          "zero: nothing; real: nothing is simulated")
      ->group(group);
  app_.add_option("--host-profile", options_.host_profile,
                  "--host-time learned, with costs from FILE alone, so that runs are all but "
                  "equal; where FILE is not there, they are learned, and written to it")
      ->type_name("FILE")
      ->group(group);
  app_.add_option(
          "--host-scale", options_.host_time.scale,
          "measured time is multiplied by this: below 1 for a target with faster processors")
      ->check(CheckScale)
      ->type_name("FACTOR")
      ->capture_default_str()
      ->group(group);
  app_.add_option("--nice", options_.nice,
                  "nice value, 0 to 19, of processes that use a GPU in real time, where they wait "
                  "by spinning (default: 19)")
      ->check(Between(0, 19))
      ->type_name("N")
      ->group(group);
}

void OptionTable::AddNccl() {
  const std::string group = "NCCL";
  AddChoice<bool>(app_, "--nccl", &options_.native_nccl, {{"ours", false}, {"native", true}},
                  "which libnccl.so.2 the program gets. ours: one that crosses the emulated "
                  "network (default); native: its own, inside one host")
      ->group(group);
  app_.add_option_function<std::string>(
          "--nccl-reduce",
          [&options = options_](const std::string& given) {
            options.reduces_what_is_real = false;
            if (given == "full") {
              options.largest_reduction = std::numeric_limits<int64_t>::max();
            } else {
              (void)absl::SimpleAtoi(given, &options.largest_reduction);  // as checked
            }
          },
          "bytes of the largest NCCL reduction whose result is computed; of larger ones it is "
          "what rank 0 contributed. 'full' computes all; so does --execute all, and by default as "
          "long as every kernel of the ranks was executed")
      ->check(CheckBytes)
      ->type_name("BYTES|full")
      ->default_str(absl::StrCat(options_.largest_reduction))
      ->group(group);
}

void OptionTable::AddExecution() {
  app_.add_option_function<std::string>(
          "--execute",
          [&options = options_](const std::string& given) {
            int64_t most = SessionOptions::kSmallExecution;
            if (given == "off") most = 0;
            if (int64_t number; absl::SimpleAtoi(given, &number)) most = number;
            options.execute = most;
            if (given == "all") options.execute.reset();
            options.execute_on_gpu = given == "gpu";
          },
          "which kernels are executed, so that their results are real. N: those that take at most "
          "N "
          "instructions of threads; small: 50,000,000, and little more where they depend on what "
          "was not executed; all: as long as it may take; gpu: all that the GPU of this machine "
          "can, "
          "and the rest as small; off: none")
      ->check(CheckExecution)
      ->type_name("off|small|all|gpu|N")
      ->default_str("small")
      ->group("Results");
  AddChoice<bool>(
      app_, "--check", &options_.check_memory, {{"memory", true}},
      "memory: find what programs do with GPU memory and may not, although a GPU lets them: "
      "kernels and copies beyond allocations or in freed ones, reads of what nobody has written, "
      "memory that is never freed. Kernels of any length are executed for it")
      ->group("Results");
  app_.add_option("--execute-command", options_.executor,
                  "who has the GPU of --execute gpu: a command that does as 'phantora-profile "
                  "execute' (default)")
      ->type_name("COMMAND")
      ->group("Results");
  app_.add_option_function<double>(
          "--execute-memory",
          [&options = options_](double gib) {
            options.executor_memory = static_cast<uint64_t>(gib * (uint64_t{1} << 30));
          },
          "GiB of that GPU's memory for the memory of all emulated ones; what is more waits in the "
          "host's (default: most of what is free)")
      ->check(CLI::Range(0.0625, 1024.0).description(""))
      ->type_name("GIB")
      ->group("Results");
  AddChoice<Skipped>(
      app_, "--skipped", &options_.skipped,
      {{"zeros", Skipped::kZeros}, {"noise", Skipped::kNoise}, {"stale", Skipped::kStale}},
      "what is where a kernel should have written that was not executed: zeros; noise: small "
      "numbers, always the same, where products and attention write, else zeros; stale: what was "
      "there before")
      ->default_str("zeros")
      ->group("Results");
  app_.add_option_function<std::string>(
          "--routing",
          [&options = options_](const std::string& text) {
            auto weights = ReadRoutingWeights(text);
            if (!weights.ok()) {
              throw CLI::ValidationError("--routing", std::string(weights.status().message()));
            }
            options.routing = *std::move(weights);
          },
          "which experts tokens go to, at random: balanced; zipf, the one of rank r as 1 / r^S; or "
          "by numbers in a file, a line for each layer (default: what the router computes)")
      ->type_name("balanced|zipf[:S]|FILE")
      ->group("Results");
}

void OptionTable::AddPrices() {
  const std::string group = "What kernels take";
  app_.add_option("--kernel-time", options_.kernel_microseconds,
                  "microseconds that every kernel takes (default: what a cost model says; 0 in "
                  "real time)")
      ->check(CLI::Validator(CLI::NonNegativeNumber).description(""))
      ->type_name("US")
      ->group(group);
  app_.add_flag_callback(
          "--model-only", [&options = options_] { options.measured_rows = false; },
          "price kernels by the model alone, not by what was measured of them")
      ->group(group);
  app_.add_option("--missing", options_.missing.list,
                  "write every kernel launch that had no measured price, with all that it takes to "
                  "measure it, to this file, for phantora-profile")
      ->type_name("FILE")
      ->group(group);
  app_.add_option("--rows", options_.missing.rows,
                  "measured prices of your own (from phantora-profile), before those that ship")
      ->type_name("FILE")
      ->group(group);
  auto* measure =
      app_.add_flag("--gpu-profiler", options_.missing.measure,
                    "measure kernels without a measured price on the GPU of this machine, which "
                    "must be the one that is emulated, and add them to --rows FILE (default: a "
                    "file in the cache)")
          ->group(group);
  app_.add_option("--gpu-profiler-command", options_.missing.profiler,
                  "what measures them: a command that does as 'phantora-profile - --results -', "
                  "for instance over ssh")
      ->type_name("COMMAND")
      ->needs(measure)
      ->group(group);
}

void OptionTable::AddOutputs() {
  const auto add = [this](const char* name, std::string* file, const char* type,
                          const char* description) {
    app_.add_option(name, *file, description)->type_name(type)->group("What is written");
  };
  add("-o,--out", &options_.out, "DIR",
      "all that is usually looked at, in this directory: --report DIR --trace DIR/trace.json");
  add("--report", &options_.report, "DIR",
      "write report.html and report.json about the run into this directory");
  app_.add_option(
          "--step-tokens", options_.step_tokens,
          "how many tokens all ranks together take in a step, for tokens/s in the summary and "
          "report")
      ->type_name("N")
      ->check(CLI::Validator(CLI::PositiveNumber).description(""))
      ->group("What is written");
  app_.add_option("--compare", options_.compared,
                  "run nothing: compare two reports, directories that --report wrote")
      ->type_name("A B")
      ->expected(2)
      ->group("What is written");
  add("--trace", &options_.trace, "FILE",
      "write a timeline of the GPUs to this file, for ui.perfetto.dev");
  add("--record-step", &options_.record_step, "FILE",
      "write what each rank's GPU did, and what each piece of work waited for, to this file, for "
      "phantora-replay");
  add("--log-calls", &options_.log_calls, "FILE", "write every driver call to this file");
  add("--log-kernels", &options_.log_kernels, "FILE",
      "write every distinct kernel launch, and what its price was made from, to this file (JSON "
      "lines)");
}

void OptionTable::AddGeneral() {
  app_.add_option("--env", options_.environment,
                  "a variable of the command's environment; may be given several times")
      ->type_name("NAME=VALUE")
      ->check(CheckVariable)
      ->allow_extra_args(false);
  auto* config = app_.add_option("--config", options_.config,
                                 "take options from this file, in TOML: gpus = 8, verbose = true, "
                                 "and a table [env] (default: phantora.toml, where it is in this "
                                 "folder and yours). The command line goes before it")
                     ->type_name("FILE");
  app_.add_flag("--no-config", options_.no_config, "take none from phantora.toml")
      ->excludes(config);
  app_.add_flag("--dry-run", options_.dry_run,
                "check everything, start nothing, and say what would be started");
  app_.add_flag_callback(
      "--no-status", [&options = options_] { options.status = false; },
      "no status line on the terminal while simulated time passes");
  app_.add_flag("-v,--verbose", options_.verbose, "say more");
}

}  // namespace

void AddRunOptions(CLI::App& app, SessionOptions& options) { OptionTable(app, options).Add(); }

}  // namespace phantora
