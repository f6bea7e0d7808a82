#include "tools/replay/step_record.h"

#include <gtest/gtest.h>

#include <string>

namespace phantora {
namespace {

VirtualTime At(int64_t us) { return VirtualTime() + VirtualSpan::Microseconds(us); }

TEST(StepRecordTest, TheFileSaysTheSame) {
  StepRecord record;
  record.cluster = "dgx-h100";
  record.gpu = "h100-sxm5-80gb";
  record.hosts = 1;
  record.gpus = 2;
  record.sms = 132;
  record.memory_bytes_per_s = 3e12;
  record.communicators.push_back({7, {{0, 0}, {0, 1}}, {}});
  record.communicators[0].settings.nvls = 0;
  record.operations = {{0,
                        {{nccl::Operation::kReduceScatter, 9, nccl::kAvg, 0, 64},
                         {nccl::Operation::kSend, 0, 0, 1, uint64_t{1} << 40}}}};
  record.names = {"a \"kernel\""};
  record.roles.resize(2);
  StepRecord::Node node;
  node.name = 0;
  node.submitted = At(1);
  node.start = At(2);
  node.end = At(5);
  node.alone = VirtualSpan::Microseconds(3);
  record.roles[1].nodes = {node, node};
  record.roles[1].nodes[1].after = {0};
  record.roles[1].nodes[1].operation = 0;
  record.roles[1].waits = {{At(5), At(6), {1}}};
  record.roles[1].truncated = true;
  record.roles[1].lost_releases = 3;
  record.ranks = {{{0, 0}, 1, 1'000'000'000'000, {{0, 0}}}, {{0, 1}, 0, 5, {{0, 1}}}};
  const std::string file = testing::TempDir() + "/step.json";
  ASSERT_TRUE(WriteStepRecord(record, file).ok());
  const auto read = ReadStepRecord(file);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->cluster, "dgx-h100");
  EXPECT_EQ(read->gpus, 2);
  EXPECT_EQ(read->communicators[0].number, 7);
  EXPECT_EQ(read->communicators[0].places, record.communicators[0].places);
  EXPECT_EQ(read->communicators[0].settings.nvls, 0);
  EXPECT_EQ(read->operations, record.operations);
  EXPECT_EQ(read->names, record.names);
  ASSERT_EQ(read->roles.size(), 2u);
  EXPECT_TRUE(read->roles[0].nodes.empty());
  const StepRecord::Role& role = read->roles[1];
  EXPECT_TRUE(role.truncated);
  EXPECT_EQ(role.lost_releases, 3u);
  ASSERT_EQ(role.nodes.size(), 2u);
  EXPECT_EQ(role.nodes[0].submitted, At(1));
  EXPECT_EQ(role.nodes[0].alone, node.alone);
  EXPECT_EQ(role.nodes[1].after, std::vector<uint32_t>{0});
  EXPECT_EQ(role.nodes[1].operation, 0);
  EXPECT_EQ(role.waits[0].after, std::vector<uint32_t>{1});
  ASSERT_EQ(read->ranks.size(), 2u);
  EXPECT_EQ(read->ranks[0].role, 1u);
  EXPECT_EQ(read->ranks[0].memory, 1'000'000'000'000);
  EXPECT_EQ(read->ranks[1].place, (GpuPlace{0, 1}));
  EXPECT_EQ(read->ranks[1].communicators, record.ranks[1].communicators);
}

TEST(StepRecordTest, PeersAreCountedFromTheRank) {
  const StepRecord::Entry send = {nccl::Operation::kSend, 0, 0, 3, 8};
  EXPECT_EQ(EntryOf(send, 2, 4).peer, 1);
  EXPECT_EQ(EntryOf(send, 0, 4).peer, 3);
  const StepRecord::Entry root = {nccl::Operation::kBroadcast, 0, 0, 3, 8};
  EXPECT_EQ(EntryOf(root, 2, 4).peer, 3);
}

class NonsenseTest : public testing::Test {
 protected:
  // A file whose parts can be replaced.
  std::string head = R"({"version":3,"cluster":"x","hosts":1,"gpus":2,"sms":4,)"
                     R"("memory_bytes_per_s":1e9,)";
  std::string communicators =
      R"({"number":1,"places":[[0,0],[0,1]],"algorithm":"","protocol":"","min_channels":-1,)"
      R"("max_channels":-1,"nvls":-1,"collnet":-1,"queue_pairs":-1})";
  std::string operations = R"([0,[[4,7,0,0,64]]])";
  std::string nodes = R"([0,0,-1,0,1,2,3,0,1,0,0,[]])";
  std::string waits = R"([1,2,[0]])";
  std::string ranks = R"([0,0,0,5,[[0,0]]],[0,1,0,5,[[0,1]]])";

  bool IsRead() const {
    return ParseStepRecord(head + "\"communicators\":[" + communicators + "],\"operations\":[" +
                           operations + R"(],"names":["k"],"roles":[{"lost_releases":0,"nodes":[)" +
                           nodes + "],\"waits\":[" + waits + "]}],\"ranks\":[" + ranks + "]}")
        .ok();
  }
};

TEST_F(NonsenseTest, Sense) { EXPECT_TRUE(IsRead()); }

TEST_F(NonsenseTest, OfNodes) {
  for (const char* text :
       {"[0,0,-1,1,1,2,3,0,1,0,0,[]]",   // no such operation
        "[0,0,-1,0,1,2,3,0,1,0,0,[0]]",  // after itself
        "[0,0,-1,0,1,3,2,0,1,0,0,[]]",   // ends before it starts
        "[0,0,1,0,1,2,3,0,1,0,0,[]]",    // no such name
        "[0,0,-1,0,-1,2,3,0,1,0,0,[]]", "[0,0,0]", "{}", "[0,0,-1,0,1e300,2,3,0,1,0,0,[]]",
        "[0,0,-1,0,18446744073709551615,2,3,0,1,0,0,[]]"}) {
    nodes = text;
    EXPECT_FALSE(IsRead()) << text;
  }
}

TEST_F(NonsenseTest, OfWaits) {
  for (const char* text : {"[1,2,[1]]", "[1,2]", "[1,-2,[0]]", "0"}) {
    waits = text;
    EXPECT_FALSE(IsRead()) << text;
  }
}

TEST_F(NonsenseTest, OfOperations) {
  for (const char* text :
       {"[0,[]]", "[0,[[7,7,0,0,64]]]", "[0,[[4,7,0,-1,64]]]", "[0,[[4,256,0,0,64]]]",
        "[0,[[4,7,0,0,1e30]]]", "[1,[[4,7,0,0,64]]]", "[-1,[[4,7,0,0,64]]]", "[0,[[4,7,0,64]]]"}) {
    operations = text;
    EXPECT_FALSE(IsRead()) << text;
  }
}

TEST_F(NonsenseTest, OfCommunicators) {
  const std::string places = "[[0,0],[0,1]]";
  for (const char* text : {"[]", "[[0,0],[0,0]]", "[[0,0],[1,1]]", "[[0,0],[0]]", "0"}) {
    std::string other = communicators;
    std::swap(communicators, other.replace(other.find(places), places.size(), text));
    EXPECT_FALSE(IsRead()) << text;
    std::swap(communicators, other);
  }
}

TEST_F(NonsenseTest, OfRanks) {
  for (const char* text : {"", "[0,0,1,5,[[0,0]]]", "[0,2,0,5,[[0,0]]]",
                           "[0,0,0,5,[[1,0]]]",                       // no such communicator
                           "[0,0,0,5,[[0,1]]]",                       // another GPU's
                           "[0,0,0,5,[[0,2]]]", "[0,0,0,5,[]]",       // which it uses
                           "[0,0,0,5,[[0,0]]],[0,0,0,5,[[0,0]]]"}) {  // twice
    ranks = text;
    EXPECT_FALSE(IsRead()) << text;
  }
}

TEST_F(NonsenseTest, OfAll) {
  for (const char* text : {"", "[]", "{", "{}", "null"}) EXPECT_FALSE(ParseStepRecord(text).ok());
  head = R"({"version":2,"cluster":"x","hosts":1,"gpus":2,"sms":4,"memory_bytes_per_s":1e9,)";
  EXPECT_FALSE(IsRead());
}

}  // namespace
}  // namespace phantora
