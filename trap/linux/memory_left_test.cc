#include "trap/linux/memory_left.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace phantora {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

class MemoryLeftTest : public testing::Test {
 protected:
  MemoryLeftTest() {
    Write("meminfo", "MemTotal:       16777216 kB\nMemFree: 1 kB\nMemAvailable:    8388608 kB\n");
    Write("groups", "");
  }
  void Write(const std::string& name, const std::string& text) {
    const auto path = std::filesystem::path(root_) / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  void Group(const std::string& name, const std::string& limit, uint64_t used,
             uint64_t inactive = 0) {
    Write("mount" + name + "/memory.max", limit + "\n");
    Write("mount" + name + "/memory.current", std::to_string(used) + "\n");
    Write("mount" + name + "/memory.stat",
          "anon 1\nfile 2\ninactive_file " + std::to_string(inactive) + "\n");
  }
  MemoryLeft Left() const {
    return ReadMemoryLeft({root_ + "/meminfo", root_ + "/groups", root_ + "/mount"});
  }

  const std::string root_ =
      testing::TempDir() + "/" + testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(MemoryLeftTest, WithoutGroupsItIsTheMachines) {
  EXPECT_EQ(Left().total, 16 * kGiB);
  EXPECT_EQ(Left().available, 8 * kGiB);
  EXPECT_FALSE(Left().by_group);
}

TEST_F(MemoryLeftTest, TheNarrowestOfAllGroupsCounts) {
  Write("groups", "0::/user.slice/job.scope\n");
  Group("/user.slice/job.scope", "max", kGiB);
  Group("/user.slice", std::to_string(4 * kGiB), 2 * kGiB, kGiB / 2);
  MemoryLeft left = Left();
  EXPECT_EQ(left.total, 4 * kGiB);
  EXPECT_EQ(left.available, 5 * kGiB / 2);  // caches that can be dropped are left
  EXPECT_TRUE(left.by_group);
  Group("/user.slice/job.scope", std::to_string(3 * kGiB), 3 * kGiB);
  left = Left();
  EXPECT_EQ(left.available, 0u);
  EXPECT_EQ(left.total, 3 * kGiB);
}

TEST_F(MemoryLeftTest, InAContainerTheMountIsTheGroup) {
  Write("groups", "0::/\n");
  Group("", std::to_string(2 * kGiB), kGiB);
  EXPECT_EQ(Left().available, kGiB);
  // Also with a path that is the host's.
  Write("groups", "0::/docker/abc\n");
  EXPECT_EQ(Left().available, kGiB);
  Write("groups", "0::/../../elsewhere\n");
  EXPECT_FALSE(Left().by_group);
}

TEST_F(MemoryLeftTest, KnowsTheFirstVersion) {
  Write("groups", "5:cpu,cpuacct:/a\n4:hugetlb,memory:/slurm/job\nbroken\n");
  Write("mount/memory/slurm/job/memory.limit_in_bytes", std::to_string(6 * kGiB));
  Write("mount/memory/slurm/job/memory.usage_in_bytes", std::to_string(5 * kGiB));
  Write("mount/memory/slurm/job/memory.stat", "total_inactive_file 0\n");
  Write("mount/memory/memory.limit_in_bytes", "9223372036854771712\n");
  Write("mount/memory/memory.usage_in_bytes", "1\n");
  EXPECT_EQ(Left().available, kGiB);
  EXPECT_EQ(Left().total, 6 * kGiB);
}

TEST_F(MemoryLeftTest, NothingToReadIsZero) {
  const MemoryLeft left = ReadMemoryLeft({root_ + "/no", root_ + "/no", root_ + "/no"});
  EXPECT_EQ(left.total, 0u);
  EXPECT_EQ(left.available, 0u);
}

}  // namespace
}  // namespace phantora
