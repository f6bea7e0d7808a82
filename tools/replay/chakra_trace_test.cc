#include "tools/replay/chakra_trace.h"

#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/util/delimited_message_util.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tools/replay/chakra.pb.h"
#include "tools/replay/run_for_test.h"

namespace phantora {
namespace {

using ChakraProtoMsg::Node;
using Operation = nccl::Operation;

VirtualTime Us(int64_t us) { return VirtualTime() + VirtualSpan::Microseconds(us); }

std::vector<Node> ReadNodes(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  google::protobuf::io::IstreamInputStream stream(&in);
  ChakraProtoMsg::GlobalMetadata metadata;
  bool end = false;
  using google::protobuf::util::ParseDelimitedFromZeroCopyStream;
  EXPECT_TRUE(ParseDelimitedFromZeroCopyStream(&metadata, &stream, &end));
  EXPECT_EQ(metadata.version(), "0.0.4");
  std::vector<Node> nodes;
  for (Node node; ParseDelimitedFromZeroCopyStream(&node, &stream, &end); node.Clear()) {
    nodes.push_back(node);
  }
  EXPECT_TRUE(end);
  return nodes;
}

const ChakraProtoMsg::AttributeProto& AttributeOf(const Node& node, const std::string& name) {
  for (const auto& attribute : node.attr()) {
    if (attribute.name() == name) return attribute;
  }
  static const ChakraProtoMsg::AttributeProto none;
  ADD_FAILURE() << node.DebugString() << " has no " << name;
  return none;
}

// Ranks that do the same three times: a kernel of 1.4 us, another one, and an operation behind
// both, for which the host waits.
class ChakraTraceTest : public testing::Test {
 protected:
  explicit ChakraTraceTest(int ranks = 4) : run_(ranks, ranks) {
    run_.Communicators(1, ranks);
    run_.record.names = {"forward"};
  }
  void Steps(int operation) {
    StepRecord::Role& role = run_.record.roles[0];
    for (uint32_t step = 0; step < 3; ++step) {
      const int64_t begin = 100 * step;
      const auto after = step == 0 ? std::vector<uint32_t>() : std::vector<uint32_t>{3 * step - 1};
      for (const uint32_t i : {0u, 1u}) {
        StepRecord::Node& node = role.nodes[run_.Add(0, i, 1, after)];
        node.alone = VirtualSpan::Nanoseconds(1400);
        node.name = 0;
        node.engine = 0;
        node.submitted = Us(begin + 10 + i);
        node.start = node.submitted;
        node.end = Us(begin + 20 + i);
      }
      StepRecord::Node& last = role.nodes[run_.Add(0, 2, 0, {3 * step, 3 * step + 1}, operation)];
      last.submitted = Us(begin + 15);
      last.start = Us(begin + 30);
      last.end = Us(begin + 50);
      role.waits.push_back({Us(begin + 16), Us(begin + 53), {3 * step + 2}});
    }
  }
  absl::Status Write() {
    folder_ = testing::TempDir() + "/chakra";
    std::vector<StepPeriod> periods;
    for (const auto& role : run_.record.roles) periods.push_back(*FindSteps(role));
    const auto ranks = static_cast<int>(run_.record.ranks.size());
    return WriteChakraTraces(run_.record, periods,
                             *ScaledRanks::Create(run_.record, RankAxes({{"dp", ranks}}), {}),
                             folder_);
  }
  std::vector<Node> NodesOf(int rank) {
    return ReadNodes(folder_ + "/step." + std::to_string(rank) + ".et");
  }

  RunForTest run_;
  std::string folder_;
};

TEST_F(ChakraTraceTest, AStepHasItsHostItsKernelsAndItsOperations) {
  Steps(run_.AllReduce(0, 256));
  ASSERT_TRUE(Write().ok());
  const auto nodes = NodesOf(3);
  ASSERT_EQ(nodes.size(), 6u);
  std::map<std::string, std::vector<Node>> by_name;
  std::set<uint64_t> ids;
  for (const Node& node : nodes) {
    by_name[node.name()].push_back(node);
    EXPECT_TRUE(ids.insert(node.id()).second);
  }
  const auto& host = by_name["host"];
  ASSERT_EQ(host.size(), 3u);
  // From the end of the step before (150 us) the host waits until it has seen that, and launches at
  // 210, 211 and 215.
  EXPECT_EQ(AttributeOf(host[0], "duration_ps").int64_val(), 60'000'000);
  EXPECT_EQ(host[1].duration_micros(), 1u);
  EXPECT_EQ(host[2].duration_micros(), 4u);
  EXPECT_TRUE(AttributeOf(host[2], "is_cpu_op").bool_val());
  EXPECT_EQ(host[2].ctrl_deps(0), host[1].id());
  const auto& kernels = by_name["forward"];
  ASSERT_EQ(kernels.size(), 2u);
  // 2.8 us in all.
  EXPECT_EQ(kernels[0].duration_micros(), 1u);
  EXPECT_EQ(kernels[1].duration_micros(), 2u);
  EXPECT_EQ(AttributeOf(kernels[1], "duration_ps").int64_val(), 1'400'000);
  EXPECT_EQ(kernels[1].ctrl_deps(0), host[1].id());
  EXPECT_EQ(kernels[1].data_deps_size(), 0);  // on the step before
  const Node& all_reduce = by_name["AllReduce"].at(0);
  EXPECT_EQ(all_reduce.type(), ChakraProtoMsg::COMM_COLL_NODE);
  EXPECT_EQ(AttributeOf(all_reduce, "comm_type").int64_val(), ChakraProtoMsg::ALL_REDUCE);
  EXPECT_EQ(AttributeOf(all_reduce, "comm_size").int64_val(), 1024);
  EXPECT_EQ(AttributeOf(all_reduce, "pg_name").string_val(), "1");
  EXPECT_EQ(std::set<uint64_t>(all_reduce.data_deps().begin(), all_reduce.data_deps().end()),
            (std::set<uint64_t>{kernels[0].id(), kernels[1].id()}));
  std::ifstream groups(folder_ + "/comm_groups.json");
  EXPECT_EQ(nlohmann::json::parse(groups), nlohmann::json({{"1", {0, 1, 2, 3}}}));
}

TEST_F(ChakraTraceTest, SizesAreWhatARankBrings) {
  Steps(run_.Operation(
      0, {EntryForTest(Operation::kAllGather, 10), EntryForTest(Operation::kReduceScatter, 10)}));
  ASSERT_TRUE(Write().ok());
  std::map<std::string, int64_t> bytes;
  for (const Node& node : NodesOf(0)) {
    if (node.type() == ChakraProtoMsg::COMM_COLL_NODE) {
      bytes[node.name()] = AttributeOf(node, "comm_size").int64_val();
    }
  }
  EXPECT_EQ(bytes, (std::map<std::string, int64_t>{{"AllGather", 40}, {"ReduceScatter", 160}}));
}

TEST_F(ChakraTraceTest, MessagesWithAllRanksAreAnAllToAll) {
  std::vector<StepRecord::Entry> entries;
  for (const int peer : {1, 2, 3}) entries.push_back(EntryForTest(Operation::kSend, 8, peer));
  for (const int peer : {1, 2, 3}) entries.push_back(EntryForTest(Operation::kReceive, 8, peer));
  Steps(run_.Operation(0, entries));
  ASSERT_TRUE(Write().ok());
  const Node node = NodesOf(2).back();
  EXPECT_EQ(node.type(), ChakraProtoMsg::COMM_COLL_NODE);
  EXPECT_EQ(AttributeOf(node, "comm_type").int64_val(), ChakraProtoMsg::ALL_TO_ALL);
  EXPECT_EQ(AttributeOf(node, "comm_size").int64_val(), 4 * 8 * 4);
}

TEST_F(ChakraTraceTest, OtherMessagesAreTheirOwn) {
  // Around a ring: to the next, from the one before.
  Steps(run_.Operation(
      0, {EntryForTest(Operation::kSend, 8, 1), EntryForTest(Operation::kReceive, 8, 3)}));
  ASSERT_TRUE(Write().ok());
  const auto nodes = NodesOf(3);
  const Node &send = nodes[nodes.size() - 2], &receive = nodes.back();
  EXPECT_EQ(send.type(), ChakraProtoMsg::COMM_SEND_NODE);
  EXPECT_EQ(AttributeOf(send, "comm_src").int32_val(), 3);
  EXPECT_EQ(AttributeOf(send, "comm_dst").int32_val(), 0);
  EXPECT_EQ(receive.type(), ChakraProtoMsg::COMM_RECV_NODE);
  EXPECT_EQ(AttributeOf(receive, "comm_src").int32_val(), 2);
  EXPECT_EQ(AttributeOf(receive, "comm_dst").int32_val(), 3);
  EXPECT_EQ(AttributeOf(receive, "comm_size").int64_val(), 32);
}

TEST_F(ChakraTraceTest, RanksThatDoNotFitAreRefused) {
  // Nobody receives that.
  Steps(run_.Operation(0, {EntryForTest(Operation::kSend, 8, 1)}));
  EXPECT_NE(std::string(Write().message()).find("not all that one rank sends"), std::string::npos);
}

TEST_F(ChakraTraceTest, FoldersThatCannotBeMadeAreRefused) {
  Steps(run_.AllReduce(0, 256));
  const auto ranks = *ScaledRanks::Create(run_.record, RankAxes({{"dp", 4}}), {});
  EXPECT_FALSE(
      WriteChakraTraces(run_.record, {*FindSteps(run_.record.roles[0])}, ranks, "/proc/no").ok());
}

}  // namespace
}  // namespace phantora
