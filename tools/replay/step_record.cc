#include "tools/replay/step_record.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"

namespace phantora {
namespace {

using Json = nlohmann::json;

constexpr int kVersion = 2;
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
  Json collectives = Json::array();
  for (const auto& collective : operation.collectives) {
    collectives.push_back(
        {static_cast<int>(collective.operation), collective.bytes, collective.nvls ? 1 : 0});
  }
  return Json::array({operation.communicator, collectives});
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
  for (const Json& collective : reader.Array(json[1], "collectives", 0, 1 << 17)) {
    if (reader.Array(collective, "collective", 3).empty()) break;
    // Sends and receives come last, and are none.
    operation.collectives.push_back({static_cast<nccl::Operation>(reader.Integer(
                                         collective[0], "operation", 0, nccl::kOperations - 1)),
                                     reader.Integer(collective[1], "bytes", 0, kMostBytes),
                                     reader.Integer(collective[2], "nvls", 0, 1) != 0});
  }
  if (operation.collectives.empty()) reader.Fail("an operation does nothing");
  return operation;
}

StepRecord::Node NodeOf(Reader& reader, const Json& json, const StepRecord& record) {
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
  node.after = reader.After(json[11], record.nodes.size());
  if (node.end < node.start) reader.Fail("a node ends before it starts");
  return node;
}

}  // namespace

absl::Status WriteStepRecord(const StepRecord& record, const std::string& file) {
  std::ofstream out(file, std::ios::trunc);
  const auto text = [](const std::string& value) {
    return Json(value).dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  out << "{\"version\":" << kVersion << ",\"cluster\":" << text(record.cluster)
      << ",\"gpu\":" << text(record.gpu) << ",\"hosts\":" << record.hosts
      << ",\"gpus\":" << record.gpus << ",\"sms\":" << record.sms
      << ",\"memory_bytes_per_s\":" << Json(record.memory_bytes_per_s).dump()
      << ",\"truncated\":" << (record.truncated ? "true" : "false")
      << ",\"lost_releases\":" << record.lost_releases;
  // One line each, and never all as one tree in memory.
  const auto list = [&out](const char* key, const auto& items, const auto& text) {
    out << ",\n\"" << key << "\":[";
    const char* separator = "\n";
    for (const auto& item : items) {
      out << separator << text(item);
      separator = ",\n";
    }
    out << "]";
  };
  list("communicators", record.communicators,
       [](const auto& communicator) { return JsonOf(communicator).dump(); });
  list("operations", record.operations,
       [](const auto& operation) { return JsonOf(operation).dump(); });
  list("names", record.names, text);
  list("nodes", record.nodes, [](const StepRecord::Node& node) {
    return absl::StrCat("[", node.channel, ",", node.engine, ",", node.name, ",", node.operation,
                        ",", node.submitted.picoseconds(), ",", node.start.picoseconds(), ",",
                        node.end.picoseconds(), ",", node.alone.picoseconds(), ",", node.demand,
                        ",", node.level, ",", node.memory, ",[", absl::StrJoin(node.after, ","),
                        "]]");
  });
  list("waits", record.waits, [](const StepRecord::Wait& wait) {
    return absl::StrCat("[", wait.since.picoseconds(), ",", wait.until.picoseconds(), ",[",
                        absl::StrJoin(wait.after, ","), "]]");
  });
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
  record.truncated = Reader::Of(json, "truncated") == Json(true);
  record.lost_releases = static_cast<uint64_t>(
      reader.Integer(Reader::Of(json, "lost_releases"), "lost_releases", 0, kMostTime));
  for (const Json& item : reader.Array(Reader::Of(json, "communicators"), "communicators", 0,
                                       StepRecord::kMostCommunicators)) {
    record.communicators.push_back(CommunicatorOf(reader, item, record.hosts, record.gpus));
  }
  for (const Json& item :
       reader.Array(Reader::Of(json, "operations"), "operations", 0, StepRecord::kMostNodes)) {
    record.operations.push_back(OperationOf(reader, item, record.communicators.size()));
  }
  for (const Json& item :
       reader.Array(Reader::Of(json, "names"), "names", 0, StepRecord::kMostNames)) {
    if (!item.is_string()) reader.Fail("a name is no text");
    record.names.push_back(item.is_string() ? item.get<std::string>() : "");
  }
  for (const Json& item :
       reader.Array(Reader::Of(json, "nodes"), "nodes", 0, StepRecord::kMostNodes)) {
    record.nodes.push_back(NodeOf(reader, item, record));
    if (!reader.error().empty()) break;
  }
  for (const Json& item :
       reader.Array(Reader::Of(json, "waits"), "waits", 0, StepRecord::kMostWaits)) {
    if (reader.Array(item, "wait", 3).empty()) break;
    record.waits.push_back({reader.Time(item[0], "since"), reader.Time(item[1], "until"),
                            reader.After(item[2], record.nodes.size())});
  }
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
