#include "trap/linux/run_members.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace phantora {
namespace {

// Has the process numbers of its own, as the kernel's line of all its numbers tells?
bool CountsForItself(const std::string& status) {
  for (absl::string_view line : absl::StrSplit(status, '\n')) {
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar("\t "), absl::SkipEmpty());
    if (!words.empty() && words[0] == "NSpid:") return words.size() > 2;
  }
  return false;
}

// As deep as name spaces of processes may lie in each other, times processes in each: more are a
// circle that numbers used anew made.
constexpr int kMostAncestors = 100'000;

}  // namespace

bool RunMembers::IsOfOthers(pid_t caller, pid_t number) const {
  if (number <= 0 || number == caller) return false;
  const auto process = processes_->ProcessOf(number);
  if (!process.ok()) return false;
  pid_t ancestor = *process;
  for (int i = 0; i < kMostAncestors && ancestor > 1; ++i) {
    const pid_t parent = processes_->ParentOf(ancestor);
    if (parent == top_ && ancestor != top_) return false;
    ancestor = parent;
  }
  return !CountsForItself(proc_->Text(caller, "status"));
}

bool RunMembers::IsFileOfOthers(pid_t caller, const std::string& path) const {
  const std::vector<absl::string_view> parts = absl::StrSplit(path, '/', absl::SkipEmpty());
  int number = 0;
  if (parts.size() < 3 || parts[0] != "proc" || !absl::SimpleAtoi(parts[1], &number)) return false;
  return IsOfOthers(caller, number);
}

}  // namespace phantora
