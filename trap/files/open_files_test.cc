#include "trap/files/open_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace phantora {
namespace {

class Device : public DeviceFile {
 public:
  explicit Device(bool* destroyed) : destroyed_(destroyed) {}
  ~Device() override { *destroyed_ = true; }
  std::string name() const override { return "test"; }
  int Ioctl(CallContext&, uint32_t, RemoteAddress) override { return 0; }

 private:
  bool* destroyed_;
};

class OpenFilesTest : public testing::Test {
 protected:
  // Serves one close, if there is one.
  void Poll() {
    epoll_event event;
    if (epoll_wait(epoll_.get(), &event, 1, 0) == 1) {
      files_.HungUp(event.data.fd, [this](pid_t process) { return process == ending_; });
    }
  }

  UniqueFd epoll_{epoll_create1(EPOLL_CLOEXEC)};
  OpenFiles files_{epoll_.get()};
  bool destroyed_ = false;
  pid_t ending_ = 0;
};

TEST_F(OpenFilesTest, AFileIsFoundThroughDupsAndOtherProcesses) {
  auto file = files_.Add(std::make_shared<Device>(&destroyed_), getpid());
  ASSERT_TRUE(file.ok());
  const UniqueFd copy(dup(file->get()));
  EXPECT_NE(files_.Find(getpid(), file->get()), nullptr);
  EXPECT_EQ(files_.Find(getpid(), copy.get()), files_.Find(getpid(), file->get()));
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  EXPECT_NE(files_.Find(child, file->get()), nullptr);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(files_.Find(getpid(), epoll_.get()), nullptr);
  EXPECT_EQ(files_.Find(getpid(), 9999), nullptr);
}

TEST_F(OpenFilesTest, TheLastCloseAnywhereEndsTheDevice) {
  auto file = files_.Add(std::make_shared<Device>(&destroyed_), getpid());
  ASSERT_TRUE(file.ok());
  const pid_t child = fork();  // holds a copy
  if (child == 0) {
    pause();
    _exit(0);
  }
  file->reset();
  Poll();
  EXPECT_FALSE(destroyed_);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  Poll();
  EXPECT_TRUE(destroyed_);
  EXPECT_EQ(files_.size(), 0u);
}

TEST_F(OpenFilesTest, WhatAnEndingProcessHadEndsWithIt) {
  auto file = files_.Add(std::make_shared<Device>(&destroyed_), getpid());
  ASSERT_TRUE(file.ok());
  ending_ = getpid();
  file->reset();
  Poll();
  EXPECT_FALSE(destroyed_);
  epoll_event event;
  EXPECT_EQ(epoll_wait(epoll_.get(), &event, 1, 0), 0) << "it is told once";
  files_.OwnerDied(getpid()).clear();
  EXPECT_TRUE(destroyed_);
  EXPECT_EQ(files_.size(), 0u);
}

TEST_F(OpenFilesTest, PipesOfTheProgramsAreNone) {
  const auto file = files_.Add(std::make_shared<Device>(&destroyed_), getpid());
  ASSERT_TRUE(file.ok());
  int own[2];
  ASSERT_EQ(pipe(own), 0);
  for (const int end : own) {
    EXPECT_EQ(files_.Find(getpid(), end), nullptr);
    close(end);
  }
}

TEST_F(OpenFilesTest, ADeviceIsNeverReadable) {
  auto file = files_.Add(std::make_shared<Device>(&destroyed_), getpid());
  ASSERT_TRUE(file.ok());
  char byte;
  fcntl(file->get(), F_SETFL, O_NONBLOCK);
  EXPECT_LT(read(file->get(), &byte, 1), 0);
}

}  // namespace
}  // namespace phantora
