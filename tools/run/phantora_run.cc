// phantora-run: runs a command as if the machine had NVIDIA GPUs.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "profiles/gpu/gpu_profile.h"
#include "tools/run/doctor.h"
#include "tools/run/session.h"
#include "trap/rm/machine.h"

namespace {

constexpr char kVersion[] = "0.1.0";

}  // namespace

int main(int argc, char** argv) {
  phantora::SessionOptions options;
  CLI::App app(
      "phantora-run [OPTIONS] -- COMMAND [ARGUMENTS...]\n"
      "phantora-run doctor\n"
      "phantora-run --cluster list\n\n"
      "Runs COMMAND, unmodified, as if this machine had NVIDIA GPUs, or were a cluster of such\n"
      "machines. 'doctor' checks whether this machine can.",
      "phantora-run");
  app.set_version_flag("--version", absl::StrCat("phantora-run ", kVersion));
  app.add_option("--gpu", options.gpu,
                 absl::StrCat("GPU personality: ", absl::StrJoin(phantora::GpuProfileNames(), ", "),
                              ", or a .json file"))
      ->capture_default_str();
  app.add_option("--gpus", options.gpus, "how many GPUs the machine has")
      ->check(CLI::Range(1, phantora::kMostGpus))
      ->capture_default_str();
  auto* cluster = app.add_option("--cluster", options.job.cluster,
                                 "a cluster: a preset ('list' prints them) or a .yaml file, with "
                                 ":N for N hosts; the command is started once per GPU");
  app.get_option("--gpu")->excludes(cluster);
  app.get_option("--gpus")->excludes(cluster);
  const std::map<std::string, phantora::Started> starts = {
      {"auto", phantora::Started::kAuto},
      {"per-rank", phantora::Started::kPerRank},
      {"per-host", phantora::Started::kPerHost},
      {"once", phantora::Started::kOnce}};
  app.add_option(
         "--start", options.job.started,
         "how often the command is started on a cluster. per-rank: once per GPU; per-host: "
         "for launchers such as torchrun; once: on the first host; auto (default): per-host "
         "for torchrun, else per-rank")
      ->transform(CLI::CheckedTransformer(starts))
      ->needs(cluster);
  app.add_flag_callback(
         "--per-host", [&options] { options.job.started = phantora::Started::kPerHost; },
         "the same as --start per-host")
      ->needs(cluster);
  app.add_option("--ranks-per-host", options.job.ranks_per_host,
                 "start fewer ranks than a host has GPUs")
      ->check(CLI::Range(1, phantora::kMostGpus))
      ->needs(cluster);
  const std::map<std::string, std::optional<bool>> sharing = {
      {"auto", std::nullopt}, {"on", true}, {"off", false}};
  app.add_option_function<std::string>(
         "--share-memory",
         [&options, sharing](const std::string& word) { options.share_memory = sharing.at(word); },
         "ranks share memory that is the same until they write to it, so that more of them fit: "
         "auto (default: if there is little), on or off")
      ->check(CLI::IsMember(sharing))
      ->needs(cluster);
  app.add_option("--rank-env", options.job.variables,
                 "environment variables that ranks get: torch (RANK, MASTER_ADDR, ...), slurm, "
                 "ompi, none, or several with commas")
      ->capture_default_str()
      ->needs(cluster);
  app.add_option(
         "--output", options.job.output,
         "what ranks write. prefix: whole lines after '[rank 3] '; merged: as it comes; else "
         "a directory that gets a file per rank")
      ->capture_default_str()
      ->needs(cluster);
  app.add_option("--nccl", options.native_nccl,
                 "which libnccl.so.2 the program gets. ours: one that crosses the emulated network "
                 "(default); native: its own, inside one host")
      ->transform(
          CLI::CheckedTransformer(std::map<std::string, bool>{{"ours", false}, {"native", true}}));
  app.add_option(
         "--nccl-reduce", options.largest_reduction,
         "bytes of the largest NCCL reduction whose result is computed; of larger ones it is "
         "what rank 0 contributed. 'full' computes all")
      ->transform(CLI::Transformer(std::map<std::string, int64_t>{{"full", INT64_MAX}}))
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--driver", options.driver,
                 "driver libraries: auto, a version, or the directory of libcuda.so.1")
      ->capture_default_str();
  app.add_flag("--force-driver-abi", options.force_driver_abi,
               "use the nearest known interface for an untested driver version");
  app.add_option("--log-calls", options.log_calls, "write every driver call to this file");
  app.add_option("--log-kernels", options.log_kernels,
                 "write every distinct kernel launch, and what its price was made from, to this "
                 "file (JSON lines)");
  app.add_option("--missing", options.missing.list,
                 "write every kernel launch that had no measured price, with all that it takes to "
                 "measure it, to this file, for phantora-profile");
  app.add_option("--rows", options.missing.rows,
                 "measured prices of your own (from phantora-profile), before those that ship");
  app.add_flag("--gpu-profiler", options.missing.measure,
               "measure kernels without a measured price on the GPU of this machine, which must be "
               "the one that is emulated, and add them to --rows FILE (default: a file in the "
               "cache)");
  app.add_option("--gpu-profiler-command", options.missing.profiler,
                 "what measures them: a command that does as 'phantora-profile - --results -', "
                 "for instance over ssh")
      ->needs("--gpu-profiler");
  std::string execute = "none";
  app.add_option("--execute", execute,
                 "who computes what kernels compute. none: nobody, but for small ones (default); "
                 "gpu: the GPU of this machine (not built)")
      ->check(CLI::IsMember({"none", "gpu"}));
  app.add_option("--trace", options.trace,
                 "write a timeline of the GPUs to this file, for ui.perfetto.dev");
  app.add_option("--report", options.report,
                 "write report.html and report.json about the run into this directory");
  app.add_option(
      "--record-step", options.record_step,
      "write what rank 0's GPU did, and what each piece of work waited for, to this file, "
      "for phantora-replay");
  app.add_flag("!--no-status", options.status,
               "no status line on the terminal while simulated time passes");
  app.add_option("--nice", options.nice,
                 "nice value of processes that use a GPU (default: 19 in real time)")
      ->check(CLI::Range(0, 19));
  app.add_option("--kernel-time", options.kernel_microseconds,
                 "microseconds that every kernel takes (default: what a cost model says; 0 in real "
                 "time)")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("!--model-only", options.measured_rows,
               "price kernels by the model alone, not by what was measured of them");
  const std::map<std::string, phantora::HostTimeMode> modes = {
      {"real", phantora::HostTimeMode::kReal},
      {"measured", phantora::HostTimeMode::kMeasured},
      {"fixed", phantora::HostTimeMode::kFixed},
      {"zero", phantora::HostTimeMode::kZero}};
  app.add_option("--host-time", options.host_time.mode,
                 "what the program's own code takes. measured: its processor time here (default); "
                 "fixed: a charge per call, nearly the same in every run; zero: nothing; "
                 "real: nothing is simulated")
      ->transform(CLI::CheckedTransformer(modes));
  app.add_option("--host-scale", options.host_time.scale,
                 "measured time is multiplied by this: below 1 for a target with faster processors")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("-v,--verbose", options.verbose, "say more");
  // From the first word that is no option on, everything is the command's.
  app.prefix_command();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // 125: phantora-run itself failed; the command was not run.
    return app.exit(error) == 0 ? 0 : 125;
  }
  if (options.job.cluster == "list") {
    std::fputs(phantora::DescribeClusters().c_str(), stdout);
    return 0;
  }
  options.command = app.remaining();
  const bool separated = !options.command.empty() && options.command[0] == "--";
  if (separated) {
    options.command.erase(options.command.begin());
  }
  if (!options.command.empty() && options.command[0].size() > 1 && options.command[0][0] == '-' &&
      !separated) {
    std::fprintf(stderr, "phantora-run: unknown option %s; see --help\n",
                 options.command[0].c_str());
    return 125;
  }
  if (!options.measured_rows && (!options.missing.rows.empty() || options.missing.measure)) {
    std::fputs(
        "phantora-run: --model-only uses no measured prices, as --rows and --gpu-profiler ask\n",
        stderr);
    return 125;
  }
  if (execute == "gpu") {
    std::fputs(
        "phantora-run: --execute gpu is not built: kernels' results are not computed "
        "(docs/LIMITATIONS.md "
        "says what that means). To have kernels' times from this machine's GPU, use "
        "--gpu-profiler\n",
        stderr);
    return 125;
  }
  if (options.host_time.mode == phantora::HostTimeMode::kReal) {
    const char* needy = !options.trace.empty()          ? "--trace"
                        : !options.report.empty()       ? "--report"
                        : !options.record_step.empty()  ? "--record-step"
                        : !options.log_kernels.empty()  ? "--log-kernels"
                        : !options.missing.list.empty() ? "--missing"
                        : options.missing.measure       ? "--gpu-profiler"
                                                        : nullptr;
    if (needy != nullptr) {
      std::fprintf(
          stderr, "phantora-run: %s needs simulated time, which --host-time real has not\n", needy);
      return 125;
    }
  }
  if (options.command.empty()) {
    std::fputs(app.help().c_str(), stderr);
    return 125;
  }
  if (options.command.size() == 1 && options.command[0] == "doctor") {
    return phantora::RunDoctor();
  }
  return phantora::RunSession(options);
}
