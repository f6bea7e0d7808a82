#include "tools/run/run_options.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tools/run/option_effects.h"

namespace phantora {
namespace {

using Arguments = std::vector<std::string>;

// `line` in words, followed by "-- true".
RunRequest Parsed(const std::string& line) {
  Arguments arguments = absl::StrSplit(line, ' ', absl::SkipEmpty());
  arguments.insert(arguments.end(), {"--", "true"});
  return ParseRunOptions(arguments);
}

SessionOptions Accepted(const std::string& line) {
  const RunRequest request = Parsed(line);
  EXPECT_EQ(request.action, RunAction::kSession) << line << ": " << request.errors;
  EXPECT_EQ(request.options.command, Arguments{"true"}) << line;
  return request.options;
}

// What is said of it.
std::string Refused(const std::string& line) {
  const RunRequest request = Parsed(line);
  EXPECT_EQ(request.action, RunAction::kPrint) << line;
  EXPECT_EQ(request.exit_status, kCannotSetUp) << line;
  EXPECT_EQ(request.output, "") << line;
  EXPECT_NE(request.errors, "") << line;
  return request.errors;
}

void ExpectRefused(const std::string& line, const std::string& said) {
  EXPECT_TRUE(absl::StrContains(Refused(line), said)) << line << ": " << Refused(line);
}

std::string Help() { return ParseRunOptions({"--help-all"}).output; }

TEST(RunOptionsTest, WithoutOptionsThereIsOneGpuInMeasuredTime) {
  const SessionOptions options = Accepted("");
  EXPECT_EQ(options.gpu, "h100-sxm5-80gb");
  EXPECT_EQ(options.gpus, 1);
  EXPECT_EQ(options.job.cluster, "");
  EXPECT_EQ(options.host_time.mode, HostTimeMode::kMeasured);
  EXPECT_EQ(options.host_time.scale, 1.0);
  EXPECT_EQ(options.largest_reduction, 1 << 20);
  EXPECT_EQ(options.nice, std::nullopt);
  EXPECT_EQ(options.kernel_microseconds, std::nullopt);
  EXPECT_EQ(options.share_memory, std::nullopt);
  EXPECT_TRUE(options.measured_rows);
  EXPECT_TRUE(options.status);
  EXPECT_FALSE(options.native_nccl);
  EXPECT_FALSE(options.dry_run);
  EXPECT_FALSE(options.verbose);
}

TEST(RunOptionsTest, OptionsOfTheMachine) {
  const SessionOptions options =
      Accepted("--gpu a100-sxm4-80gb --gpus 8 --driver 550.163.01 --force-driver-abi -v");
  EXPECT_EQ(options.gpu, "a100-sxm4-80gb");
  EXPECT_EQ(options.gpus, 8);
  EXPECT_EQ(options.driver, "550.163.01");
  EXPECT_TRUE(options.force_driver_abi);
  EXPECT_TRUE(options.verbose);
}

TEST(RunOptionsTest, OptionsOfACluster) {
  const SessionOptions options = Accepted(
      "--cluster dgx-h100:4 --ranks-per-host 2 --rank-env torch,slurm --output merged "
      "--share-memory on");
  EXPECT_EQ(options.job.cluster, "dgx-h100:4");
  EXPECT_EQ(options.job.ranks_per_host, 2);
  EXPECT_EQ(options.job.variables, "torch,slurm");
  EXPECT_EQ(options.job.output, "merged");
  EXPECT_EQ(options.share_memory, true);
}

TEST(RunOptionsTest, OptionsOfFilesAndPrices) {
  const SessionOptions options = Accepted(
      "--report r --trace t --record-step s --log-calls c --log-kernels k --missing m --rows p "
      "--gpu-profiler --gpu-profiler-command ssh --no-status");
  EXPECT_EQ(options.report, "r");
  EXPECT_EQ(options.trace, "t");
  EXPECT_EQ(options.record_step, "s");
  EXPECT_EQ(options.log_calls, "c");
  EXPECT_EQ(options.log_kernels, "k");
  EXPECT_EQ(options.missing.list, "m");
  EXPECT_EQ(options.missing.rows, "p");
  EXPECT_TRUE(options.missing.measure);
  EXPECT_EQ(options.missing.profiler, "ssh");
  EXPECT_FALSE(options.status);
  EXPECT_FALSE(Accepted("--model-only").measured_rows);
  EXPECT_EQ(Accepted("--kernel-time 20").kernel_microseconds, 20);
}

TEST(RunOptionsTest, EveryWordOfAChoiceIsItsValue) {
  for (const auto& [word, mode] :
       {std::pair("measured", HostTimeMode::kMeasured), std::pair("fixed", HostTimeMode::kFixed),
        std::pair("learned", HostTimeMode::kLearned), std::pair("zero", HostTimeMode::kZero),
        std::pair("real", HostTimeMode::kReal)}) {
    EXPECT_EQ(Accepted(absl::StrCat("--host-time ", word)).host_time.mode, mode);
  }
  for (const auto& [word, started] :
       {std::pair("auto", Started::kAuto), std::pair("per-rank", Started::kPerRank),
        std::pair("per-host", Started::kPerHost), std::pair("once", Started::kOnce)}) {
    EXPECT_EQ(Accepted(absl::StrCat("--cluster dgx-h100 --start ", word)).job.started, started);
  }
  EXPECT_EQ(Accepted("--cluster dgx-h100 --per-host").job.started, Started::kPerHost);
  EXPECT_FALSE(Accepted("--nccl ours").native_nccl);
  EXPECT_TRUE(Accepted("--nccl native").native_nccl);
  EXPECT_EQ(Accepted("").memory_limit, 0u);
  EXPECT_EQ(Accepted("--memory-limit 16G").memory_limit, uint64_t{16} << 30);
  EXPECT_EQ(Accepted("--memory-limit 1.5GiB").memory_limit, uint64_t{3} << 29);
  EXPECT_EQ(Accepted("--memory-limit 500m").memory_limit, uint64_t{500} << 20);
  EXPECT_EQ(Accepted("--memory-limit 268435456").memory_limit, uint64_t{256} << 20);
  for (const char* size : {"lots", "-1G", "1X", "1GG", "1e30", "nan", "''"}) {
    ExpectRefused(absl::StrCat("--memory-limit ", size), "is no size such as 16G or 500M");
  }
  ExpectRefused("--memory-limit 1M", "less than any run takes");
  EXPECT_EQ(Accepted("--out-of-memory kill").out_of_memory, OutOfMemory::kKill);
  EXPECT_TRUE(Accepted("--check-gpu-memory").check_gpu_memory);
  EXPECT_EQ(Accepted("--cluster dgx-h100 --share-memory off").share_memory, false);
  EXPECT_EQ(Accepted("--cluster dgx-h100 --share-memory auto").share_memory, std::nullopt);
}

TEST(RunOptionsTest, NumbersAreNoWordsForChoices) {
  for (const char* number : {"0", "1", "2", "3"}) {
    ExpectRefused(absl::StrCat("--host-time ", number),
                  "is none of measured, learned, fixed, zero, real");
    ExpectRefused(absl::StrCat("--cluster dgx-h100 --start ", number), "is none of auto, per-rank");
    ExpectRefused(absl::StrCat("--nccl ", number), "is none of ours, native");
    ExpectRefused(absl::StrCat("--cluster dgx-h100 --share-memory ", number), "is none of auto");
  }
  ExpectRefused("--host-time Real", "is none of");
}

TEST(RunOptionsTest, NumbersHaveLimits) {
  ExpectRefused("--gpus 0", "--gpus");
  ExpectRefused("--gpus 17", "--gpus");
  ExpectRefused("--gpus two", "--gpus");
  ExpectRefused("--cluster dgx-h100 --ranks-per-host 0", "--ranks-per-host");
  ExpectRefused("--host-time real --nice 20", "--nice");
  ExpectRefused("--host-time real --nice -1", "--nice");
  ExpectRefused("--kernel-time -1", "--kernel-time");
  for (const char* scale : {"0", "-1", "nan", "inf", "fast"}) {
    ExpectRefused(absl::StrCat("--host-scale ", scale), "is no number above 0");
  }
  EXPECT_EQ(Accepted("--host-scale 0.5").host_time.scale, 0.5);
}

TEST(RunOptionsTest, TheLargestReductionIsANumberOrFull) {
  EXPECT_EQ(Accepted("--nccl-reduce 0").largest_reduction, 0);
  EXPECT_EQ(Accepted("--nccl-reduce 4096").largest_reduction, 4096);
  EXPECT_EQ(Accepted("--nccl-reduce full").largest_reduction, std::numeric_limits<int64_t>::max());
  // The program's own NCCL has its data moved by the same hands.
  EXPECT_EQ(Accepted("--nccl native --nccl-reduce 0").largest_reduction, 0);
  for (const char* bytes : {"-1", "all", "1.5", "99999999999999999999"}) {
    ExpectRefused(absl::StrCat("--nccl-reduce ", bytes), "neither 'full' nor a number of bytes");
  }
}

TEST(RunOptionsTest, OptionsOfAClusterNeedOne) {
  for (const char* line : {"--start once", "--per-host", "--ranks-per-host 1", "--share-memory on",
                           "--rank-env slurm", "--output merged"}) {
    ExpectRefused(line, "requires --cluster");
  }
  ExpectRefused("--cluster dgx-h100 --gpus 2", "excludes");
  ExpectRefused("--cluster dgx-h100 --gpu h100-sxm5-80gb", "excludes");
  ExpectRefused("--cluster dgx-h100 --start once --per-host", "excludes");
  ExpectRefused("--gpu-profiler-command ssh", "requires --gpu-profiler");
}

TEST(RunOptionsTest, WhatNeedsSimulatedTimeIsRefusedInRealTime) {
  for (const char* option : {"--trace t", "--report r", "--record-step s", "--log-kernels k",
                             "--missing m", "--rows p", "--gpu-profiler", "--model-only",
                             "--nccl native", "--cluster dgx-h100 --share-memory on"}) {
    Accepted(option);
    ExpectRefused(absl::StrCat("--host-time real ", option),
                  "needs simulated time, which --host-time real has not");
  }
  // What is asked for is what happens.
  Accepted("--host-time real --nccl ours");
  Accepted("--host-time real --cluster dgx-h100 --share-memory off");
  Accepted("--host-time real --no-status --kernel-time 20 --log-calls c --nccl-reduce 0");
}

TEST(RunOptionsTest, AScaleIsRefusedWhereNothingIsMeasured) {
  Accepted("--host-time measured --host-scale 0.5");
  for (const char* mode : {"fixed", "zero", "real"}) {
    // Also where it is the one that there is anyway.
    for (const char* scale : {"0.5", "1"}) {
      ExpectRefused(absl::StrCat("--host-time ", mode, " --host-scale ", scale),
                    "--host-scale scales measured time; it needs --host-time measured");
    }
  }
}

TEST(RunOptionsTest, AProfileOfTheHostStandsForLearnedTime) {
  EXPECT_EQ(Accepted("--host-profile p").host_time.mode, HostTimeMode::kLearned);
  EXPECT_EQ(Accepted("--host-profile p --host-time learned").host_profile, "p");
  EXPECT_EQ(Accepted("--host-profile p --host-scale 0.5").host_time.scale, 0.5);
  for (const char* mode : {"measured", "fixed", "zero", "real"}) {
    ExpectRefused(absl::StrCat("--host-time ", mode, " --host-profile p"),
                  "--host-profile needs --host-time learned");
  }
}

TEST(RunOptionsTest, NiceIsRefusedInSimulatedTime) {
  EXPECT_EQ(Accepted("--host-time real --nice 5").nice, 5);
  for (const char* mode : {"measured", "fixed", "zero"}) {
    ExpectRefused(absl::StrCat("--host-time ", mode, " --nice 5"), "--host-time real only");
  }
}

TEST(RunOptionsTest, PricesThatNobodyWouldUseAreRefused) {
  ExpectRefused("--model-only --rows p", "--rows has no effect with --model-only");
  ExpectRefused("--model-only --gpu-profiler", "uses no measured prices");
  ExpectRefused("--kernel-time 1 --rows p", "--rows has no effect with --kernel-time");
  ExpectRefused("--kernel-time 1 --model-only", "--model-only has no effect with --kernel-time");
  ExpectRefused("--kernel-time 1 --gpu-profiler", "has no effect with --kernel-time");
  // A list of launches is one whatever they take.
  Accepted("--kernel-time 1 --missing m");
  Accepted("--model-only --missing m");
}

TEST(RunOptionsTest, WhatSkippedKernelsLeaveIsForRunsThatExecute) {
  EXPECT_EQ(Accepted("").skipped, Skipped::kZeros);
  EXPECT_EQ(Accepted("--skipped noise").skipped, Skipped::kNoise);
  EXPECT_EQ(Accepted("--skipped stale --execute off").skipped, Skipped::kStale);
  ExpectRefused("--skipped zeros --execute off", "no effect with --execute off");
  ExpectRefused("--skipped noise --host-time real", "needs simulated time");
  ExpectRefused("--skipped ones", "'ones' is none of zeros, noise, stale");
}

TEST(RunOptionsTest, RoutingIsForRunsThatExecute) {
  EXPECT_FALSE(Accepted("").routing.has_value());
  EXPECT_EQ(Accepted("--routing balanced").routing->kind, RoutingWeights::Kind::kBalanced);
  EXPECT_EQ(Accepted("--routing zipf:1.5").routing->exponent, 1.5);
  ExpectRefused("--routing zipf:x", "is no zipf:EXPONENT");
  ExpectRefused("--routing /no/such", "nor a file that can be read");
  ExpectRefused("--routing zipf --execute off", "no router chooses anything");
  ExpectRefused("--routing zipf --host-time real", "needs simulated time");
}

TEST(RunOptionsTest, OpenMpisVariablesAreRefusedWhereNoRankIsStarted) {
  Accepted("--cluster dgx-h100 --rank-env ompi");
  Accepted("--cluster dgx-h100 --rank-env torch --per-host");
  for (const char* kinds : {"ompi", "torch,ompi"}) {
    for (const char* start : {"--per-host", "--start once"}) {
      ExpectRefused(absl::StrCat("--cluster dgx-h100 --rank-env ", kinds, " ", start), "ompi");
    }
  }
  const RunRequest launcher =
      ParseRunOptions({"--cluster", "dgx-h100", "--rank-env", "ompi", "--", "torchrun", "x.py"});
  EXPECT_EQ(launcher.exit_status, kCannotSetUp);
  EXPECT_TRUE(absl::StrContains(launcher.errors, "ompi")) << launcher.errors;
}

TEST(RunOptionsTest, EveryRowNamesAnOptionThatThereIs) {
  const std::string help = Help();
  for (const OptionEffect& effect : OptionEffects()) {
    EXPECT_TRUE(absl::StrContains(help, effect.option)) << effect.option;
  }
}

TEST(RunOptionsTest, TheCommandIsWhatFollows) {
  const auto command = [](const Arguments& arguments) {
    const RunRequest request = ParseRunOptions(arguments);
    EXPECT_EQ(request.action, RunAction::kSession) << request.errors;
    return request.options.command;
  };
  EXPECT_EQ(command({"printf", "%s", "--gpus", "-v"}), (Arguments{"printf", "%s", "--gpus", "-v"}));
  EXPECT_EQ(command({"--gpus", "2", "--", "a", "--", "b"}), (Arguments{"a", "--", "b"}));
  EXPECT_EQ(command({"--", "--odd"}), Arguments{"--odd"});
  const RunRequest none = ParseRunOptions({"--gpus", "2"});
  EXPECT_EQ(none.exit_status, kCannotSetUp);
  EXPECT_TRUE(absl::StrContains(none.errors, "phantora-run [OPTIONS] -- COMMAND"));
  EXPECT_TRUE(absl::StrContains(none.errors, "error: there is no command"));
}

TEST(RunOptionsTest, UnknownOptionsAreRefused) {
  for (const char* option : {"--frobnicate", "--frob=gpu", "-x"}) {
    ExpectRefused(option, "unknown option");
  }
}

TEST(RunOptionsTest, WhatIsExecutedIsAWordOrANumber) {
  EXPECT_EQ(Accepted("").execute, 50'000'000);
  EXPECT_EQ(Accepted("--execute off").execute, 0);
  EXPECT_EQ(Accepted("--execute small").execute, 50'000'000);
  EXPECT_EQ(Accepted("--execute 1000").execute, 1000);
  EXPECT_EQ(Accepted("--execute all").execute, std::nullopt);
  EXPECT_FALSE(Accepted("--execute all").execute_on_gpu);
  const SessionOptions on_gpu = Accepted("--execute gpu --execute-memory 2 --execute-command c");
  EXPECT_TRUE(on_gpu.execute_on_gpu);
  EXPECT_EQ(on_gpu.execute, 50'000'000);  // of what the GPU cannot
  EXPECT_EQ(on_gpu.executor_memory, uint64_t{2} << 30);
  EXPECT_EQ(on_gpu.executor, "c");
  EXPECT_EQ(on_gpu.largest_reduction, std::numeric_limits<int64_t>::max());
  ExpectRefused("--execute all --execute-memory 2", "is for --execute gpu");
  EXPECT_EQ(Accepted("--execute all").largest_reduction, std::numeric_limits<int64_t>::max());
  EXPECT_EQ(Accepted("--execute all --nccl-reduce 4096").largest_reduction, 4096);
  for (const char* what : {"card", "-1", "some", "1e6"}) {
    ExpectRefused(absl::StrCat("--execute ", what),
                  "is not 'off', 'small', 'all', 'gpu' or a number");
  }
  const SessionOptions checked = Accepted("--check memory");
  EXPECT_TRUE(checked.check_memory);
  EXPECT_EQ(checked.execute, SessionOptions::kLongExecution);
  EXPECT_EQ(Accepted("--check memory --execute 1000").execute, 1000);
  ExpectRefused("--check memory --execute off", "--check");
  ExpectRefused("--check memory --execute gpu", "--check");
  ExpectRefused("--check memory --host-time real", "--check");
  ExpectRefused("--check races", "'races' is none of memory");
  ExpectRefused("--host-time real --execute all", "--execute");
}

TEST(RunOptionsTest, WordsOfOursAreOursOnlyBeforeTheDashes) {
  EXPECT_EQ(ParseRunOptions({"doctor"}).action, RunAction::kDoctor);
  EXPECT_EQ(ParseRunOptions({"setup"}).action, RunAction::kSetup);
  for (const Arguments& arguments : {Arguments{"--", "doctor"}, Arguments{"-v", "--", "doctor"}}) {
    const RunRequest request = ParseRunOptions(arguments);
    EXPECT_EQ(request.action, RunAction::kSession);
    EXPECT_EQ(request.options.command, Arguments{"doctor"});
  }
  const RunRequest who = ParseRunOptions({"doctor", "who"});
  EXPECT_EQ(who.exit_status, kCannotSetUp);
  EXPECT_TRUE(absl::StrContains(who.errors, "'doctor' takes nothing")) << who.errors;
  const RunRequest options = ParseRunOptions({"--gpus", "2", "doctor"});
  EXPECT_EQ(options.exit_status, kCannotSetUp);
  EXPECT_TRUE(absl::StrContains(options.errors, "'doctor' takes no options")) << options.errors;
}

TEST(RunOptionsTest, ADryRunIsASessionThatStartsNothing) {
  EXPECT_TRUE(Accepted("--dry-run --cluster dgx-h100:2").dry_run);
  ExpectRefused("--dry-run --host-time fixed --host-scale 2", "--host-scale");
}

TEST(RunOptionsTest, WhatThereIsIsListed) {
  for (const auto& [word, option, one] :
       {std::tuple("clusters", "--cluster", "dgx-h100"),
        std::tuple("gpus", "--gpu", "a100-sxm4-80gb"), std::tuple("drivers", "--driver", "")}) {
    const RunRequest list = ParseRunOptions({word});
    EXPECT_EQ(list.action, RunAction::kPrint);
    EXPECT_EQ(list.exit_status, 0);
    EXPECT_TRUE(absl::StrContains(list.output, one)) << list.output;
    ExpectRefused(absl::StrCat(option, " list"),
                  absl::StrCat("'phantora-run ", word, "' lists them"));
  }
}

TEST(RunOptionsTest, ReportsAreCompared) {
  const RunRequest compared = ParseRunOptions({"--compare", "a", "b", "--gpus", "2"});
  EXPECT_NE(compared.exit_status, 0);
  EXPECT_NE(compared.errors.find("--gpus has no effect with --compare"), std::string::npos);
  for (const Arguments& arguments :
       {Arguments{"--compare", "/no/a", "/no/b"}, Arguments{"compare", "/no/a", "/no/b"}}) {
    const RunRequest missing = ParseRunOptions(arguments);
    EXPECT_EQ(missing.exit_status, kCannotSetUp);
    EXPECT_TRUE(absl::StrContains(missing.errors, "/no/a")) << missing.errors;
  }
  EXPECT_TRUE(absl::StrContains(ParseRunOptions({"compare", "a"}).errors, "takes two reports"));
}

TEST(RunOptionsTest, ManyOutputsHaveOneName) {
  const SessionOptions options = Accepted("-o out");
  EXPECT_EQ(options.report, "out");
  EXPECT_EQ(options.trace, "out/trace.json");
  EXPECT_EQ(Accepted("--out out --trace t").trace, "t");
  ExpectRefused("-o out --host-time real", "--out needs simulated time");
}

TEST(RunOptionsTest, VariablesOfTheCommand) {
  EXPECT_EQ(Accepted("--env A=1 --env B_2=x=y --gpus 2").environment,
            (Arguments{"A=1", "B_2=x=y"}));
  // What follows is the command's, not another variable.
  const RunRequest request = ParseRunOptions({"--env", "A=1", "true", "B=2"});
  EXPECT_EQ(request.options.command, (Arguments{"true", "B=2"}));
  for (const char* variable : {"A", "=1", "1A=2", "A-B=1"}) {
    ExpectRefused(absl::StrCat("--env ", variable), "is no NAME=VALUE");
  }
}

TEST(RunOptionsTest, RanksOfAHostByOthersNames) {
  for (const char* name : {"--ranks-per-host", "--nproc-per-node", "--ntasks-per-node"}) {
    EXPECT_EQ(Accepted(absl::StrCat("--cluster dgx-h100 ", name, " 3")).job.ranks_per_host, 3);
  }
}

TEST(RunOptionsTest, TheVersionAndHelpArePrinted) {
  const RunRequest version = ParseRunOptions({"--version"});
  EXPECT_EQ(version.exit_status, 0);
  EXPECT_TRUE(absl::StartsWith(version.output, "phantora-run ")) << version.output;
  EXPECT_EQ(ParseRunOptions({"--help"}).exit_status, 0);
  EXPECT_EQ(ParseRunOptions({"--help"}).errors, "");
}

TEST(RunOptionsTest, HelpShowsWords) {
  const std::string help = Help();
  for (const char* words : {"auto|per-rank|per-host|once", "auto|on|off", "ours|native",
                            "measured|learned|fixed|zero|real", "BYTES|full", "prefix|merged|DIR",
                            "--dry-run", "Exit status", "125", "PHANTORA_CACHE"}) {
    EXPECT_TRUE(absl::StrContains(help, words)) << words;
  }
  // Names that CLI11 gives to types, maps and checks.
  for (const char* word : {"->", "ENUM", "INT", "TEXT", "FLOAT", "{false}", "9223372036854775807",
                           "NONNEGATIVE", "POSITIVE"}) {
    EXPECT_FALSE(absl::StrContains(help, word)) << word;
  }
}

TEST(RunOptionsTest, HelpNamesEveryOptionOnce) {
  std::set<std::string> seen;
  const std::vector<std::string> lines = absl::StrSplit(Help(), '\n');
  for (const std::string& line : lines) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (line.substr(0, 3) != "  -" || words.empty()) continue;
    EXPECT_TRUE(seen.insert(words[0]).second) << line;
  }
  EXPECT_GT(seen.size(), 25u);
}

}  // namespace
}  // namespace phantora
