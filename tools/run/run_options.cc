#include "tools/run/run_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <optional>
#include <sstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "profiles/gpu/gpu_profile.h"
#include "tools/observe/compare_reports.h"
#include "tools/run/option_effects.h"
#include "trap/rm/machine.h"

namespace phantora {
namespace {

constexpr uint64_t kLeastLimit = uint64_t{256} << 20;
constexpr char kVersion[] = "0.1.0";
constexpr char kUsage[] =
    "phantora-run [OPTIONS] -- COMMAND [ARGUMENTS...]\n"
    "phantora-run doctor\n"
    "phantora-run setup\n"
    "phantora-run --cluster list\n\n"
    "Runs COMMAND, unmodified, as if this machine had NVIDIA GPUs, or were a cluster of such\n"
    "machines. 'doctor' checks whether this machine can; 'setup' fetches NVIDIA's driver\n"
    "libraries, which an installed package does not have.";
constexpr char kExitStatus[] =
    "Exit status: the command's, or 128 + N if signal N ended it; 126 or 127 if it cannot be\n"
    "run; 125 if phantora-run cannot set things up, and has not run it; 70 if phantora-run's\n"
    "supervisor died; 1 if NCCL failed, or --check-gpu-memory found a difference.";

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

std::string CheckBytes(const std::string& given) {
  int64_t bytes;
  if (given == "full" || (absl::SimpleAtoi(given, &bytes) && bytes >= 0)) return "";
  return absl::StrCat("'", given, "' is neither 'full' nor a number of bytes");
}

// "off", "small", "all" or a number of thread instructions.
std::string CheckExecution(const std::string& given) {
  int64_t most;
  if (given == "off" || given == "small" || given == "all" || given == "gpu" ||
      (absl::SimpleAtoi(given, &most) && most >= 0)) {
    return "";
  }
  return absl::StrCat("'", given,
                      "' is not 'off', 'small', 'all', 'gpu' or a number of instructions");
}

// "16G", "500MiB", "1.5 TB", a number of bytes; units are powers of 1024, as of ulimit and Slurm.
std::optional<uint64_t> ParseSize(const std::string& given) {
  char* rest;
  const double number = std::strtod(given.c_str(), &rest);
  std::string unit = absl::AsciiStrToLower(absl::StripAsciiWhitespace(rest));
  if (absl::EndsWith(unit, "ib")) {
    unit.resize(unit.size() - 2);
  } else if (absl::EndsWith(unit, "b")) {
    unit.resize(unit.size() - 1);
  }
  const std::string units = "kmgt";
  const size_t power = unit.empty() ? 0 : units.find(unit) + 1;
  const double bytes = number * std::pow(1024.0, static_cast<double>(power));
  if (rest == given.c_str() || (!unit.empty() && (unit.size() > 1 || power == 0)) ||
      !(bytes >= 0) || bytes >= 9e18) {
    return std::nullopt;
  }
  return static_cast<uint64_t>(bytes);
}

std::string CheckSize(const std::string& given) {
  const auto bytes = ParseSize(given);
  if (!bytes) return absl::StrCat("'", given, "' is no size such as 16G or 500M");
  if (*bytes < kLeastLimit) return absl::StrCat("'", given, "' is less than any run takes (256M)");
  return "";
}

std::string CheckScale(const std::string& given) {
  double scale;
  if (absl::SimpleAtod(given, &scale) && std::isfinite(scale) && scale > 0) return "";
  return absl::StrCat("'", given, "' is no number above 0");
}

CLI::Validator Between(int least, int most) { return CLI::Range(least, most).description(""); }

class Parser {
 public:
  Parser();
  RunRequest Parse(const std::vector<std::string>& arguments);

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
  RunRequest Printed(const CLI::ParseError& error) const;
  RunRequest Refused(const std::string& why) const;
  RunRequest Checked(bool separated);
  RunRequest ListClusters() const;
  // --compare
  RunRequest Compare() const;
  // The first option on the command line that would do nothing; "" if there is none.
  std::string WithoutEffect() const;
  // Was any option given at all?
  bool AnyOption() const;

  SessionOptions options_;
  CLI::App app_;
};

Parser::Parser() : app_(kUsage, "phantora-run") {
  app_.set_version_flag("--version", absl::StrCat("phantora-run ", kVersion));
  app_.footer(kExitStatus);
  AddMachine();
  AddCluster();
  AddMemory();
  AddTime();
  AddNccl();
  AddExecution();
  AddPrices();
  AddOutputs();
  AddGeneral();
  // From the first word that is no option on, everything is the command's.
  app_.prefix_command();
}

void Parser::AddMachine() {
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

void Parser::AddCluster() {
  const std::string group = "A cluster";
  auto* cluster = app_.add_option("--cluster", options_.job.cluster,
                                  "a cluster: a preset ('list' prints them) or a .yaml file, with "
                                  ":N for N hosts; the command is started once per GPU")
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
          "--per-host", [this] { options_.job.started = Started::kPerHost; },
          "the same as --start per-host")
      ->needs(cluster)
      ->excludes(start)
      ->group(group);
  app_.add_option("--ranks-per-host", options_.job.ranks_per_host,
                  "start fewer ranks than a host has GPUs")
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

void Parser::AddMemory() {
  const std::string group = "This machine's memory";
  app_.add_option_function<std::string>(
          "--memory-limit",
          [this](const std::string& given) { options_.memory_limit = *ParseSize(given); },
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

void Parser::AddTime() {
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

void Parser::AddNccl() {
  const std::string group = "NCCL";
  AddChoice<bool>(app_, "--nccl", &options_.native_nccl, {{"ours", false}, {"native", true}},
                  "which libnccl.so.2 the program gets. ours: one that crosses the emulated "
                  "network (default); native: its own, inside one host")
      ->group(group);
  app_.add_option_function<std::string>(
          "--nccl-reduce",
          [this](const std::string& given) {
            options_.reduces_what_is_real = false;
            if (given == "full") {
              options_.largest_reduction = std::numeric_limits<int64_t>::max();
            } else {
              (void)absl::SimpleAtoi(given, &options_.largest_reduction);  // as checked
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

void Parser::AddExecution() {
  app_.add_option_function<std::string>(
          "--execute",
          [this](const std::string& given) {
            int64_t most = SessionOptions::kSmallExecution;
            if (given == "off") most = 0;
            if (int64_t number; absl::SimpleAtoi(given, &number)) most = number;
            options_.execute = most;
            if (given == "all") options_.execute.reset();
            options_.execute_on_gpu = given == "gpu";
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
  app_.add_option("--execute-command", options_.executor,
                  "who has the GPU of --execute gpu: a command that does as 'phantora-profile "
                  "execute' (default)")
      ->type_name("COMMAND")
      ->group("Results");
  app_.add_option_function<double>(
          "--execute-memory",
          [this](double gib) {
            options_.executor_memory = static_cast<uint64_t>(gib * (uint64_t{1} << 30));
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
          [this](const std::string& text) {
            auto weights = ReadRoutingWeights(text);
            if (!weights.ok()) {
              throw CLI::ValidationError("--routing", std::string(weights.status().message()));
            }
            options_.routing = *std::move(weights);
          },
          "which experts tokens go to, at random: balanced; zipf, the one of rank r as 1 / r^S; or "
          "by numbers in a file, a line for each layer (default: what the router computes)")
      ->type_name("balanced|zipf[:S]|FILE")
      ->group("Results");
}

void Parser::AddPrices() {
  const std::string group = "What kernels take";
  app_.add_option("--kernel-time", options_.kernel_microseconds,
                  "microseconds that every kernel takes (default: what a cost model says; 0 in "
                  "real time)")
      ->check(CLI::Validator(CLI::NonNegativeNumber).description(""))
      ->type_name("US")
      ->group(group);
  app_.add_flag_callback(
          "--model-only", [this] { options_.measured_rows = false; },
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

void Parser::AddOutputs() {
  const auto add = [this](const char* name, std::string* file, const char* type,
                          const char* description) {
    app_.add_option(name, *file, description)->type_name(type)->group("What is written");
  };
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

void Parser::AddGeneral() {
  app_.add_flag("--dry-run", options_.dry_run,
                "check everything, start nothing, and say what would be started");
  app_.add_flag_callback(
      "--no-status", [this] { options_.status = false; },
      "no status line on the terminal while simulated time passes");
  app_.add_flag("-v,--verbose", options_.verbose, "say more");
}

RunRequest Parser::Printed(const CLI::ParseError& error) const {
  std::ostringstream output, errors;
  RunRequest request;
  request.exit_status = app_.exit(error, output, errors) == 0 ? 0 : kCannotSetUp;
  request.output = output.str();
  request.errors = errors.str();
  return request;
}

RunRequest Parser::Refused(const std::string& why) const {
  RunRequest request;
  request.exit_status = kCannotSetUp;
  request.errors = absl::StrCat("phantora-run: ", why, "\n");
  return request;
}

bool Parser::AnyOption() const {
  const auto options = app_.get_options();
  return std::any_of(options.begin(), options.end(),
                     [](const CLI::Option* option) { return option->count() > 0; });
}

std::string Parser::WithoutEffect() const {
  for (const OptionEffect& effect : OptionEffects()) {
    if (app_.get_option(effect.option)->count() > 0 && !effect.has_effect(options_)) {
      return absl::StrCat(effect.option, " ", effect.otherwise);
    }
  }
  return "";
}

RunRequest Parser::ListClusters() const {
  if (!options_.command.empty()) return Refused("--cluster list runs no command");
  RunRequest request;
  request.output = DescribeClusters();
  return request;
}

RunRequest Parser::Compare() const {
  if (!options_.command.empty()) return Refused("--compare runs no command");
  for (const CLI::Option* option : app_.get_options()) {
    if (option->count() > 0 && !option->check_lname("compare")) {
      return Refused(absl::StrCat(option->get_name(), " has no effect with --compare"));
    }
  }
  const auto first = ReadReport(options_.compared[0]), second = ReadReport(options_.compared[1]);
  for (const auto* report : {&first, &second}) {
    if (!report->ok()) return Refused(std::string(report->status().message()));
  }
  RunRequest request;
  request.output = absl::StrCat(absl::StrJoin(CompareReports(*first, *second), "\n"), "\n");
  return request;
}

RunRequest Parser::Checked(bool separated) {
  if (options_.job.cluster == "list") return ListClusters();
  if (!options_.compared.empty()) return Compare();
  const auto& command = options_.command;
  if (!separated && !command.empty() && command[0].size() > 1 && command[0][0] == '-') {
    return Refused(absl::StrCat("unknown option ", command[0], "; see --help"));
  }
  if ((!options_.execute || options_.execute_on_gpu) &&
      app_.get_option("--nccl-reduce")->count() == 0) {
    // Who wants all results wants sums of them too.
    options_.largest_reduction = std::numeric_limits<int64_t>::max();
  }
  if (!options_.host_profile.empty() && app_.get_option("--host-time")->count() == 0) {
    options_.host_time.mode = HostTimeMode::kLearned;
  }
  const auto is_own = [&](const char* name) {
    return !separated && command.size() == 1 && command[0] == name;
  };
  const bool doctor = is_own("doctor"), setup = is_own("setup");
  if ((doctor || setup) && AnyOption()) {
    return Refused(absl::StrCat(command[0], " takes no options; '-- ", command[0],
                                "' runs a command of that name"));
  }
  RunRequest request;
  if (doctor || setup) {
    request.action = doctor ? RunAction::kDoctor : RunAction::kSetup;
    return request;
  }
  if (const std::string why = WithoutEffect(); !why.empty()) return Refused(why);
  if (command.empty()) {
    request.exit_status = kCannotSetUp;
    request.errors = app_.help();
    return request;
  }
  request.action = RunAction::kSession;
  request.options = options_;
  return request;
}

RunRequest Parser::Parse(const std::vector<std::string>& arguments) {
  try {
    // CLI11 takes them from the back.
    app_.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& error) {
    return Printed(error);
  }
  options_.command = app_.remaining();
  const bool separated = !options_.command.empty() && options_.command[0] == "--";
  if (separated) options_.command.erase(options_.command.begin());
  return Checked(separated);
}

}  // namespace

RunRequest ParseRunOptions(const std::vector<std::string>& arguments) {
  return Parser().Parse(arguments);
}

}  // namespace phantora
