// phantora-record: writes down what a program and the NVIDIA driver say to each other, compares
// such recordings, and makes GPU personalities from them.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "profiles/gpu/gpu_profile.h"
#include "tools/record/driver_recorder.h"
#include "tools/record/known_calls.h"
#include "tools/record/normaliser.h"
#include "tools/record/recorded_personality.h"
#include "tools/record/recording.h"
#include "tools/record/recording_diff.h"
#include "tools/record/stream_reader.h"
#include "tools/version.h"

namespace phantora::record {
namespace {

namespace fs = std::filesystem;

// phantora-record itself failed; as with phantora-run, no program's own exit status.
constexpr int kFailed = 125;
// What diff and the others say.
constexpr int kSame = 0, kDiffers = 1, kError = 2;

void Complain(absl::string_view message) {
  std::fprintf(stderr, "phantora-record: %s\n", std::string(message).c_str());
}

bool WriteText(const std::string& path, const std::string& text) {
  if (path == "-") {
    return std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  }
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (file.flush()) return true;
  Complain(absl::StrCat("cannot write ", path));
  return false;
}

// The streams of `folder` as a recording in `output`. False if that failed.
bool Merge(const std::string& folder, const std::string& output) {
  auto processes = ReadStreams(folder);
  if (!processes.ok()) {
    Complain(std::string(processes.status().message()));
    return false;
  }
  const Recording recording = Normalise(*processes);
  if (recording.calls.empty()) {
    Complain(
        "no call to the driver was seen. Programs that are linked statically, or have another "
        "user's rights, cannot be recorded");
  }
  for (const std::string& comment : recording.comments) Complain(comment);
  return WriteText(output, FormatRecording(recording));
}

int Record(const std::vector<std::string>& command, const std::string& output,
           const std::string& keep) {
  std::error_code error;
  std::string folder = keep;
  if (keep.empty()) {
    folder = (fs::temp_directory_path(error) / "phantora-record-XXXXXX").string();
    if (mkdtemp(folder.data()) == nullptr) {
      Complain(absl::StrCat("cannot make a folder like ", folder));
      return kFailed;
    }
  } else {
    fs::create_directories(keep, error);
    folder = fs::absolute(keep, error).string();
  }
  const auto status = RunRecorded(command, folder);
  if (!status.ok()) Complain(std::string(status.status().message()));
  const bool written = status.ok() && Merge(folder, output);
  if (keep.empty()) fs::remove_all(folder, error);
  if (!written) return kFailed;
  return *status;
}

// The recording in a file; complains if there is none.
std::optional<Recording> Load(const std::string& path) {
  auto recording = ReadRecording(path);
  if (recording.ok()) return std::move(*recording);
  Complain(std::string(recording.status().message()));
  return std::nullopt;
}

int Diff(const std::string& first, const std::string& second, const DiffOptions& options) {
  const auto a = Load(first), b = Load(second);
  if (!a || !b) return kError;
  const auto differences = DiffRecordings(*a, *b, options);
  std::fputs(FormatDifferences(differences).c_str(), stdout);
  return differences.empty() ? kSame : kDiffers;
}

int Calls(const std::string& path) {
  const auto recording = Load(path);
  if (!recording) return kError;
  std::fputs(SummariseCalls(*recording).c_str(), stdout);
  return kSame;
}

int Personality(const std::string& path, const std::string& name, const std::string& like,
                const std::string& output) {
  const auto recording = Load(path);
  if (!recording) return kError;
  const auto made = MakePersonality(*recording, name, like);
  if (!made.ok()) {
    Complain(std::string(made.status().message()));
    return kError;
  }
  if (!made->assumed.empty()) {
    Complain(
        absl::StrCat("not recorded, taken from ", like, ": ", absl::StrJoin(made->assumed, ", ")));
  }
  return WriteText(output, made->json) ? kSame : kError;
}

struct RecordOptions {
  std::string output, keep, folder, first, second, name, like;
  DiffOptions diff_options;
};

CLI::App* AddDriver(CLI::App& app, RecordOptions& options) {
  auto* driver = app.add_subcommand(
      "driver", "runs a command and writes down its calls: driver [-o FILE] -- COMMAND...");
  driver->add_option("-o,--output", options.output, "the recording (default: recording.txt)");
  driver->add_option("--keep", options.keep,
                     "write the raw streams into this folder and keep them, for 'merge'");
  return driver;
}

void AddMerge(CLI::App& app, RecordOptions& options) {
  auto* merge = app.add_subcommand(
      "merge",
      "makes a recording from raw streams, which any program writes that is started with "
      "LD_PRELOAD=libphantora_record.so and PHANTORA_RECORD_FOLDER=FOLDER (an absolute "
      "path)");
  merge->add_option("folder", options.folder, "of the streams")->required();
  merge->add_option("-o,--output", options.output, "the recording (default: recording.txt)");
}

CLI::App* AddDiff(CLI::App& app, RecordOptions& options) {
  auto* diff = app.add_subcommand(
      "diff", "compares two recordings, call by call; exits 1 if anything differs");
  diff->add_option("first", options.first, "a recording")->required();
  diff->add_option("second", options.second, "another")->required();
  diff->add_flag("--handles", options.diff_options.handles,
                 "also compare which objects calls are about");
  diff->add_flag("--unknown-inputs", options.diff_options.unknown_inputs,
                 "also compare what is passed in parameters whose layout is not known");
  return diff;
}

CLI::App* AddCalls(CLI::App& app, RecordOptions& options) {
  auto* calls = app.add_subcommand(
      "calls", "counts a recording's calls, and says which ones the emulated driver knows");
  calls->add_option("recording", options.first, "a recording")->required();
  return calls;
}

CLI::App* AddPersonality(CLI::App& app, RecordOptions& options) {
  auto* personality = app.add_subcommand("personality", "makes a GPU personality from a recording");
  personality->add_option("recording", options.first, "a recording")->required();
  personality->add_option("--name", options.name, "the personality's name")->required();
  personality->add_option("--like", options.like,
                          absl::StrCat("take what was not recorded from this GPU: ",
                                       absl::StrJoin(GpuProfileNames(), ", "), ", or a file"));
  personality->add_option("-o,--output", options.output, "the personality (default: NAME.json)");
  return personality;
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Writes down what a program and the NVIDIA driver say to each other, compares such\n"
      "recordings, and makes GPU personalities from them.",
      "phantora-record");
  app.set_version_flag("--version", absl::StrCat("phantora-record ", kPhantoraVersion));
  app.require_subcommand(1);

  RecordOptions options;
  CLI::App* const driver = AddDriver(app, options);
  AddMerge(app, options);
  CLI::App* const diff = AddDiff(app, options);
  CLI::App* const calls = AddCalls(app, options);
  CLI::App* const personality = AddPersonality(app, options);

  // What follows "--" is the command's.
  char** const end = argv + argc;
  char** const separator =
      std::find_if(argv, end, [](const char* word) { return std::strcmp(word, "--") == 0; });
  const std::vector<std::string> command(separator == end ? end : separator + 1, end);

  try {
    app.parse(static_cast<int>(separator - argv), argv);
  } catch (const CLI::ParseError& parse_error) {
    return app.exit(parse_error) == 0 ? 0 : kFailed;
  }
  if (*diff) return Diff(options.first, options.second, options.diff_options);
  if (*calls) return Calls(options.first);
  if (*personality) {
    return Personality(options.first, options.name, options.like,
                       options.output.empty() ? options.name + ".json" : options.output);
  }
  if (options.output.empty()) options.output = "recording.txt";
  if (*driver) {
    if (command.empty()) {
      std::fputs(driver->help().c_str(), stderr);
      return kFailed;
    }
    return Record(command, options.output, options.keep);
  }
  return Merge(options.folder, options.output) ? kSame : kError;
}

}  // namespace
}  // namespace phantora::record

int main(int argc, char** argv) { return phantora::record::Main(argc, argv); }
