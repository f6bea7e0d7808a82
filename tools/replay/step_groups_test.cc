#include "tools/replay/step_groups.h"

#include <gtest/gtest.h>

namespace phantora {
namespace {

using Places = std::vector<GpuPlace>;

TEST(GroupsLike, AllGpusGrow) {
  const auto groups = GroupsLike(Places{{0, 0}, {0, 1}}, 2, 1, 3);
  ASSERT_TRUE(groups.ok());
  ASSERT_EQ(groups->size(), 1u);
  EXPECT_EQ((*groups)[0], (Places{{0, 0}, {0, 1}, {1, 0}, {1, 1}, {2, 0}, {2, 1}}));
}

TEST(GroupsLike, OneWithinAHostStaysThere) {
  const auto groups = GroupsLike(Places{{0, 0}, {0, 1}}, 4, 2, 2);
  ASSERT_TRUE(groups.ok());
  EXPECT_EQ(*groups, (std::vector<Places>{
                         {{0, 0}, {0, 1}}, {{1, 0}, {1, 1}}, {{0, 2}, {0, 3}}, {{1, 2}, {1, 3}}}));
}

TEST(GroupsLike, StridedOnesFillTheHost) {
  const auto groups = GroupsLike(Places{{0, 0}, {0, 2}}, 4, 1, 1);
  ASSERT_TRUE(groups.ok());
  EXPECT_EQ(*groups, (std::vector<Places>{{{0, 0}, {0, 2}}, {{0, 1}, {0, 3}}}));
}

TEST(GroupsLike, OneGpuOfEveryHostGrows) {
  const auto groups = GroupsLike(Places{{0, 1}, {1, 1}}, 2, 2, 3);
  ASSERT_TRUE(groups.ok());
  EXPECT_EQ(*groups, (std::vector<Places>{{{0, 1}, {1, 1}, {2, 1}}, {{0, 0}, {1, 0}, {2, 0}}}));
}

TEST(GroupsLike, TheSameSizeKeepsTheOrder) {
  const Places places = {{1, 0}, {0, 0}, {1, 1}, {0, 1}};
  const auto groups = GroupsLike(places, 2, 2, 2);
  ASSERT_TRUE(groups.ok());
  EXPECT_EQ(*groups, (std::vector<Places>{places}));
}

TEST(GroupsLike, PartsOfTheHostsAreRefused) {
  EXPECT_FALSE(GroupsLike(Places{{0, 0}, {1, 0}}, 2, 4, 8).ok());
  EXPECT_FALSE(GroupsLike(Places{{0, 0}, {1, 1}}, 2, 2, 4).ok());
  EXPECT_FALSE(GroupsLike(Places{{0, 0}, {0, 0}}, 2, 1, 4).ok());
  EXPECT_FALSE(GroupsLike(Places{}, 2, 1, 4).ok());
}

}  // namespace
}  // namespace phantora
