#include "trap/launch/device_wall.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <mqueue.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>

namespace phantora {
namespace {

// A folder with files that may be opened and others that may not.
class DeviceWallTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    folder_ = std::filesystem::canonical(testing::TempDir()).string() + "/" + name;
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_ + "/dev/closed");
    std::filesystem::create_directories(folder_ + "/other");
    for (const char* file : {"/dev/node", "/dev/null", "/dev/closed/inside", "/other/file"}) {
      std::ofstream(folder_ + file) << "text";
    }
    std::filesystem::create_symlink(folder_ + "/dev/node", folder_ + "/other/link");
    auto wall = DeviceWall::Build({folder_ + "/dev/node", folder_ + "/dev/closed"});
    if (absl::IsUnimplemented(wall.status())) GTEST_SKIP() << wall.status();
    ASSERT_TRUE(wall.ok()) << wall.status();
    wall_.emplace(*std::move(wall));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // What `act` returns in a process behind the wall; below 256.
  int Inside(const std::function<int()>& act) {
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
      if (wall_->Enter() != 0) _exit(255);
      _exit(act());
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 254;
  }
  // 0, or the error number of an open.
  int Open(const std::string& path, int flags = O_RDONLY) {
    return Inside([&] { return open((folder_ + path).c_str(), flags, 0600) >= 0 ? 0 : errno; });
  }

  std::string folder_;
  std::optional<DeviceWall> wall_;
};

TEST_F(DeviceWallTest, ClosedFilesCannotBeOpenedByAnyName) {
  EXPECT_EQ(Open("/dev/node"), EACCES);
  EXPECT_EQ(Open("/dev/node", O_RDWR), EACCES);
  EXPECT_EQ(Open("/other/link"), EACCES);
  EXPECT_EQ(Open("/other/../dev/node"), EACCES);
  EXPECT_EQ(Open("/dev/closed/inside"), EACCES);
  EXPECT_EQ(
      Inside([this] {
        return open(("/proc/self/root" + folder_ + "/dev/node").c_str(), O_RDONLY) >= 0 ? 0 : errno;
      }),
      EACCES);
}

TEST_F(DeviceWallTest, EverythingElseCan) {
  EXPECT_EQ(Open("/dev/null", O_RDWR), 0);
  EXPECT_EQ(Open("/other/file", O_RDWR), 0);
  EXPECT_EQ(Open("/other/new", O_RDWR | O_CREAT), 0);
  EXPECT_EQ(Inside([] { return open("/dev/null", O_RDWR) >= 0 ? 0 : errno; }), 0);
  EXPECT_EQ(Inside([] { return open("/proc/self/status", O_RDONLY) >= 0 ? 0 : errno; }), 0);
  EXPECT_EQ(Inside([] { return system("true") == 0 ? 0 : 1; }), 0);
}

TEST_F(DeviceWallTest, AReferenceOpenedWithoutReadingIsNoWayIn) {
  EXPECT_EQ(Inside([this] {
              const int path = open((folder_ + "/dev/node").c_str(), O_PATH);
              if (path < 0) return errno;
              const std::string again = "/proc/self/fd/" + std::to_string(path);
              return open(again.c_str(), O_RDONLY) >= 0 ? 0 : errno;
            }),
            EACCES);
}

TEST_F(DeviceWallTest, ClosedFilesAreNotMovedOrLinkedAway) {
  EXPECT_EQ(Inside([this] {
              const std::string from = folder_ + "/dev/node", to = folder_ + "/other/moved";
              if (link(from.c_str(), to.c_str()) != 0 && rename(from.c_str(), to.c_str()) != 0) {
                return EACCES;
              }
              return open(to.c_str(), O_RDONLY) >= 0 ? 0 : errno;
            }),
            EACCES);
}

TEST_F(DeviceWallTest, FilesAreMovedBetweenOpenDirectories) {
  std::filesystem::create_directories(folder_ + "/other/deep");
  EXPECT_EQ(Inside([this] {
              return rename((folder_ + "/other/file").c_str(),
                            (folder_ + "/other/deep/file").c_str()) == 0
                         ? 0
                         : errno;
            }),
            0);
}

TEST_F(DeviceWallTest, NoDeviceNodeIsMade) {
  EXPECT_NE(Inside([this] {
              const std::string node = folder_ + "/other/device";
              return mknod(node.c_str(), S_IFCHR | 0600, makedev(1, 3)) == 0 ? 0 : errno;
            }),
            0);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/other/device"));
}

TEST_F(DeviceWallTest, NobodyInsideTracesOrSignalsOneOutside) {
  const pid_t outside = fork();
  if (outside == 0) {
    pause();
    _exit(0);
  }
  EXPECT_EQ(Inside([outside] { return ptrace(PTRACE_SEIZE, outside, 0, 0) == 0 ? 0 : errno; }),
            EPERM);
  if (wall_->keeps_signals()) {
    EXPECT_EQ(Inside([outside] { return kill(outside, SIGTERM) == 0 ? 0 : errno; }), EPERM);
  }
  EXPECT_EQ(kill(outside, 0), 0);
  kill(outside, SIGKILL);
  waitpid(outside, nullptr, 0);
}

TEST_F(DeviceWallTest, WithNothingClosedAllMayBeOpened) {
  auto wall = DeviceWall::Build({});
  ASSERT_TRUE(wall.ok());
  wall_.emplace(*std::move(wall));
  EXPECT_EQ(Open("/dev/node", O_RDWR), 0);
  EXPECT_EQ(Inside([] {
              const mqd_t queue = mq_open("/phantora-wall", O_RDWR | O_CREAT, 0600, nullptr);
              if (queue == -1) return errno == ENOSYS ? 0 : errno;
              mq_unlink("/phantora-wall");
              return 0;
            }),
            0);
}

TEST(RealDevicesTest, AreThereAndNvidias) {
  for (const std::string& device : DeviceWall::RealDevices()) {
    EXPECT_TRUE(std::filesystem::exists(device)) << device;
    EXPECT_TRUE(device.rfind("/dev/", 0) == 0 || device.rfind("/sys/", 0) == 0) << device;
  }
}

}  // namespace
}  // namespace phantora
