#include "trap/rm/os_events.h"

#include <gtest/gtest.h>
#include <poll.h>

#include "clock/time_source.h"
#include "trap/abi/generated/escapes.h"
#include "trap/abi/generated/rm_classes.h"

namespace phantora {
namespace {

constexpr pid_t kProcess = 100;
constexpr uint32_t kIndex = abi::NV2080_NOTIFIERS_GRAPHICS | abi::NV01_EVENT_NONSTALL_INTR;
constexpr VirtualSpan kLong = VirtualSpan::Microseconds(1'000'000);

class OsEventsTest : public ::testing::Test {
 protected:
  explicit OsEventsTest(bool polls_are_seen = true) : events_(&clock_, polls_are_seen) {
    descriptor_ = std::make_shared<EventDescriptor>();
    read_end_ = descriptor_->TakeReadEnd();
    registration_ = events_.Register(0, kProcess, kIndex, descriptor_);
  }
  void Raise() { events_.NonStall(0, kProcess, abi::NV2080_ENGINE_TYPE_GR0); }
  // As the kernel has it for a program.
  bool IsReadable() const {
    pollfd poll = {read_end_.get(), POLLIN, 0};
    return ::poll(&poll, 1, 0) == 1;
  }
  void Pass() {
    clock_.Advance(kLong);
    events_.Drain();
  }

  ManualTimeSource clock_;
  OsEvents events_;
  std::shared_ptr<EventDescriptor> descriptor_;
  UniqueFd read_end_;
  std::shared_ptr<OsEvents::Registration> registration_;
};

TEST_F(OsEventsTest, AnEventStaysUntilAPollHasToldOfIt) {
  EXPECT_FALSE(events_.is_raised());
  Raise();
  EXPECT_TRUE(events_.is_raised());
  Pass();
  EXPECT_TRUE(IsReadable()) << "however long that takes";
  events_.Seen(descriptor_->inode() + 1, false);
  EXPECT_TRUE(IsReadable()) << "that was another one";
  events_.Seen(descriptor_->inode(), false);
  EXPECT_FALSE(IsReadable());
  EXPECT_FALSE(events_.is_raised());
  Raise();
  EXPECT_TRUE(IsReadable()) << "once for each";
}

TEST_F(OsEventsTest, WhatTheKernelIsToLookAtStaysForAWhile) {
  Raise();
  events_.Seen(descriptor_->inode(), true);
  EXPECT_TRUE(events_.Drain());
  EXPECT_TRUE(IsReadable());
  Pass();
  EXPECT_FALSE(IsReadable());
  Raise();
  events_.Seen(descriptor_->inode(), true);
  Raise();
  Pass();
  EXPECT_TRUE(IsReadable()) << "another one has come, which nobody has seen";
}

TEST_F(OsEventsTest, WhatIsPolledUnseenStaysForAWhile) {
  events_.PollsUnseen(kProcess + 1, descriptor_->inode());
  events_.PollsUnseen(kProcess, descriptor_->inode() + 1);
  Raise();
  Pass();
  EXPECT_TRUE(IsReadable());
  events_.PollsUnseen(kProcess, descriptor_->inode());
  Pass();
  EXPECT_FALSE(IsReadable());
}

TEST_F(OsEventsTest, AllPollsOfAProcessCanBeUnseen) {
  events_.PollsUnseen(kProcess + 1);
  Raise();
  Pass();
  EXPECT_TRUE(IsReadable());
  events_.PollsUnseen(kProcess);
  Pass();
  EXPECT_FALSE(IsReadable());
  descriptor_ = std::make_shared<EventDescriptor>();
  read_end_ = descriptor_->TakeReadEnd();
  registration_ = events_.Register(0, kProcess, kIndex, descriptor_);
  Raise();
  Pass();
  EXPECT_FALSE(IsReadable()) << "one that was registered later";
}

TEST_F(OsEventsTest, OneThatIsClosedIsForgotten) {
  Raise();
  registration_ = nullptr;
  descriptor_ = nullptr;
  EXPECT_FALSE(events_.Drain());
  EXPECT_FALSE(events_.is_raised());
}

class UnseenPollsTest : public OsEventsTest {
 protected:
  UnseenPollsTest() : OsEventsTest(false) {}
};

TEST_F(UnseenPollsTest, AnEventStaysForAWhile) {
  Raise();
  EXPECT_TRUE(events_.Drain());
  EXPECT_TRUE(IsReadable());
  Pass();
  EXPECT_FALSE(IsReadable());
  Raise();
  events_.Seen(descriptor_->inode(), false);
  EXPECT_FALSE(IsReadable()) << "a poll that is held is seen";
}

}  // namespace
}  // namespace phantora
