#include "tools/replay/rank_axes.h"

#include <gtest/gtest.h>

#include "tools/replay/run_for_test.h"

namespace phantora {
namespace {

TEST(RankAxesTest, RanksAreCoordinates) {
  const RankAxes axes({{"tp", 2}, {"dp", 3}, {"pp", 4}});
  EXPECT_EQ(axes.ranks(), 24);
  EXPECT_EQ(axes.CoordinatesOf(0), (std::vector<int>{0, 0, 0}));
  EXPECT_EQ(axes.CoordinatesOf(11), (std::vector<int>{1, 2, 1}));
  for (int rank = 0; rank < 24; ++rank) EXPECT_EQ(axes.RankOf(axes.CoordinatesOf(rank)), rank);
  EXPECT_EQ(axes.Find("pp"), 2);
  EXPECT_EQ(axes.Find("ep"), -1);
  EXPECT_EQ(axes.Text(), "tp=2,dp=3,pp=4");
}

// Sizes alone: "2,2,2".
std::string SizesOf(const StepRecord& record) {
  const auto axes = FindAxes(record);
  if (!axes.ok()) return std::string(axes.status().message());
  std::string sizes;
  for (const RankAxis& axis : axes->all())
    sizes += (sizes.empty() ? "" : ",") + std::to_string(axis.size);
  return sizes;
}

TEST(RankAxesTest, AreFoundFromCommunicators) {
  RunForTest world(8);
  EXPECT_EQ(SizesOf(world.record), "8") << "nobody has one";
  world.Communicators(1, 8);
  EXPECT_EQ(SizesOf(world.record), "8");

  RunForTest cube(8);
  for (const int stride : {1, 2, 4}) cube.Communicators(stride, 2);
  cube.Communicators(1, 8);
  EXPECT_EQ(SizesOf(cube.record), "2,2,2");

  RunForTest replicas(32);
  replicas.Communicators(1, 8);
  replicas.Communicators(8, 4);
  EXPECT_EQ(SizesOf(replicas.record), "8,4");

  // Two axes at once.
  RunForTest fused(16);
  fused.Communicators(1, 4);
  fused.Communicator({0, 1, 8, 9});
  EXPECT_EQ(SizesOf(fused.record), "2,2,2,2");
}

TEST(RankAxesTest, NeighboursOfAPipelineAreNoAxisOfTwo) {
  RunForTest pipeline(16);
  pipeline.Communicators(1, 2);
  for (int rank = 0; rank < 12; ++rank) pipeline.Communicator({rank, rank + 4});
  // The first and the last, which share an embedding.
  pipeline.Communicator({0, 12});
  pipeline.Communicators(2, 2);
  EXPECT_EQ(SizesOf(pipeline.record), "2,2,4");
}

TEST(RankAxesTest, SomeFitToNone) {
  RunForTest odd(8);
  odd.Communicator({0, 1, 3});
  EXPECT_EQ(SizesOf(odd.record),
            "communicator 1 of 3 ranks has none that lie on axes: ranks 0, 1, 3");
  RunForTest across(12);
  across.Communicators(1, 4);
  across.Communicators(1, 6);
  EXPECT_EQ(SizesOf(across.record), "its communicators fit to no axes: their strides are 4, 6, 12");
  RunForTest unknown(4);
  unknown.Communicators(1, 4);
  unknown.record.ranks.pop_back();
  EXPECT_EQ(SizesOf(unknown.record),
            "communicator 1 has a rank, GPU 3 of host 0, that was not recorded");
}

// Tensor parallel ranks of a host, replicas, and two stages that do different things.
TEST(RankAxesTest, NamesComeFromWhatIsDone) {
  RunForTest run(8);
  for (const int stride : {1, 2, 4}) run.Communicators(stride, 2);
  run.record.roles.resize(2);
  for (size_t rank = 4; rank < 8; ++rank) run.record.ranks[rank].role = 1;
  const int tensor = run.AllReduce(0, 64), gradients = run.AllReduce(1, 1024);
  const int send = run.Operation(2, {EntryForTest(nccl::Operation::kSend, 64, 1)});
  const int receive = run.Operation(2, {EntryForTest(nccl::Operation::kReceive, 64, 1)});
  for (const size_t role : {0, 1}) {
    run.Add(role, 0, 0, {}, tensor);
    run.Add(role, 0, 0, {}, tensor);
    run.Add(role, 0, 0, {}, role == 0 ? send : receive);
    run.Add(role, 0, 0, {}, gradients);
  }
  EXPECT_EQ(FindAxes(run.record)->Text(), "tp=2,dp=2,pp=2");
  // The same in both: neighbours of a ring.
  for (auto& rank : run.record.ranks) rank.role = 0;
  EXPECT_EQ(FindAxes(run.record)->Text(), "tp=2,dp=2,cp=2");
  run.record.operations[static_cast<size_t>(send)].entries.push_back(
      EntryForTest(nccl::Operation::kSend, 64, 0));
  EXPECT_EQ(FindAxes(run.record)->Text(), "tp=2,dp=2,ep=2");
}

TEST(RankAxesTest, AreRead) {
  EXPECT_EQ(ParseAxes("tp=2,dp=4", 8)->Text(), "tp=2,dp=4");
  for (const char* text : {"", "tp", "tp=", "tp=2,tp=4", "tp=0,dp=8", "=8", "tp=-8", "tp=x"}) {
    EXPECT_FALSE(ParseAxes(text, 8).ok()) << text;
  }
  EXPECT_EQ(ParseAxes("tp=2,dp=2", 8).status().message(),
            "tp=2,dp=2 are 4 ranks, and 8 were recorded");
}

}  // namespace
}  // namespace phantora
