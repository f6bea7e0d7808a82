#include "tools/replay/step_record.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "fabric/collectives/nccl_operation.h"

namespace phantora {
namespace {

using Json = nlohmann::json;

constexpr int kVersion = 3;
constexpr int kMostHosts = 1 << 16, kMostGpus = 1 << 10;
constexpr size_t kMostFileBytes = size_t{1} << 30;
// 13 days.
constexpr int64_t kMostTime = int64_t{1} << 60;
constexpr int64_t kMostBytes = int64_t{1} << 48;

constexpr struct {
  const char* name;
  int32_t nccl::Settings::*field;
} kNumbers[] = {{"min_channels", &nccl::Settings::min_channels},
                {"max_channels", &nccl::Settings::max_channels},
                {"nvls", &nccl::Settings::nvls},
                {"collnet", &nccl::Settings::collnet},
                {"queue_pairs", &nccl::Settings::queue_pairs}};
constexpr struct {
  const char* name;
  char (nccl::Settings::*field)[64];
} kTexts[] = {{"algorithm", &nccl::Settings::algorithm}, {"protocol", &nccl::Settings::protocol}};

// From a rank; anything may be in it.
std::string TextOf(const char (&text)[64]) {
  std::string kept(text, std::find(text, text + sizeof text, '\0'));
  std::erase_if(kept, [](char c) { return c < ' ' || c > '~'; });
  return kept;
}

Json JsonOf(const StepRecord::Communicator& communicator) {
  Json places = Json::array();
  for (const GpuPlace& place : communicator.places) places.push_back({place.host, place.gpu});
  Json json = {{"number", communicator.number}, {"places", places}};
  for (const auto& [name, field] : kTexts) json[name] = TextOf(communicator.settings.*field);
  for (const auto& [name, field] : kNumbers) json[name] = communicator.settings.*field;
  return json;
}

Json JsonOf(const StepRecord::Operation& operation) {
  Json entries = Json::array();
  for (const StepRecord::Entry& entry : operation.entries) {
    entries.push_back(
        {static_cast<int>(entry.operation), entry.type, entry.reduction, entry.peer, entry.count});
  }
  return Json::array({operation.communicator, entries});
}

std::string TextOf(const StepRecord::Node& node) {
  return absl::StrCat("[", node.channel, ",", node.engine, ",", node.name, ",", node.operation, ",",
                      node.submitted.picoseconds(), ",", node.start.picoseconds(), ",",
                      node.end.picoseconds(), ",", node.alone.picoseconds(), ",", node.demand, ",",
                      node.level, ",", node.memory, ",[", absl::StrJoin(node.after, ","), "]]");
}

std::string TextOf(const StepRecord::Wait& wait) {
  return absl::StrCat("[", wait.since.picoseconds(), ",", wait.until.picoseconds(), ",[",
                      absl::StrJoin(wait.after, ","), "]]");
}

std::string TextOf(const StepRecord::Rank& rank) {
  const auto members = [](std::string* out, const StepRecord::Member& member) {
    absl::StrAppend(out, "[", member.communicator, ",", member.rank, "]");
  };
  return absl::StrCat("[", rank.place.host, ",", rank.place.gpu, ",", rank.role, ",", rank.memory,
                      ",[", absl::StrJoin(rank.communicators, ",", members), "]]");
}

// `"key":[...]` with a line for each item, and never all of them as one tree in memory.
void WriteList(std::ostream& out, const char* key, const auto& items, const auto& text) {
  out << "\"" << key << "\":[";
  const char* separator = "\n";
  for (const auto& item : items) {
    out << separator << text(item);
    separator = ",\n";
  }
  out << "]";
}

void WriteRole(std::ostream& out, const StepRecord::Role& role) {
  out << "{\"truncated\":" << (role.truncated ? "true" : "false")
      << ",\"lost_releases\":" << role.lost_releases << ",\n";
  WriteList(out, "nodes", role.nodes, [](const StepRecord::Node& node) { return TextOf(node); });
  out << ",\n";
  WriteList(out, "waits", role.waits, [](const StepRecord::Wait& wait) { return TextOf(wait); });
  out << "}";
}

// Checks as it reads; after the first error all is 0.
class Reader {
 public:
  const std::string& error() const { return error_; }
  void Fail(const std::string& what) {
    if (error_.empty()) error_ = what;
  }
  int64_t Integer(const Json& json, const char* name, int64_t least, int64_t most) {
    if (!error_.empty()) return least;
    if (json.is_number_unsigned() &&
        json.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      Fail(absl::StrCat(name, " is too large"));
      return least;
    }
    const int64_t value = json.is_number_integer() ? json.get<int64_t>() : least - 1;
    if (json.is_number_integer() && value >= least && value <= most) return value;
    Fail(absl::StrCat(name, " is no number from ", least, " to ", most));
    return least;
  }
  VirtualTime Time(const Json& json, const char* name) {
    return VirtualTime() + VirtualSpan::Picoseconds(Integer(json, name, 0, kMostTime));
  }
  // An array of so many elements, or (most > 0) up to so many; else an empty one.
  const Json& Array(const Json& json, const char* name, size_t exactly, size_t most = 0) {
    static const Json kNone = Json::array();
    const bool good = json.is_array() &&
                      (most > 0 ? json.size() <= most : json.size() == exactly) && error_.empty();
    if (good) return json;
    Fail(
        absl::StrCat(name, " is no list of ", most > 0 ? "up to " : "", most > 0 ? most : exactly));
    return kNone;
  }
  // The member `key` of an object; null if it has none.
  static const Json& Of(const Json& json, const char* key) {
    static const Json kNull;
    if (!json.is_object()) return kNull;
    const auto it = json.find(key);
    return it == json.end() ? kNull : *it;
  }
  std::vector<uint32_t> After(const Json& json, size_t nodes) {
    std::vector<uint32_t> after;
    for (const Json& node : Array(json, "after", 0, StepRecord::kMostAfter)) {
      if (nodes == 0) Fail("the first node comes after another");
      after.push_back(static_cast<uint32_t>(
          Integer(node, "after", 0, std::max<int64_t>(static_cast<int64_t>(nodes) - 1, 0))));
    }
    return after;
  }

 private:
  std::string error_;
};

StepRecord::Communicator CommunicatorOf(Reader& reader, const Json& json, int hosts, int gpus) {
  StepRecord::Communicator communicator;
  communicator.number =
      static_cast<int>(reader.Integer(Reader::Of(json, "number"), "number", 0, 1 << 24));
  for (const Json& place : reader.Array(Reader::Of(json, "places"), "places", 0,
                                        static_cast<size_t>(hosts) * static_cast<size_t>(gpus))) {
    if (reader.Array(place, "place", 2).empty()) break;
    communicator.places.push_back({static_cast<int>(reader.Integer(place[0], "host", 0, hosts - 1)),
                                   static_cast<int>(reader.Integer(place[1], "GPU", 0, gpus - 1))});
  }
  if (communicator.places.empty()) reader.Fail("a communicator has no ranks");
  const std::set<GpuPlace> places(communicator.places.begin(), communicator.places.end());
  if (places.size() < communicator.places.size()) {
    reader.Fail("two ranks of a communicator have one place");
  }
  for (const auto& [name, field] : kTexts) {
    const Json& text = Reader::Of(json, name);
    auto& to = communicator.settings.*field;
    if (!text.is_string() || text.get_ref<const std::string&>().size() >= sizeof to) {
      reader.Fail(absl::StrCat(name, " is no short text"));
      continue;
    }
    std::memcpy(to, text.get_ref<const std::string&>().c_str(),
                text.get_ref<const std::string&>().size() + 1);
  }
  for (const auto& [name, field] : kNumbers) {
    communicator.settings.*field =
        static_cast<int32_t>(reader.Integer(Reader::Of(json, name), name, INT32_MIN, INT32_MAX));
  }
  return communicator;
}

StepRecord::Operation OperationOf(Reader& reader, const Json& json, size_t communicators) {
  StepRecord::Operation operation;
  if (reader.Array(json, "operation", 2).empty()) return operation;
  operation.communicator = static_cast<uint32_t>(
      reader.Integer(json[0], "communicator", 0, static_cast<int64_t>(communicators) - 1));
  for (const Json& item : reader.Array(json[1], "entries", 0, StepRecord::kMostEntries)) {
    if (reader.Array(item, "entry", 5).empty()) break;
    const auto byte = [&](size_t i, const char* name) {
      return static_cast<uint8_t>(reader.Integer(item[i], name, 0, UINT8_MAX));
    };
    StepRecord::Entry entry;
    entry.operation = static_cast<nccl::Operation>(
        reader.Integer(item[0], "operation", 0, nccl::kOperations - 1));
    entry.type = byte(1, "type");
    entry.reduction = byte(2, "reduction");
    entry.peer = static_cast<int32_t>(reader.Integer(item[3], "peer", 0, INT32_MAX));
    entry.count = static_cast<uint64_t>(reader.Integer(item[4], "count", 0, kMostBytes));
    operation.entries.push_back(entry);
  }
  if (operation.entries.empty()) reader.Fail("an operation does nothing");
  return operation;
}

StepRecord::Node NodeOf(Reader& reader, const Json& json, const StepRecord& record,
                        size_t earlier) {
  StepRecord::Node node;
  if (reader.Array(json, "node", 12).empty()) return node;
  const auto number = [&](size_t i, const char* name) {
    return static_cast<uint32_t>(reader.Integer(json[i], name, 0, UINT32_MAX));
  };
  node.channel = number(0, "channel");
  node.engine = number(1, "engine");
  node.name = static_cast<int>(
      reader.Integer(json[2], "name", -1, static_cast<int64_t>(record.names.size()) - 1));
  node.operation = static_cast<int>(
      reader.Integer(json[3], "operation", -1, static_cast<int64_t>(record.operations.size()) - 1));
  node.submitted = reader.Time(json[4], "submitted");
  node.start = reader.Time(json[5], "start");
  node.end = reader.Time(json[6], "end");
  node.alone = reader.Time(json[7], "alone") - VirtualTime();
  node.demand = number(8, "demand");
  node.level = number(9, "level");
  node.memory = number(10, "memory");
  node.after = reader.After(json[11], earlier);
  if (node.end < node.start) reader.Fail("a node ends before it starts");
  return node;
}

StepRecord::Role RoleOf(Reader& reader, const Json& json, const StepRecord& record) {
  StepRecord::Role role;
  role.truncated = Reader::Of(json, "truncated") == Json(true);
  role.lost_releases = static_cast<uint64_t>(
      reader.Integer(Reader::Of(json, "lost_releases"), "lost_releases", 0, kMostTime));
  for (const Json& item :
       reader.Array(Reader::Of(json, "nodes"), "nodes", 0, StepRecord::kMostNodes)) {
    role.nodes.push_back(NodeOf(reader, item, record, role.nodes.size()));
    if (!reader.error().empty()) return role;
  }
  for (const Json& item :
       reader.Array(Reader::Of(json, "waits"), "waits", 0, StepRecord::kMostNodes)) {
    if (reader.Array(item, "wait", 3).empty()) break;
    role.waits.push_back({reader.Time(item[0], "since"), reader.Time(item[1], "until"),
                          reader.After(item[2], role.nodes.size())});
  }
  return role;
}

StepRecord::Rank RankOf(Reader& reader, const Json& json, const StepRecord& record) {
  StepRecord::Rank rank;
  if (reader.Array(json, "rank", 5).empty()) return rank;
  rank.place = {static_cast<int>(reader.Integer(json[0], "host", 0, record.hosts - 1)),
                static_cast<int>(reader.Integer(json[1], "GPU", 0, record.gpus - 1))};
  rank.role = static_cast<uint32_t>(
      reader.Integer(json[2], "role", 0, static_cast<int64_t>(record.roles.size()) - 1));
  rank.memory = reader.Integer(json[3], "memory", 0, kMostBytes);
  for (const Json& item :
       reader.Array(json[4], "communicators", 0, StepRecord::kMostCommunicators)) {
    if (reader.Array(item, "member", 2).empty()) break;
    StepRecord::Member member;
    member.communicator = static_cast<uint32_t>(reader.Integer(
        item[0], "communicator", 0, static_cast<int64_t>(record.communicators.size()) - 1));
    if (!reader.error().empty()) break;
    const auto& places = record.communicators[member.communicator].places;
    member.rank = static_cast<int>(
        reader.Integer(item[1], "rank", 0, static_cast<int64_t>(places.size()) - 1));
    if (!reader.error().empty()) break;
    if (places[static_cast<size_t>(member.rank)] != rank.place) {
      reader.Fail("a communicator has another GPU in the place of a rank");
    }
    rank.communicators.push_back(member);
  }
  return rank;
}

// Ranks have the communicators that they use, and places of their own.
void CheckRanks(Reader& reader, const StepRecord& record) {
  std::vector<size_t> used(record.roles.size());
  for (size_t role = 0; role < record.roles.size(); ++role) {
    for (const StepRecord::Node& node : record.roles[role].nodes) {
      if (node.operation == StepRecord::kNoOperation) continue;
      const auto& operation = record.operations[static_cast<size_t>(node.operation)];
      used[role] = std::max<size_t>(used[role], operation.communicator + size_t{1});
    }
  }
  std::set<GpuPlace> places;
  for (const StepRecord::Rank& rank : record.ranks) {
    if (!places.insert(rank.place).second) reader.Fail("two ranks have one place");
    if (rank.communicators.size() < used[rank.role]) {
      reader.Fail("a rank lacks a communicator that it uses");
    }
  }
}

}  // namespace

bool IsMessage(const StepRecord::Entry& entry) {
  return entry.operation == nccl::Operation::kSend || entry.operation == nccl::Operation::kReceive;
}

nccl::Entry EntryOf(const StepRecord::Entry& entry, int rank, int ranks) {
  nccl::Entry made{};
  made.operation = entry.operation;
  made.type = entry.type;
  made.reduction = entry.reduction;
  made.count = entry.count;
  made.peer = entry.peer;
  if (IsMessage(made)) {
    made.peer = static_cast<int32_t>((int64_t{rank} + entry.peer) % std::max(ranks, 1));
  }
  return made;
}

absl::Status WriteStepRecord(const StepRecord& record, const std::string& file) {
  std::ofstream out(file, std::ios::trunc);
  const auto text = [](const std::string& value) {
    return Json(value).dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  out << "{\"version\":" << kVersion << ",\"cluster\":" << text(record.cluster)
      << ",\"gpu\":" << text(record.gpu) << ",\"hosts\":" << record.hosts
      << ",\"gpus\":" << record.gpus << ",\"sms\":" << record.sms
      << ",\"memory_bytes_per_s\":" << Json(record.memory_bytes_per_s).dump();
  const auto list = [&out](const char* key, const auto& items, const auto& text) {
    out << ",\n";
    WriteList(out, key, items, text);
  };
  list("communicators", record.communicators,
       [](const auto& communicator) { return JsonOf(communicator).dump(); });
  list("operations", record.operations,
       [](const auto& operation) { return JsonOf(operation).dump(); });
  list("names", record.names, text);
  out << ",\n\"roles\":[";
  const char* separator = "";
  for (const StepRecord::Role& role : record.roles) {
    out << separator;
    WriteRole(out, role);
    separator = ",\n";
  }
  out << "]";
  list("ranks", record.ranks, [](const StepRecord::Rank& rank) { return TextOf(rank); });
  out << "}\n";
  out.close();
  if (!out) return absl::UnavailableError(absl::StrCat("cannot write ", file));
  return absl::OkStatus();
}

absl::StatusOr<StepRecord> ParseStepRecord(const std::string& text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::InvalidArgumentError("it is no JSON object");
  Reader reader;
  StepRecord record;
  if (Reader::Of(json, "version") != Json(kVersion)) {
    reader.Fail("it is of another version of phantora-run (--record-step): record the step again");
  }
  for (const auto& [key, to] : {std::pair{"cluster", &record.cluster}, {"gpu", &record.gpu}}) {
    const Json& name = Reader::Of(json, key);
    if (name.is_string()) *to = name.get<std::string>();
  }
  const auto number = [&](const char* key, int most) {
    return static_cast<int>(reader.Integer(Reader::Of(json, key), key, 1, most));
  };
  record.hosts = number("hosts", kMostHosts);
  record.gpus = number("gpus", kMostGpus);
  record.sms = static_cast<uint32_t>(number("sms", 1 << 16));
  const Json& memory = Reader::Of(json, "memory_bytes_per_s");
  record.memory_bytes_per_s = memory.is_number() ? memory.get<double>() : 0;
  if (!(record.memory_bytes_per_s > 0) || !std::isfinite(record.memory_bytes_per_s)) {
    reader.Fail("memory_bytes_per_s is no positive number");
  }
  for (const Json& item : reader.Array(Reader::Of(json, "communicators"), "communicators", 0,
                                       StepRecord::kMostCommunicators)) {
    record.communicators.push_back(CommunicatorOf(reader, item, record.hosts, record.gpus));
  }
  for (const Json& item :
       reader.Array(Reader::Of(json, "operations"), "operations", 0, StepRecord::kMostNodes)) {
    record.operations.push_back(OperationOf(reader, item, StepRecord::kMostCommunicators));
  }
  for (const Json& item :
       reader.Array(Reader::Of(json, "names"), "names", 0, StepRecord::kMostNames)) {
    if (!item.is_string()) reader.Fail("a name is no text");
    record.names.push_back(item.is_string() ? item.get<std::string>() : "");
  }
  for (const Json& item :
       reader.Array(Reader::Of(json, "roles"), "roles", 0, StepRecord::kMostRanks)) {
    record.roles.push_back(RoleOf(reader, item, record));
    if (!reader.error().empty()) break;
  }
  for (const Json& item :
       reader.Array(Reader::Of(json, "ranks"), "ranks", 0, StepRecord::kMostRanks)) {
    record.ranks.push_back(RankOf(reader, item, record));
    if (!reader.error().empty()) break;
  }
  if (reader.error().empty() && record.ranks.empty())
    reader.Fail("no process took part in NCCL operations with one GPU");
  if (reader.error().empty()) CheckRanks(reader, record);
  if (!reader.error().empty()) return absl::InvalidArgumentError(reader.error());
  return record;
}

absl::StatusOr<StepRecord> ReadStepRecord(const std::string& file) {
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  if (!in) return absl::NotFoundError(absl::StrCat("cannot read ", file));
  if (in.tellg() > static_cast<std::streamoff>(kMostFileBytes)) {
    return absl::InvalidArgumentError(absl::StrCat(file, " is too large"));
  }
  in.seekg(0);
  std::stringstream text;
  text << in.rdbuf();
  auto record = ParseStepRecord(text.str());
  if (record.ok()) return record;
  return absl::InvalidArgumentError(
      absl::StrCat(file, ": ", std::string(record.status().message())));
}

}  // namespace phantora
