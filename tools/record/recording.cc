#include "tools/record/recording.h"

#include <fstream>
#include <iterator>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace phantora::record {
namespace {

constexpr absl::string_view kFirstLine = "phantora-recording 1";
constexpr size_t kMostElements = 65536;
constexpr int kMostProcesses = 1 << 20;

void AppendText(absl::string_view content, std::string* out) {
  for (absl::string_view line : absl::StrSplit(absl::StripSuffix(content, "\n"), '\n')) {
    absl::StrAppend(out, "| ", line, "\n");
  }
}

class Parser {
 public:
  absl::StatusOr<Recording> Parse(absl::string_view text) {
    for (absl::string_view line : absl::StrSplit(text, '\n')) {
      ++number_;
      if (number_ == 1) {
        if (line != kFirstLine) return Error("not a recording");
        continue;
      }
      if (line.empty()) continue;
      if (ended_) return Error("a line after the end");
      const char* problem = Line(line);
      if (problem != nullptr) return Error(problem);
    }
    if (!ended_) return Error("the recording is cut: its last line is not \"end\"");
    return std::move(recording_);
  }

 private:
  absl::Status Error(absl::string_view problem) const {
    return absl::InvalidArgumentError(absl::StrCat("line ", number_, ": ", problem));
  }

  // An error's text, or nullptr.
  const char* Line(absl::string_view line) {
    if (absl::ConsumePrefix(&line, "  in ")) return Field(line, &RecordedCall::in);
    if (absl::ConsumePrefix(&line, "  out ")) return Field(line, &RecordedCall::out);
    if (absl::ConsumePrefix(&line, "call ")) return Call(line);
    if (absl::ConsumePrefix(&line, "| ")) {
      if (recording_.files.empty()) return "text of no file";
      absl::StrAppend(&recording_.files.back().content, line, "\n");
      return nullptr;
    }
    if (absl::ConsumePrefix(&line, "#")) {
      recording_.comments.emplace_back(absl::StripPrefix(line, " "));
      return nullptr;
    }
    if (absl::ConsumePrefix(&line, "driver ")) {
      recording_.driver = std::string(line);
      return nullptr;
    }
    if (absl::ConsumePrefix(&line, "process ")) {
      const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(' ', 1));
      size_t process;
      if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &process) ||
          process != recording_.programs.size() + 1) {
        return "expected the next process's number and program";
      }
      recording_.programs.emplace_back(parts[1]);
      return nullptr;
    }
    if (absl::ConsumePrefix(&line, "file ")) {
      const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(' ', 1));
      RecordedFile file;
      if (parts.size() != 2 || !ProcessOf(parts[0], &file.process, nullptr)) {
        return "expected a file's process and path";
      }
      file.path = std::string(parts[1]);
      recording_.files.push_back(std::move(file));
      return nullptr;
    }
    if (line == "end") {
      ended_ = true;
      return nullptr;
    }
    return "neither a call nor a parameter, file or comment";
  }

  static bool ProcessOf(absl::string_view text, int* process, int* thread) {
    const std::vector<absl::string_view> parts = absl::StrSplit(text, '.');
    if (parts.size() > (thread == nullptr ? 1 : 2)) return false;
    if (!absl::SimpleAtoi(parts[0], process) || *process < 1 || *process > kMostProcesses) {
      return false;
    }
    return parts.size() == 1 || (absl::SimpleAtoi(parts[1], thread) && *thread >= 1);
  }

  const char* Call(absl::string_view line) {
    const std::vector<absl::string_view> parts = absl::StrSplit(line, ' ');
    RecordedCall call;
    if (parts.size() != 6 || !ProcessOf(parts[0], &call.process, &call.thread) ||
        !absl::SimpleAtoi(parts[4], &call.bytes)) {
      return "expected a call's process, device, kind, name, size and result";
    }
    call.device = std::string(parts[1]);
    call.kind = std::string(parts[2]);
    call.name = std::string(parts[3]);
    call.result = std::string(parts[5]);
    recording_.calls.push_back(std::move(call));
    return nullptr;
  }

  const char* Field(absl::string_view line, std::vector<Parameter> RecordedCall::*list) {
    if (recording_.calls.empty()) return "a parameter of no call";
    const size_t equals = line.find('=');
    if (equals == absl::string_view::npos || equals == 0) return "expected name=value";
    (recording_.calls.back().*list)
        .push_back({std::string(line.substr(0, equals)), std::string(line.substr(equals + 1))});
    return nullptr;
  }

  Recording recording_;
  int number_ = 0;
  bool ended_ = false;
};

}  // namespace

const std::string* RecordedCall::After(absl::string_view name) const {
  for (const auto* list : {&out, &in}) {
    for (const Parameter& parameter : *list) {
      if (parameter.name == name) return parameter.value == "0" ? nullptr : &parameter.value;
    }
  }
  return nullptr;
}

std::string FormatRecording(const Recording& recording) {
  std::string text = absl::StrCat(kFirstLine, "\n");
  for (const std::string& comment : recording.comments) absl::StrAppend(&text, "# ", comment, "\n");
  if (!recording.driver.empty()) absl::StrAppend(&text, "driver ", recording.driver, "\n");
  for (size_t i = 0; i < recording.programs.size(); ++i) {
    absl::StrAppend(&text, "process ", i + 1, " ", recording.programs[i], "\n");
  }
  for (const RecordedFile& file : recording.files) {
    absl::StrAppend(&text, "file ", file.process, " ", file.path, "\n");
    if (!file.content.empty()) AppendText(file.content, &text);
  }
  for (const RecordedCall& call : recording.calls) {
    absl::StrAppend(&text, "call ", call.process);
    if (call.thread != 1) absl::StrAppend(&text, ".", call.thread);
    absl::StrAppend(&text, " ", call.device, " ", call.kind, " ", call.name, " ", call.bytes, " ",
                    call.result, "\n");
    for (const Parameter& in : call.in)
      absl::StrAppend(&text, "  in ", in.name, "=", in.value, "\n");
    for (const Parameter& out : call.out) {
      absl::StrAppend(&text, "  out ", out.name, "=", out.value, "\n");
    }
  }
  return text + "end\n";
}

absl::StatusOr<Recording> ParseRecording(absl::string_view text) { return Parser().Parse(text); }

absl::StatusOr<Recording> ReadRecording(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  auto recording = ParseRecording(text);
  if (!recording.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", std::string(recording.status().message())));
  }
  return recording;
}

bool NumberOf(absl::string_view value, uint64_t* number) {
  return absl::StartsWith(value, "0x") ? absl::SimpleHexAtoi(value, number)
                                       : absl::SimpleAtoi(value, number);
}

std::vector<std::string> ElementsOf(absl::string_view value) {
  std::vector<std::string> elements;
  if (!absl::ConsumePrefix(&value, "[") || !absl::ConsumeSuffix(&value, "]")) return elements;
  for (absl::string_view part : absl::StrSplit(value, ',')) {
    size_t count = 1;
    const size_t star = part.find('*');
    if (star != absl::string_view::npos) {
      if (!absl::SimpleAtoi(part.substr(star + 1), &count)) return {};
      part = part.substr(0, star);
    }
    if (count > kMostElements - elements.size()) return {};
    elements.insert(elements.end(), count, std::string(part));
  }
  return elements;
}

bool TextOf(absl::string_view value, std::string* text) {
  if (value.size() < 2 || !absl::ConsumePrefix(&value, "\"") ||
      !absl::ConsumeSuffix(&value, "\"")) {
    return false;
  }
  return absl::CUnescape(value, text);
}

}  // namespace phantora::record
