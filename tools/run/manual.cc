#include "tools/run/manual.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "tools/run/option_names.h"
#include "tools/version.h"

namespace phantora {
namespace {

constexpr OwnCommand kOwnCommands[] = {
    {"doctor", "", "check whether this machine can, and say what is weaker on it"},
    {"setup", "[VERSION...]", "fetch NVIDIA's driver libraries, which a package does not have"},
    {"gpus", "", "list the GPUs of --gpu"},
    {"clusters", "", "list the clusters of --cluster"},
    {"drivers", "", "list the driver libraries that are here"},
    {"compare", "A B", "compare two reports, directories of --report"},
    {"completion", "SHELL", "print a completion script for bash, zsh or fish"},
    {"manual", "", "print the manual page, for man -l -"},
    {"help", "", "the same as --help"},
};

// A line of the short help; an empty option begins a group.
struct HelpLine {
  absl::string_view option, argument, about;
};
constexpr HelpLine kShortHelp[] = {
    {"", "", "Machine"},
    {"--gpu", "GPU", "its kind: h100-sxm5-80gb (default), a100-sxm4-80gb, ... or a .json file"},
    {"--gpus", "N", "how many (default 1)"},
    {"--cluster", "NAME[:N]", "N hosts of a cluster instead, with COMMAND once for each GPU"},
    {"--per-host", "", "... once for each host: for launchers such as torchrun"},
    {"--ranks-per-host", "N", "... with fewer ranks than a host has GPUs"},
    {"--driver", "VERSION|DIR", "driver libraries (default: installed, or of setup)"},
    {"", "", "Time and values"},
    {"--host-time", "MODE",
     "of the program's own code: measured (default), learned, fixed, zero, real"},
    {"--host-profile", "FILE", "learn it once, then reuse it, so that runs are all but equal"},
    {"--execute", "WHICH",
     "kernels that are executed: small (default), off, all, gpu, or a budget"},
    {"--check", "memory", "find wrong uses of GPU memory, as a sanitizer does"},
    {"", "", "Output"},
    {"--out", "DIR", "report (plots, JSON) and timeline of the run"},
    {"--output", "WHERE", "of ranks: prefix (default), merged, or a directory"},
    {"--record-step", "FILE", "record what ranks do, for phantora-replay"},
    {"", "", "General"},
    {"--env", "NAME=VALUE", "a variable for COMMAND; may be given several times"},
    {"--config", "FILE", "options from a file (default: phantora.toml in this folder)"},
    {"--memory-limit", "SIZE", "the most that the run takes of this machine's memory"},
    {"--dry-run", "", "check everything, start nothing"},
    {"--verbose", "", "say more"},
    {"--version", "", "print the version"},
    {"--help-all", "", "all options, exit status, environment"},
};

constexpr absl::string_view kAbout =
    "Runs COMMAND, unmodified, as if this machine had NVIDIA GPUs, or were a cluster of such "
    "machines: every rank runs for real, on emulated GPUs, and every clock that it can read is "
    "simulated.";

struct Status {
  absl::string_view status, meaning;
};
constexpr Status kStatuses[] = {
    {"N", "the command's own, where it has run to its end (of ranks, the first that failed)"},
    {"128+N", "signal N ended the command"},
    {"126, 127", "the command cannot be run, or is not there"},
    {"125", "phantora-run cannot set things up, and has not run it: an option, the machine"},
    {"73", "--check found an error, and the command ended with 0"},
    {"72", "--check-gpu-memory found a difference"},
    {"71", "NCCL failed, or no rank could go on"},
    {"70", "phantora-run's supervisor died"},
};

struct Variable {
  absl::string_view name, meaning;
};
constexpr Variable kVariables[] = {
    {"PHANTORA_CACHE", "where driver libraries and environments are (default: ~/.cache/phantora)"},
    {"PYTHONHASHSEED", "0 for ranks that share memory, unless it is set"},
    {"OMP_NUM_THREADS", "1 for each of several ranks of a host, unless it is set"},
    {"NCCL_DEBUG, NCCL_ALGO, NCCL_PROTO, NCCL_IB_TIMEOUT, ...",
     "as NCCL's own: they say how collectives are done"},
    {"TERM", "dumb: no status line"},
};

struct Example {
  absl::string_view command, about;
};
constexpr Example kExamples[] = {
    {"phantora-run --gpus 8 -- nvidia-smi", "what a host with eight H100 shows"},
    {"phantora-run --cluster dgx-h100:4 -- python train.py", "32 ranks on four hosts"},
    {"phantora-run --cluster dgx-h100:2 --per-host -- torchrun --nproc-per-node 8 --nnodes 2 "
     "--rdzv-endpoint dgx-h100-0:29400 --rdzv-backend c10d train.py",
     "the same by a launcher on each host"},
    {"phantora-run --cluster dgx-h100:1 -o report -- python train.py",
     "with report/report.html, report/report.json and report/trace.json"},
};

constexpr absl::string_view kConfiguration =
    "Options that are always the same may be in phantora.toml, in the folder that phantora-run is "
    "started in, or in the file of --config. Each key is an option without its dashes; flags are "
    "true or false; a table [env] has variables of the command. What the command line says goes "
    "before it. A phantora.toml of another user, or that everybody can write to, is not read "
    "unasked.";
constexpr absl::string_view kConfigurationExample =
    "cluster = \"dgx-h100:4\"\nhost-time = \"fixed\"\nexecute = \"off\"\n\n[env]\n"
    "NCCL_DEBUG = \"INFO\"\n";

std::vector<const CLI::Option*> OptionsOf(const CLI::App& app, const std::string& group) {
  std::vector<const CLI::Option*> options = app.get_options();
  std::erase_if(options, [&](const CLI::Option* option) { return option->get_group() != group; });
  return options;
}

std::vector<std::string> Groups(const CLI::App& app) {
  std::vector<std::string> groups = app.get_groups();
  // CLI11's own, of what belongs to no other: last.
  std::stable_partition(groups.begin(), groups.end(),
                        [](const std::string& group) { return group != "Options"; });
  return groups;
}

std::string Roff(absl::string_view text) {
  std::string escaped = absl::StrReplaceAll(text, {{"\\", "\\e"}, {"-", "\\-"}, {"'", "\\(aq"}});
  if (!escaped.empty() && escaped[0] == '.') escaped = absl::StrCat("\\&", escaped);
  return escaped;
}

}  // namespace

absl::Span<const OwnCommand> OwnCommands() { return kOwnCommands; }

std::string ShortHelp() {
  std::string text = absl::StrCat(
      "phantora-run [OPTIONS] -- COMMAND [ARGUMENTS...]\n\n"
      "Runs COMMAND, unmodified, as if this machine had NVIDIA GPUs, or were a cluster of such "
      "machines.\n");
  for (const HelpLine& line : kShortHelp) {
    if (line.option.empty()) {
      absl::StrAppend(&text, "\n", line.about, "\n");
      continue;
    }
    const absl::string_view shortened = line.option == "--out"       ? "-o, "
                                        : line.option == "--verbose" ? "-v, "
                                                                     : "";
    absl::StrAppendFormat(&text, "  %-24s %s\n",
                          absl::StrCat(shortened, line.option, " ", line.argument), line.about);
  }
  absl::StrAppend(&text, "\nBy itself\n");
  for (const OwnCommand& command : kOwnCommands) {
    if (command.name == "help") continue;
    absl::StrAppendFormat(&text, "  %-24s %s\n", absl::StrCat(command.name, " ", command.arguments),
                          command.about);
  }
  return text;
}

std::vector<absl::string_view> ShortHelpOptions() {
  std::vector<absl::string_view> options;
  for (const HelpLine& line : kShortHelp) {
    if (!line.option.empty()) options.push_back(line.option);
  }
  return options;
}

std::string LongHelpHead() {
  std::string text = absl::StrCat("phantora-run [OPTIONS] -- COMMAND [ARGUMENTS...]\n");
  for (const OwnCommand& command : kOwnCommands) {
    absl::StrAppendFormat(&text, "phantora-run %-18s %s\n",
                          absl::StrCat(command.name, " ", command.arguments), command.about);
  }
  return absl::StrCat(text, "\n", kAbout);
}

std::string LongHelpFoot() {
  std::string text = "Exit status:\n";
  for (const auto& [status, meaning] : kStatuses) {
    absl::StrAppendFormat(&text, "  %-10s %s\n", status, meaning);
  }
  absl::StrAppend(&text, "\nEnvironment:\n");
  for (const auto& [name, meaning] : kVariables) {
    absl::StrAppendFormat(&text, "  %s\n      %s\n", name, meaning);
  }
  return text;
}

std::string ManualPage(const CLI::App& app) {
  std::string page = absl::StrCat(
      ".TH PHANTORA\\-RUN 1 \"\" \"Phantora ", kPhantoraVersion, "\" \"User Commands\"\n",
      ".SH NAME\nphantora\\-run \\- run a program on GPUs that are not there\n",
      ".SH SYNOPSIS\n.B phantora\\-run\n[\\fIOPTIONS\\fR] \\-\\- \\fICOMMAND\\fR "
      "[\\fIARGUMENTS\\fR...]\n");
  for (const OwnCommand& command : kOwnCommands) {
    absl::StrAppend(&page, ".br\n.B phantora\\-run ", command.name, "\n");
    if (!command.arguments.empty()) {
      absl::StrAppend(&page, ".I ", command.arguments, "\n");
    }
  }
  absl::StrAppend(&page, ".SH DESCRIPTION\n", Roff(kAbout), "\n.SH COMMANDS\n");
  for (const OwnCommand& command : kOwnCommands) {
    absl::StrAppend(&page, ".TP\n\\fB", command.name, "\\fR \\fI", command.arguments, "\\fR\n",
                    Roff(command.about), "\n");
  }
  absl::StrAppend(&page, ".SH OPTIONS\n");
  for (const std::string& group : Groups(app)) {
    const auto options = OptionsOf(app, group);
    if (options.empty()) continue;
    absl::StrAppend(&page, ".SS ", group == "Options" ? "General" : Roff(group), "\n");
    for (const CLI::Option* option : options) {
      absl::StrAppend(&page, ".TP\n\\fB", Roff(absl::StrJoin(NamesOf(*option), ", ")), "\\fR");
      if (TakesValue(*option)) absl::StrAppend(&page, " \\fI", Roff(TypeOf(*option)), "\\fR");
      absl::StrAppend(&page, "\n", Roff(option->get_description()));
      if (!option->get_default_str().empty()) {
        absl::StrAppend(&page, " (default: ", Roff(option->get_default_str()), ")");
      }
      absl::StrAppend(&page, "\n");
    }
  }
  absl::StrAppend(&page, ".SH CONFIGURATION FILE\n", Roff(kConfiguration), "\n.PP\n.nf\n",
                  Roff(kConfigurationExample), ".fi\n.SH EXIT STATUS\n");
  for (const auto& [status, meaning] : kStatuses) {
    absl::StrAppend(&page, ".TP\n.B ", Roff(status), "\n", Roff(meaning), "\n");
  }
  absl::StrAppend(&page, ".SH ENVIRONMENT\n");
  for (const auto& [name, meaning] : kVariables) {
    absl::StrAppend(&page, ".TP\n.B ", Roff(name), "\n", Roff(meaning), "\n");
  }
  absl::StrAppend(&page, ".SH EXAMPLES\n");
  for (const auto& [command, about] : kExamples) {
    absl::StrAppend(&page, ".TP\n.B ", Roff(command), "\n", Roff(about), "\n");
  }
  return absl::StrCat(page, ".SH SEE ALSO\nphantora\\-replay(1), nvidia\\-smi(1), torchrun(1)\n");
}

}  // namespace phantora
