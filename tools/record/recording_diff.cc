#include "tools/record/recording_diff.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace phantora::record {
namespace {

constexpr absl::string_view kHandle = "handle#";
// Characters of a value that are printed.
constexpr size_t kMostShown = 160;

// "handle#12" without its number.
std::string WithoutNumbers(const std::string& value) {
  std::string result;
  size_t at = 0;
  for (;;) {
    const size_t found = value.find(kHandle.data(), at, kHandle.size());
    if (found == std::string::npos) break;
    result.append(value, at, found - at + kHandle.size() - 1);
    at = found + kHandle.size();
    while (at < value.size() && value[at] >= '0' && value[at] <= '9') ++at;
  }
  return result.append(value, at, std::string::npos);
}

std::string Shown(const std::string& value) {
  if (value.empty()) return "0";
  return value.size() <= kMostShown ? value : absl::StrCat(value.substr(0, kMostShown), "...");
}

// A call with parameters to compare.
struct Compared {
  const RecordedCall* call;
  std::vector<Parameter> in, out;
  std::string key;  // all of `in`
  bool paired = false;
};

class Differ {
 public:
  explicit Differ(const DiffOptions& options) : options_(options) {}

  std::vector<CallDifference> Run(const Recording& first, const Recording& second) {
    // In the order in which they first appear.
    std::map<Group, size_t> numbers;
    std::vector<Group> order;
    std::vector<std::vector<Compared>> calls[2];
    const Recording* recordings[2] = {&first, &second};
    for (int side = 0; side < 2; ++side) {
      for (const RecordedCall& call : recordings[side]->calls) {
        const Group group = {call.process,
                             absl::StrCat(call.device, " ", call.kind, " ", call.name)};
        const auto [found, is_new] = numbers.try_emplace(group, order.size());
        if (is_new) {
          order.push_back(group);
          calls[0].emplace_back();
          calls[1].emplace_back();
        }
        calls[side][found->second].push_back(Prepare(call));
      }
    }
    for (size_t i = 0; i < order.size(); ++i) {
      process_ = order[i].first;
      call_ = order[i].second;
      CompareGroup(calls[0][i], calls[1][i]);
    }
    CompareFiles(first, second);
    return std::move(differences_);
  }

 private:
  using Group = std::pair<int, std::string>;

  Compared Prepare(const RecordedCall& call) const {
    Compared result{&call, call.in, call.out, "", false};
    for (auto* list : {&result.in, &result.out}) {
      for (Parameter& parameter : *list) {
        if (!options_.handles) parameter.value = WithoutNumbers(parameter.value);
      }
    }
    if (!options_.unknown_inputs) {
      result.in.erase(
          std::remove_if(result.in.begin(), result.in.end(),
                         [](const Parameter& p) { return absl::StrContains(p.name, "+0x"); }),
          result.in.end());
    }
    for (const Parameter& parameter : result.in) {
      absl::StrAppend(&result.key, parameter.name, "=", parameter.value, "\n");
    }
    return result;
  }

  void CompareGroup(std::vector<Compared>& first, std::vector<Compared>& second) {
    absl::flat_hash_map<std::string, std::vector<Compared*>> by_key;
    for (auto call = second.rbegin(); call != second.rend(); ++call) {
      by_key[call->key].push_back(&*call);
    }
    for (Compared& call : first) {
      auto& same = by_key[call.key];
      if (same.empty()) continue;
      Compare(call, *same.back());
      call.paired = same.back()->paired = true;
      same.pop_back();
    }
    auto other = second.begin();
    for (Compared& call : first) {
      if (call.paired) continue;
      while (other != second.end() && other->paired) ++other;
      if (other == second.end()) {
        Count("only in the first", "", "");
        continue;
      }
      Compare(call, *other);
      other->paired = true;
    }
    for (const Compared& call : second) {
      if (!call.paired) Count("only in the second", "", "");
    }
  }

  void CompareFiles(const Recording& first, const Recording& second) {
    std::map<std::pair<int, std::string>, std::string> contents[2];
    const Recording* recordings[2] = {&first, &second};
    for (int side = 0; side < 2; ++side) {
      for (const RecordedFile& file : recordings[side]->files) {
        contents[side].try_emplace({file.process, file.path}, file.content);
      }
    }
    for (int side = 0; side < 2; ++side) {
      for (const auto& [key, content] : contents[side]) {
        process_ = key.first;
        call_ = absl::StrCat("file ", key.second);
        const auto other = contents[1 - side].find(key);
        if (other == contents[1 - side].end()) {
          Count(side == 0 ? "only in the first" : "only in the second", "", "");
        } else if (side == 0 && other->second != content) {
          Count("content", absl::CEscape(content), absl::CEscape(other->second));
        }
      }
    }
  }

  void Compare(const Compared& first, const Compared& second) {
    if (first.call->bytes != second.call->bytes) {
      Count("bytes", absl::StrCat(first.call->bytes), absl::StrCat(second.call->bytes));
    }
    if (first.call->result != second.call->result) {
      Count("result", first.call->result, second.call->result);
    }
    CompareLists("in ", first.in, second.in);
    CompareLists("out ", first.out, second.out);
  }

  void CompareLists(absl::string_view when, const std::vector<Parameter>& first,
                    const std::vector<Parameter>& second) {
    if (first == second) return;
    std::map<std::string, std::pair<std::string, std::string>> values;
    for (const Parameter& parameter : first) values[parameter.name].first = parameter.value;
    for (const Parameter& parameter : second) values[parameter.name].second = parameter.value;
    for (const auto& [name, pair] : values) {
      if (pair.first != pair.second) Count(absl::StrCat(when, name), pair.first, pair.second);
    }
  }

  void Count(std::string what, const std::string& first, const std::string& second) {
    CallDifference difference{process_, call_, std::move(what), first, second, 1};
    const auto [found, is_new] = known_.try_emplace(
        std::tie(process_, call_, difference.what, first, second), differences_.size());
    if (is_new) {
      differences_.push_back(std::move(difference));
    } else {
      ++differences_[found->second].count;
    }
  }

  const DiffOptions options_;
  int process_ = 1;
  std::string call_;
  std::map<std::tuple<int, std::string, std::string, std::string, std::string>, size_t> known_;
  std::vector<CallDifference> differences_;
};

}  // namespace

std::vector<CallDifference> DiffRecordings(const Recording& first, const Recording& second,
                                           const DiffOptions& options) {
  return Differ(options).Run(first, second);
}

std::string FormatDifferences(const std::vector<CallDifference>& differences) {
  std::string text, last;
  for (const CallDifference& difference : differences) {
    const std::string title = absl::StrCat("process ", difference.process, " ", difference.call);
    if (title != last) absl::StrAppend(&text, title, "\n");
    last = title;
    absl::StrAppend(&text, "  ", difference.what);
    if (!absl::StartsWith(difference.what, "only")) {
      absl::StrAppend(&text, ": ", Shown(difference.first), " | ", Shown(difference.second));
    }
    if (difference.count > 1) absl::StrAppend(&text, "  (", difference.count, " calls)");
    text += '\n';
  }
  return text;
}

}  // namespace phantora::record
