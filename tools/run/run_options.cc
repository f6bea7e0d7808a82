#include "tools/run/run_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "profiles/gpu/gpu_profile.h"
#include "tools/observe/compare_reports.h"
#include "tools/run/completion.h"
#include "tools/run/config_file.h"
#include "tools/run/driver_libraries.h"
#include "tools/run/manual.h"
#include "tools/run/option_effects.h"
#include "tools/run/option_table.h"
#include "tools/version.h"

namespace phantora {
namespace {

using Words = std::vector<std::string>;

// What cannot be in a file.
constexpr const char* kOnlyOnCommandLine[] = {"config", "no-config", "compare",
                                              "help",   "help-all",  "version"};

RunRequest Refused(const std::string& why) {
  RunRequest request;
  request.exit_status = kCannotSetUp;
  request.errors = absl::StrCat("phantora: error: ", why, "\n");
  return request;
}

RunRequest Print(const std::string& text) {
  RunRequest request;
  request.output = text;
  return request;
}

// The options, and what was parsed of them.
struct ParsedOptions {
  ParsedOptions() : app(LongHelpHead(), "phantora-run") {
    app.set_version_flag("--version", absl::StrCat("phantora-run ", kPhantoraVersion));
    app.set_help_flag("-h,--help", "the most important options");
    app.set_help_all_flag("--help-all", "all options");
    app.footer(LongHelpFoot());
    AddRunOptions(app, options);
    // From the first word that is no option on, everything is the command's.
    app.prefix_command();
  }

  void Parse(const Words& arguments) {
    // CLI11 takes them from the back.
    app.parse(Words(arguments.rbegin(), arguments.rend()));
  }

  bool Given(const CLI::Option* option) const { return option->count() > 0; }
  bool Given(const std::string& name) const { return Given(app.get_option(name)); }

  SessionOptions options;
  CLI::App app;
};

// Of a file of options, what the command line leaves to it, as words of a command line.
class Configuration {
 public:
  Configuration(std::string path, const ParsedOptions& given)
      : path_(std::move(path)), given_(given) {}

  absl::StatusOr<Words> Read() {
    auto items = ReadConfigFile(path_);
    if (!items.ok()) return items.status();
    Words words;
    for (const ConfigItem& item : *items) {
      if (auto status = Check(item); !status.ok()) return status;
      const CLI::Option* option = given_.app.get_option("--" + item.name);
      // Variables of both are set, those of the command line last.
      if (IsSaid(*option) && item.name != "env") continue;
      if (!flags_.contains(item.name)) {
        words.push_back(absl::StrCat("--", item.name, "=", item.value));
      } else if (item.value == "true") {
        words.push_back(absl::StrCat("--", item.name));
      }
    }
    return words;
  }

 private:
  // Did the command line give what excludes it?
  bool IsExcluded(const CLI::Option& option) const {
    const auto excluded = option.get_excludes();
    return std::any_of(excluded.begin(), excluded.end(),
                       [&](const CLI::Option* other) { return given_.Given(other); });
  }

  // Does the command line leave nothing to say of it?
  bool IsSaid(const CLI::Option& option) const {
    const auto needed = option.get_needs();
    return given_.Given(&option) || IsExcluded(option) ||
           std::any_of(needed.begin(), needed.end(),
                       [&](const CLI::Option* other) { return IsExcluded(*other); });
  }

  absl::Status At(const ConfigItem& item, const std::string& what) const {
    return absl::InvalidArgumentError(absl::StrCat(path_, ":", item.line, ": ", what));
  }

  // Alone, so that what is wrong is told with its line.
  absl::Status Check(const ConfigItem& item) {
    ParsedOptions alone;
    CLI::Option* const option = alone.app.get_option_no_throw("--" + item.name);
    if (option == nullptr) {
      return At(item, absl::StrCat("there is no option '", item.name, "'; see --help-all"));
    }
    const auto only = [&](const char* name) { return item.name == name; };
    if (std::any_of(std::begin(kOnlyOnCommandLine), std::end(kOnlyOnCommandLine), only)) {
      return At(item, absl::StrCat("--", item.name, " is for the command line alone"));
    }
    if (option->get_expected_max() == 0) {
      flags_.insert(item.name);
      if (item.value == "true" || item.value == "false") return absl::OkStatus();
      return At(item, absl::StrCat(item.name, " is true or false"));
    }
    try {
      option->add_result(item.value);
      option->run_callback();
    } catch (const CLI::Error& error) {
      return At(item, error.what());
    }
    return absl::OkStatus();
  }

  const std::string path_;
  const ParsedOptions& given_;
  std::set<std::string> flags_;
};

class Parser {
 public:
  RunRequest Parse(const Words& arguments);

 private:
  // Options of phantora.toml or --config FILE, and a sentence about them in configured_.
  absl::StatusOr<Words> Configured(const Words& arguments);
  RunRequest Printed(const CLI::Error& error) const;
  RunRequest Checked(bool separated);
  // Of OwnCommands().
  RunRequest DoOwn(const Words& words);
  RunRequest Compare(const std::string& first, const std::string& second) const;
  RunRequest CompareOption() const;
  // Sets what follows from options for others.
  void Complete();
  // The first option on the command line that would do nothing; "" if there is none.
  std::string WithoutEffect() const;
  // Was any option given at all?
  bool AnyOption() const;

  ParsedOptions parsed_;
  SessionOptions& options_ = parsed_.options;
  std::string configured_;
};

RunRequest Parser::Printed(const CLI::Error& error) const {
  if (dynamic_cast<const CLI::CallForHelp*>(&error) != nullptr) return Print(ShortHelp());
  if (dynamic_cast<const CLI::CallForAllHelp*>(&error) != nullptr) return Print(parsed_.app.help());
  if (error.get_exit_code() == 0) return Print(absl::StrCat(error.what(), "\n"));
  return Refused(absl::StrCat(error.what(), "; see --help"));
}

bool Parser::AnyOption() const {
  const auto options = parsed_.app.get_options();
  return std::any_of(options.begin(), options.end(),
                     [this](const CLI::Option* option) { return parsed_.Given(option); });
}

std::string Parser::WithoutEffect() const {
  for (const OptionEffect& effect : OptionEffects()) {
    if (parsed_.Given(effect.option) && !effect.has_effect(options_)) {
      return absl::StrCat(effect.option, " ", effect.otherwise);
    }
  }
  return "";
}

std::string ListGpus() {
  std::string text;
  for (const std::string& name : GpuProfileNames()) {
    const auto gpu = FindGpuProfile(name);
    if (!gpu.ok()) continue;
    absl::StrAppendFormat(&text, "%-20s %-28s %3d GiB, %d SMs, sm_%d\n", name, gpu->product,
                          gpu->memory.total_mib / 1024, gpu->sms(), gpu->sm_architecture());
  }
  return text;
}

std::string ListDrivers() {
  std::string text;
  const auto wanted = FindDriverLibraries("auto", false);
  for (const std::string& version : CachedDriverVersions()) {
    const auto driver = FindDriverLibraries(version, false);
    const bool chosen = wanted.ok() && driver.ok() && wanted->libcuda == driver->libcuda;
    absl::StrAppend(
        &text, version, "  ",
        driver.ok() ? driver->library_directory : std::string(driver.status().message()),
        chosen ? " (the default)" : "", "\n");
  }
  if (wanted.ok() && wanted->installed) {
    absl::StrAppend(&text, wanted->version.text, "  ", wanted->library_directory,
                    " (installed, the default)\n");
  }
  if (!wanted.ok()) absl::StrAppend(&text, std::string(wanted.status().message()), "\n");
  return text;
}

RunRequest Parser::DoOwn(const Words& words) {
  const std::string& name = words[0];
  const size_t arguments = name == "compare" ? 2 : name == "completion" ? 1 : 0;
  const std::string otherwise =
      absl::StrCat("; 'phantora-run -- ", name, "' runs a command of that name");
  if (AnyOption()) return Refused(absl::StrCat("'", name, "' takes no options", otherwise));
  if (words.size() != 1 + arguments && name != "setup") {
    const char* const takes = name == "compare"      ? "two reports, directories of --report"
                              : name == "completion" ? "the shell: bash, zsh or fish"
                                                     : "nothing";
    return Refused(absl::StrCat("'", name, "' takes ", takes, otherwise));
  }
  RunRequest request;
  if (name == "doctor" || name == "setup") {
    request.action = name == "doctor" ? RunAction::kDoctor : RunAction::kSetup;
    request.arguments.assign(words.begin() + 1, words.end());
    return request;
  }
  if (name == "compare") return Compare(words[1], words[2]);
  if (name == "clusters") return Print(DescribeClusters());
  if (name == "gpus") return Print(ListGpus());
  if (name == "drivers") return Print(ListDrivers());
  if (name == "manual") return Print(ManualPage(parsed_.app));
  if (name == "help") return Print(ShortHelp());
  const std::string script = CompletionScript(parsed_.app, words[1]);
  if (script.empty()) {
    return Refused(
        absl::StrCat("there is no completion for '", words[1], "', only for bash, zsh and fish"));
  }
  return Print(script);
}

RunRequest Parser::CompareOption() const {
  if (!options_.command.empty()) return Refused("--compare runs no command");
  for (const CLI::Option* option : parsed_.app.get_options()) {
    if (parsed_.Given(option) && !option->check_lname("compare")) {
      return Refused(absl::StrCat(option->get_name(), " has no effect with --compare"));
    }
  }
  return Compare(options_.compared[0], options_.compared[1]);
}

RunRequest Parser::Compare(const std::string& first_path, const std::string& second_path) const {
  const auto first = ReadReport(first_path), second = ReadReport(second_path);
  for (const auto* report : {&first, &second}) {
    if (!report->ok()) return Refused(std::string(report->status().message()));
  }
  return Print(absl::StrCat(absl::StrJoin(CompareReports(*first, *second), "\n"), "\n"));
}

void Parser::Complete() {
  if ((!options_.execute || options_.execute_on_gpu) && !parsed_.Given("--nccl-reduce")) {
    // Who wants all results wants sums of them too.
    options_.largest_reduction = std::numeric_limits<int64_t>::max();
  }
  if (options_.check_memory && !parsed_.Given("--execute")) {
    // By their own code: a library's products nobody could look at.
    options_.execute = SessionOptions::kLongExecution;
    options_.largest_reduction = std::numeric_limits<int64_t>::max();
  }
  if (!options_.host_profile.empty() && !parsed_.Given("--host-time")) {
    options_.host_time.mode = HostTimeMode::kLearned;
  }
  if (!options_.out.empty()) {
    if (options_.report.empty()) options_.report = options_.out;
    if (options_.trace.empty()) options_.trace = absl::StrCat(options_.out, "/trace.json");
  }
  options_.configured = configured_;
}

RunRequest Parser::Checked(bool separated) {
  for (const auto& [given, option, lists] :
       {std::tuple(&options_.gpu, "--gpu", "gpus"),
        std::tuple(&options_.job.cluster, "--cluster", "clusters"),
        std::tuple(&options_.driver, "--driver", "drivers")}) {
    if (*given == "list") {
      return Refused(absl::StrCat(option, ": 'phantora-run ", lists, "' lists them"));
    }
  }
  if (!options_.compared.empty()) return CompareOption();
  const Words& command = options_.command;
  if (!separated && !command.empty()) {
    if (command[0].size() > 1 && command[0][0] == '-') {
      return Refused(absl::StrCat("unknown option ", command[0], "; see --help-all"));
    }
    const auto own = OwnCommands();
    if (std::any_of(own.begin(), own.end(),
                    [&](const OwnCommand& each) { return each.name == command[0]; })) {
      return DoOwn(command);
    }
  }
  Complete();
  if (const std::string why = WithoutEffect(); !why.empty()) return Refused(why);
  RunRequest request;
  if (command.empty()) {
    request.exit_status = kCannotSetUp;
    request.errors = absl::StrCat(ShortHelp(), "phantora: error: there is no command to run\n");
    return request;
  }
  request.action = RunAction::kSession;
  request.options = options_;
  return request;
}

absl::StatusOr<Words> Parser::Configured(const Words& arguments) {
  ParsedOptions given;
  given.Parse(arguments);
  if (given.options.no_config) return Words();
  const auto rest = given.app.remaining();
  if (!given.options.compared.empty() || (given.options.config.empty() && rest.empty())) {
    return Words();
  }
  const bool own =
      !rest.empty() && std::any_of(OwnCommands().begin(), OwnCommands().end(),
                                   [&](const OwnCommand& each) { return each.name == rest[0]; });
  if (own) return Words();
  std::string path = given.options.config;
  if (path.empty()) {
    const FoundConfig found = FindConfigFile();
    if (!found.there) return Words();
    if (!found.refused.empty()) {
      configured_ = absl::StrCat(kConfigFile, " is not read: ", found.refused, "; --config ",
                                 kConfigFile, " reads it");
      return Words();
    }
    path = kConfigFile;
  }
  auto words = Configuration(path, given).Read();
  if (words.ok() && !words->empty()) {
    configured_ = absl::StrCat("from ", path, ": ", absl::StrJoin(*words, " "));
  }
  return words;
}

RunRequest Parser::Parse(const Words& arguments) {
  try {
    auto words = Configured(arguments);
    if (!words.ok()) return Refused(std::string(words.status().message()));
    words->insert(words->end(), arguments.begin(), arguments.end());
    parsed_.Parse(*words);
  } catch (const CLI::Error& error) {
    return Printed(error);
  }
  options_.command = parsed_.app.remaining();
  const bool separated = !options_.command.empty() && options_.command[0] == "--";
  if (separated) options_.command.erase(options_.command.begin());
  return Checked(separated);
}

}  // namespace

RunRequest ParseRunOptions(const std::vector<std::string>& arguments) {
  return Parser().Parse(arguments);
}

}  // namespace phantora
