#include "tools/replay/chakra_trace.h"

#include <google/protobuf/util/delimited_message_util.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "fabric/collectives/nccl_operation.h"
#include "tools/replay/chakra.pb.h"

namespace phantora {
namespace {

namespace chakra = ::ChakraProtoMsg;
using google::protobuf::util::SerializeDelimitedToOstream;
using nccl::Operation;

constexpr char kVersion[] = "0.0.4";
constexpr int64_t kMicrosecond = 1'000'000;  // ps

// Whole microseconds of times one after the other, whose sums are right to half of one.
class Rounded {
 public:
  uint64_t Of(VirtualSpan span) {
    all_ += std::max<int64_t>(span.picoseconds(), 0);
    const int64_t now = (all_ + kMicrosecond / 2) / kMicrosecond;
    return static_cast<uint64_t>(now - std::exchange(told_, now));
  }

 private:
  int64_t all_ = 0, told_ = 0;
};

// What ranks have to agree on.
struct Exchanged {
  // By communicator, and rank in it: the collectives, one after the other.
  std::map<std::pair<uint32_t, size_t>, std::vector<std::string>> collectives;
  // From one rank to another: bytes of messages.
  std::map<std::pair<int, int>, std::vector<int64_t>> sent, received;
};

chakra::CollectiveCommType TypeOf(Operation operation) {
  switch (operation) {
    case Operation::kBroadcast:
      return chakra::BROADCAST;
    case Operation::kReduce:
      return chakra::REDUCE;
    case Operation::kAllGather:
      return chakra::ALL_GATHER;
    case Operation::kReduceScatter:
      return chakra::REDUCE_SCATTER;
    default:
      return chakra::ALL_REDUCE;
  }
}

int64_t BytesOf(const nccl::Entry& entry) {
  return static_cast<int64_t>(entry.count) * NcclTypeBytes(entry.type);
}

// One node of a trace that an NCCL operation becomes.
struct Part {
  std::string name;
  chakra::NodeType node = chakra::COMM_COLL_NODE;
  chakra::CollectiveCommType type = chakra::ALL_REDUCE;
  int64_t bytes = 0;  // that a rank brings to it
  int peer = -1;      // of a message, a rank
};

// Sends and receives with all ranks of the communicator, or all others, of one size?
bool IsAllToAll(const std::vector<nccl::Entry>& entries, size_t ranks, size_t own) {
  std::set<int32_t> to, from;
  for (const nccl::Entry& entry : entries) {
    if (!IsMessage(entry) || BytesOf(entry) != BytesOf(entries[0])) return false;
    auto& peers = entry.operation == Operation::kSend ? to : from;
    if (!peers.insert(entry.peer).second) return false;
  }
  to.insert(static_cast<int32_t>(own));
  from.insert(static_cast<int32_t>(own));
  return ranks > 2 && to.size() == ranks && from.size() == ranks;
}

// The last step of one rank.
class RankTrace {
 public:
  RankTrace(const StepRecord& record, const ScaledRanks& ranks, int rank, VirtualTime from,
            VirtualTime to, Exchanged* exchanged)
      : record_(record),
        ranks_(ranks),
        rank_(rank),
        own_(ranks.ranks()[static_cast<size_t>(rank)]),
        role_(record.roles[record.ranks[static_cast<size_t>(own_.recorded)].role]),
        from_(from),
        to_(to),
        exchanged_(exchanged) {}

  absl::Status Write(const std::string& file);

 private:
  bool IsInside(VirtualTime end) const { return end > from_ && end <= to_; }
  const StepRecord::Member& MemberOf(const StepRecord::Node& node) const {
    const auto& operation = record_.operations[static_cast<size_t>(node.operation)];
    return own_.communicators[operation.communicator];
  }
  std::vector<Part> PartsOf(const StepRecord::Node& node) const;
  // Numbers of what is written, which others come after.
  void Number();
  void WriteHost(std::ostream& out);
  void WriteWork(uint32_t index, std::ostream& out);
  void Exchange(const StepRecord::Node& node, const std::vector<Part>& parts);
  chakra::Node NewNode(uint64_t id, const std::string& name, chakra::NodeType type) const;
  static chakra::AttributeProto* Attribute(chakra::Node& node, const char* name);
  static void SetTime(chakra::Node& node, VirtualSpan span, Rounded& rounded);
  void ComeAfter(absl::Span<const uint32_t> after, chakra::Node& node) const;

  const StepRecord& record_;
  const ScaledRanks& ranks_;
  const int rank_;
  const ScaledRanks::Rank& own_;
  const StepRecord::Role& role_;
  const VirtualTime from_, to_;
  Exchanged* const exchanged_;
  struct Numbers {
    uint64_t launch = 0;  // what the host does before
    std::vector<uint64_t> work;
    std::vector<Part> parts;  // of an NCCL operation, as many as `work`
  };
  std::map<uint32_t, Numbers> numbers_;  // by node
  std::map<uint32_t, Rounded> engines_;
  std::map<std::pair<uint32_t, int>, int32_t> messages_;  // by communicator and peer, to and fro
};

std::vector<Part> RankTrace::PartsOf(const StepRecord::Node& node) const {
  const StepRecord::Member& member = MemberOf(node);
  const auto& members = ranks_.communicators()[member.communicator].members;
  const auto entries = ranks_.EntriesOf(rank_, node.operation);
  const auto own = static_cast<size_t>(member.rank);
  if (IsAllToAll(entries, members.size(), own)) {
    return {{.name = "AllToAll",
             .type = chakra::ALL_TO_ALL,
             .bytes = BytesOf(entries[0]) * static_cast<int64_t>(members.size())}};
  }
  std::vector<Part> parts;
  for (const nccl::Entry& entry : entries) {
    Part part = {.name = NameOf(entry.operation), .bytes = BytesOf(entry)};
    if (IsMessage(entry)) {
      part.node =
          entry.operation == Operation::kSend ? chakra::COMM_SEND_NODE : chakra::COMM_RECV_NODE;
      part.peer = members[static_cast<size_t>(entry.peer)];
      if (part.peer == rank_) continue;  // no network
    } else {
      part.type = TypeOf(entry.operation);
      // What ASTRA-sim's reduce-scatter makes smaller.
      if (entry.operation == Operation::kReduceScatter) {
        part.bytes *= static_cast<int64_t>(members.size());
      }
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

void RankTrace::Number() {
  uint64_t last = 0;
  for (uint32_t i = 0; i < role_.nodes.size(); ++i) {
    const StepRecord::Node& node = role_.nodes[i];
    if (!IsInside(node.end)) continue;
    Numbers& numbers = numbers_[i];
    numbers.launch = ++last;
    if (node.operation != StepRecord::kNoOperation) numbers.parts = PartsOf(node);
    do {
      numbers.work.push_back(++last);
    } while (numbers.work.size() < numbers.parts.size());
  }
}

chakra::Node RankTrace::NewNode(uint64_t id, const std::string& name, chakra::NodeType type) const {
  chakra::Node node;
  node.set_id(id);
  node.set_name(name);
  node.set_type(type);
  return node;
}

chakra::AttributeProto* RankTrace::Attribute(chakra::Node& node, const char* name) {
  chakra::AttributeProto* const attribute = node.add_attr();
  attribute->set_name(name);
  return attribute;
}

void RankTrace::SetTime(chakra::Node& node, VirtualSpan span, Rounded& rounded) {
  node.set_duration_micros(rounded.Of(span));
  Attribute(node, "duration_ps")->set_int64_val(std::max<int64_t>(span.picoseconds(), 0));
}

void RankTrace::ComeAfter(absl::Span<const uint32_t> after, chakra::Node& node) const {
  for (const uint32_t other : after) {
    const auto found = numbers_.find(other);
    if (found == numbers_.end()) continue;  // in another step
    for (const uint64_t id : found->second.work) node.add_data_deps(id);
  }
}

void RankTrace::WriteHost(std::ostream& out) {
  std::vector<std::tuple<VirtualTime, bool, uint32_t>> events;
  for (const auto& [index, numbers] : numbers_) {
    events.emplace_back(role_.nodes[index].submitted, false, index);
  }
  for (uint32_t i = 0; i < role_.waits.size(); ++i) {
    if (IsInside(role_.waits[i].until)) events.emplace_back(role_.waits[i].until, true, i);
  }
  std::sort(events.begin(), events.end());
  VirtualTime now = from_;
  uint64_t last = 0;
  Rounded rounded;
  VirtualSpan busy;  // since the last launch
  std::vector<uint32_t> waited;
  for (const auto& [at, is_wait, index] : events) {
    if (is_wait) {
      const StepRecord::Wait& wait = role_.waits[index];
      VirtualTime over = wait.since;
      for (const uint32_t node : wait.after) over = std::max(over, role_.nodes[node].end);
      // It may have taken the host a moment to see it.
      busy = busy + std::max(wait.since - now, VirtualSpan()) +
             std::max(wait.until - over, VirtualSpan());
      waited.insert(waited.end(), wait.after.begin(), wait.after.end());
    } else {
      busy = busy + std::max(at - now, VirtualSpan());
      chakra::Node launch = NewNode(numbers_[index].launch, "host", chakra::COMP_NODE);
      SetTime(launch, std::exchange(busy, VirtualSpan()), rounded);
      Attribute(launch, "is_cpu_op")->set_bool_val(true);
      if (last != 0) launch.add_ctrl_deps(last);
      ComeAfter(std::exchange(waited, {}), launch);
      last = launch.id();
      SerializeDelimitedToOstream(launch, &out);
    }
    now = std::max(now, at);
  }
}

void RankTrace::WriteWork(uint32_t index, std::ostream& out) {
  const StepRecord::Node& recorded = role_.nodes[index];
  const Numbers& numbers = numbers_[index];
  const bool is_nccl = recorded.operation != StepRecord::kNoOperation;
  if (is_nccl) Exchange(recorded, numbers.parts);
  for (size_t i = 0; i < numbers.work.size(); ++i) {
    const std::string name = !numbers.parts.empty() ? numbers.parts[i].name
                             : is_nccl              ? "to itself"
                             : recorded.name == StepRecord::kNoName
                                 ? "copy"
                                 : record_.names[static_cast<size_t>(recorded.name)];
    chakra::Node node = NewNode(numbers.work[i], name,
                                numbers.parts.empty() ? chakra::COMP_NODE : numbers.parts[i].node);
    node.add_ctrl_deps(numbers.launch);
    ComeAfter(recorded.after, node);
    Attribute(node, "is_cpu_op")->set_bool_val(false);
    if (numbers.parts.empty()) {
      SetTime(node, recorded.alone, engines_[recorded.engine]);
      SerializeDelimitedToOstream(node, &out);
      continue;
    }
    const Part& part = numbers.parts[i];
    const uint32_t communicator = MemberOf(recorded).communicator;
    Attribute(node, "comm_size")->set_int64_val(part.bytes);
    Attribute(node, "pg_name")->set_string_val(absl::StrCat(communicator + 1));
    if (part.node == chakra::COMM_COLL_NODE) {
      Attribute(node, "comm_type")->set_int64_val(part.type);
      // For simulators that have no such operation.
      Rounded alone;
      SetTime(node, recorded.end - recorded.start, alone);
    } else {
      const bool sends = part.node == chakra::COMM_SEND_NODE;
      // Of messages between two ranks the first sent is the first received.
      const int32_t number = messages_[{communicator, sends ? part.peer : ~part.peer}]++;
      Attribute(node, "comm_src")->set_int32_val(sends ? rank_ : part.peer);
      Attribute(node, "comm_dst")->set_int32_val(sends ? part.peer : rank_);
      Attribute(node, "comm_tag")->set_int32_val(number);
    }
    SerializeDelimitedToOstream(node, &out);
  }
}

void RankTrace::Exchange(const StepRecord::Node& node, const std::vector<Part>& parts) {
  const StepRecord::Member& member = MemberOf(node);
  for (const Part& part : parts) {
    if (part.node == chakra::COMM_COLL_NODE) {
      exchanged_->collectives[{member.communicator, static_cast<size_t>(member.rank)}].push_back(
          absl::StrCat(part.name, " of ", part.bytes, " bytes"));
    } else if (part.node == chakra::COMM_SEND_NODE) {
      exchanged_->sent[{rank_, part.peer}].push_back(part.bytes);
    } else {
      exchanged_->received[{part.peer, rank_}].push_back(part.bytes);
    }
  }
}

absl::Status RankTrace::Write(const std::string& file) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  chakra::GlobalMetadata metadata;
  metadata.set_version(kVersion);
  SerializeDelimitedToOstream(metadata, &out);
  Number();
  WriteHost(out);
  for (const auto& [index, numbers] : numbers_) WriteWork(index, out);
  out.close();
  return out ? absl::OkStatus() : absl::UnavailableError(absl::StrCat("cannot write ", file));
}

absl::Status CheckExchanged(const Exchanged& exchanged, const ScaledRanks& ranks) {
  for (uint32_t i = 0; i < ranks.communicators().size(); ++i) {
    const auto& members = ranks.communicators()[i].members;
    const auto of = [&](size_t rank) {
      const auto found = exchanged.collectives.find({i, rank});
      return found == exchanged.collectives.end() ? std::vector<std::string>() : found->second;
    };
    const auto first = of(0);
    for (size_t rank = 1; rank < members.size(); ++rank) {
      if (of(rank) == first) continue;
      return absl::FailedPreconditionError(
          absl::StrCat("in the last step ranks ", members[0], " and ", members[rank],
                       " have not the same collectives (", first.size(), " and ", of(rank).size(),
                       " of the communicator that both are in): record some more steps"));
    }
  }
  if (exchanged.sent != exchanged.received) {
    return absl::FailedPreconditionError(
        "in the last step not all that one rank sends is received by another: record some more "
        "steps");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteChakraTraces(const StepRecord& record, absl::Span<const StepPeriod> periods,
                               const ScaledRanks& ranks, const std::string& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) {
    return absl::UnavailableError(absl::StrCat("cannot make ", folder, ": ", failed.message()));
  }
  // By the clock, which is the same for all: where a role's operations repeat another one's need
  // not.
  const uint32_t first = record.ranks[0].role;
  const std::vector<uint32_t>& ends = periods[first].ends;
  const auto& nodes = record.roles[first].nodes;
  const VirtualTime from = nodes[ends[ends.size() - 2]].end, to = nodes[ends.back()].end;
  Exchanged exchanged;
  for (int rank = 0; rank < static_cast<int>(ranks.ranks().size()); ++rank) {
    RankTrace trace(record, ranks, rank, from, to, &exchanged);
    const absl::Status status = trace.Write(absl::StrCat(folder, "/step.", rank, ".et"));
    if (!status.ok()) return status;
  }
  nlohmann::json groups = nlohmann::json::object();
  for (size_t i = 0; i < ranks.communicators().size(); ++i) {
    groups[absl::StrCat(i + 1)] = ranks.communicators()[i].members;
  }
  const std::string file = absl::StrCat(folder, "/comm_groups.json");
  std::ofstream out(file, std::ios::trunc);
  out << groups.dump() << "\n";
  out.close();
  if (!out) return absl::UnavailableError(absl::StrCat("cannot write ", file));
  return CheckExchanged(exchanged, ranks);
}

}  // namespace phantora
