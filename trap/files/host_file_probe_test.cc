#include "trap/files/host_file_probe.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace phantora {
namespace {

constexpr std::chrono::milliseconds kShort(20);

// Looks that do not come back until they are let go.
class Gate {
 public:
  void Wait() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
    --waiting_;
    changed_.notify_all();
  }
  void Open() {
    std::unique_lock lock(mutex_);
    open_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return waiting_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  int waiting_ = 0;
};

TEST(HostFileProbeTest, LooksBelowTheCallersRoot) {
  std::vector<std::string> looked_at;
  HostFileProbe probe([&](const std::string& path) {
    looked_at.push_back(path);
    return path.find("yes") != std::string::npos;
  });
  EXPECT_EQ(probe.IsReadable(12, "/lib/yes"), true);
  EXPECT_EQ(probe.IsReadable(12, "/lib/no"), false);
  EXPECT_EQ(looked_at, (std::vector<std::string>{"/proc/12/root/lib/yes", "/proc/12/root/lib/no"}));
}

TEST(HostFileProbeTest, AsksTheRealFileSystem) {
  HostFileProbe probe;
  EXPECT_EQ(probe.IsReadable(getpid(), "/proc/self/status"), true);
  EXPECT_EQ(probe.IsReadable(getpid(), "/nonexistent"), false);
}

TEST(HostFileProbeTest, ALookThatHangsIsLeftBehind) {
  auto gate = std::make_shared<Gate>();
  HostFileProbe probe(
      [gate](const std::string& path) {
        if (path.find("hangs") != std::string::npos) gate->Wait();
        return true;
      },
      kShort);
  EXPECT_EQ(probe.IsReadable(1, "/hangs"), std::nullopt);
  EXPECT_EQ(probe.hanging(), 1);
  gate->Open();
}

TEST(HostFileProbeTest, NoLookIsMadeWhenManyHang) {
  auto gate = std::make_shared<Gate>();
  std::atomic<int> looks = 0;
  HostFileProbe probe(
      [gate, &looks](const std::string&) {
        ++looks;
        gate->Wait();
        return true;
      },
      kShort);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(probe.IsReadable(1, "/hangs"), std::nullopt);
  EXPECT_EQ(probe.hanging(), 8);
  EXPECT_EQ(probe.IsReadable(1, "/hangs"), std::nullopt);
  EXPECT_EQ(looks, 8);
  gate->Open();
}

}  // namespace
}  // namespace phantora
