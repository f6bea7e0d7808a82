#include "tools/replay/replayed_trace.h"

#include "absl/strings/str_cat.h"
#include "fabric/collectives/nccl_operation.h"
#include "tools/observe/timeline_trace.h"
#include "tools/observe/trace_writer.h"

namespace phantora {

std::string TextOf(const StepRecord& record, const ScaledRanks& ranks, int rank, int operation) {
  const auto& own = ranks.ranks()[static_cast<size_t>(rank)];
  const auto& recorded = record.operations[static_cast<size_t>(operation)];
  const uint32_t index = own.communicators[recorded.communicator].communicator;
  const auto& members = ranks.communicators()[index].members;
  std::string text;
  for (const nccl::Entry& entry : ranks.EntriesOf(rank, operation)) {
    // All-to-alls have as many as there are ranks.
    if (text.size() > 100) {
      absl::StrAppend(&text, ", ...");
      break;
    }
    absl::StrAppend(&text, text.empty() ? "" : ", ", NameOf(entry.operation), " of ",
                    OperationBytes(entry, static_cast<int>(members.size())), " bytes");
    if (IsMessage(entry) && static_cast<size_t>(entry.peer) < members.size()) {
      absl::StrAppend(&text, entry.operation == nccl::Operation::kSend ? " to " : " from ",
                      members[static_cast<size_t>(entry.peer)]);
    }
  }
  return absl::StrCat(text, ", ", members.size(), " ranks");
}

absl::Status WriteReplayedTrace(const StepRecord& record, const ScaledRanks& ranks,
                                const ReplayedStep& step, const std::string& file) {
  auto writer = TraceWriter::Open(file);
  if (!writer.ok()) return writer.status();
  for (const ReplayedStep::Timeline& timeline : step.timelines) {
    std::string name = absl::StrCat("rank ", timeline.rank, ":");
    const auto coordinates = ranks.axes().CoordinatesOf(timeline.rank);
    for (size_t axis = 0; axis < coordinates.size(); ++axis) {
      absl::StrAppend(&name, " ", ranks.axes().all()[axis].name, " ", coordinates[axis]);
    }
    TimelineTrace trace(writer->get(), timeline.rank, name);
    const auto& nodes = record.roles[timeline.role].nodes;
    for (size_t i = 0; i < nodes.size(); ++i) {
      const StepRecord::Node& node = nodes[i];
      const bool is_nccl = node.operation != StepRecord::kNoOperation;
      const std::string what = is_nccl ? TextOf(record, ranks, timeline.rank, node.operation)
                               : node.name == StepRecord::kNoName
                                   ? "copy"
                                   : record.names[static_cast<size_t>(node.name)];
      const auto& [begin, end] = timeline.nodes[i];
      trace.Work(0, node.channel, begin - VirtualTime(), end - VirtualTime(),
                 is_nccl                            ? "nccl"
                 : node.name == StepRecord::kNoName ? "copy"
                                                    : "kernel",
                 what, "");
    }
  }
  return (*writer)->Close();
}

}  // namespace phantora
