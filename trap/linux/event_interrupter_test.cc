#include "trap/linux/event_interrupter.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <thread>

namespace phantora {
namespace {

class EventInterrupterTest : public testing::Test {
 protected:
  EventInterrupterTest() {
    epoll_event event{.events = EPOLLIN, .data = {}};
    EXPECT_EQ(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, event_.get(), &event), 0);
    EXPECT_EQ(pipe(ends_), 0);
  }
  ~EventInterrupterTest() override {
    close(ends_[0]);
    close(ends_[1]);
  }
  void Raise() { eventfd_write(event_.get(), 1); }
  // As the thread that serves does: for ever, unless it is interrupted.
  int Wait() {
    EventInterrupter::Interruptible interruptible;
    char byte;
    return read(ends_[0], &byte, 1) < 0 ? errno : 0;
  }

  const UniqueFd epoll_{epoll_create1(EPOLL_CLOEXEC)}, event_{eventfd(0, EFD_CLOEXEC)};
  int ends_[2];
};

TEST_F(EventInterrupterTest, AnEventEndsTheWait) {
  EventInterrupter interrupter(epoll_.get());
  EXPECT_FALSE(interrupter.raised());
  std::thread other([this] { Raise(); });
  EXPECT_EQ(Wait(), EINTR);
  EXPECT_TRUE(interrupter.raised());
  other.join();
}

TEST_F(EventInterrupterTest, AlsoOneThatWasThereBefore) {
  Raise();
  EventInterrupter interrupter(epoll_.get());
  EXPECT_EQ(Wait(), EINTR);
  // Until it has been handled, every wait ends.
  EXPECT_EQ(Wait(), EINTR);
}

TEST_F(EventInterrupterTest, OnceItIsHandledWaitsLastAgain) {
  EventInterrupter interrupter(epoll_.get());
  for (int i = 0; i < 100; ++i) {
    Raise();
    EXPECT_EQ(Wait(), EINTR);
    eventfd_t value;
    eventfd_read(event_.get(), &value);
    interrupter.Handled();
    // Perhaps it was on its way still, once.
    ASSERT_EQ(write(ends_[1], "x", 1), 1);
    int waits = 0;
    while (Wait() == EINTR) ++waits;
    EXPECT_LE(waits, 2);
  }
}

TEST_F(EventInterrupterTest, CallsOutsideAreNotInterrupted) {
  EventInterrupter interrupter(epoll_.get());
  Raise();
  while (!interrupter.raised()) std::this_thread::yield();
  pollfd nothing{ends_[0], POLLIN, 0};
  for (int i = 0; i < 20; ++i) EXPECT_EQ(poll(&nothing, 1, 5), 0);
}

}  // namespace
}  // namespace phantora
