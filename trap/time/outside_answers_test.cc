#include "trap/time/outside_answers.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trap/linux/fake_real_clock.h"
#include "trap/linux/unique_fd.h"

namespace phantora {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kForEver = 1'000 * kSecond;
constexpr ino_t kOne = 11, kOther = 12;

class OutsideAnswersTest : public ::testing::Test {
 protected:
  void Pass(int64_t nanoseconds) { clock_.Sleep(nanoseconds); }
  bool Awaited(int64_t patience = kForEver) { return answers_.Awaited({kOne}, 0, patience); }

  FakeRealClock clock_;
  OutsideAnswers answers_{&clock_};
};

TEST_F(OutsideAnswersTest, ADatagramIsAwaitedUntilItIsAnswered) {
  EXPECT_TRUE(answers_.empty());
  EXPECT_FALSE(Awaited());
  answers_.Asked(kOne, 2, false);
  EXPECT_FALSE(answers_.empty());
  EXPECT_TRUE(Awaited());
  EXPECT_FALSE(answers_.Awaited({kOther}, 0, kForEver));
  EXPECT_TRUE(answers_.Awaited({kOther, kOne}, 0, kForEver));
  answers_.Answered(kOne, false);
  EXPECT_TRUE(Awaited()) << "two were sent";
  answers_.Answered(kOne, false);
  EXPECT_FALSE(Awaited());
  EXPECT_TRUE(answers_.empty());
  answers_.Answered(kOne, false);  // nobody has asked
  EXPECT_TRUE(answers_.empty());
}

TEST_F(OutsideAnswersTest, NoLongerThanTheOneWhoWaitsWouldIn) {
  answers_.Asked(kOne, 1, false);
  Pass(2 * kSecond);
  EXPECT_TRUE(Awaited(3 * kSecond));
  EXPECT_FALSE(Awaited(2 * kSecond));
  EXPECT_TRUE(Awaited(3 * kSecond)) << "another one may wait for it still";
}

TEST_F(OutsideAnswersTest, WhoDoesNotAnswerIsGivenUp) {
  answers_.Asked(kOne, 1, false);
  Pass(OutsideAnswers::kLongestNs - 1);
  EXPECT_TRUE(Awaited());
  EXPECT_EQ(answers_.given_up(), 0u);
  Pass(1);
  EXPECT_FALSE(Awaited());
  EXPECT_TRUE(answers_.empty());
  EXPECT_EQ(answers_.given_up(), 1u);
}

TEST_F(OutsideAnswersTest, AStreamMayGoOnForASecond) {
  answers_.Asked(kOne, 1, true);
  answers_.Asked(kOne, 1, true);
  for (int part = 0; part < 3; ++part) {
    Pass(OutsideAnswers::kNextPartNs - 1);
    EXPECT_TRUE(Awaited());
    answers_.Answered(kOne, true);
  }
  Pass(OutsideAnswers::kNextPartNs);
  EXPECT_FALSE(Awaited());
  EXPECT_EQ(answers_.given_up(), 0u) << "it has answered";
}

TEST_F(OutsideAnswersTest, WhoConnectsIsAwaitedUntilHeGoesOn) {
  answers_.Connects(kOne, 7, 8, false);
  EXPECT_TRUE(Awaited()) << "by one who polls for it";
  EXPECT_FALSE(answers_.AnyConnects());
  answers_.Connects(kOther, 7, 9, true);
  EXPECT_TRUE(answers_.AnyConnects());
  answers_.GoesOn(8);
  EXPECT_TRUE(answers_.AnyConnects());
  answers_.GoesOn(9);
  EXPECT_FALSE(answers_.AnyConnects());
  answers_.Connects(kOther, 7, 9, true);
  answers_.ProcessDied(6);
  EXPECT_TRUE(answers_.AnyConnects());
  answers_.ProcessDied(7);
  EXPECT_FALSE(answers_.AnyConnects());
  answers_.Connects(kOther, 7, 9, true);
  Pass(OutsideAnswers::kLongestNs);
  EXPECT_FALSE(answers_.AnyConnects());
}

TEST_F(OutsideAnswersTest, SocketsAreFoundAmongFilesAndInEpoll) {
  const UniqueFd asked(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const UniqueFd silent(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  struct stat status {};
  ASSERT_EQ(fstat(asked.get(), &status), 0);
  const UniqueFd set(epoll_create1(EPOLL_CLOEXEC)), other(epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{.events = EPOLLIN, .data = {}};
  ASSERT_EQ(epoll_ctl(set.get(), EPOLL_CTL_ADD, silent.get(), &event), 0);
  ASSERT_EQ(epoll_ctl(set.get(), EPOLL_CTL_ADD, asked.get(), &event), 0);
  ASSERT_EQ(epoll_ctl(other.get(), EPOLL_CTL_ADD, silent.get(), &event), 0);
  const std::vector<ino_t> one = {status.st_ino}, none;
  EXPECT_EQ(answers_.AskedAmong({asked.get(), set.get()}), none);
  answers_.Asked(status.st_ino, 1, false);
  EXPECT_EQ(answers_.AskedAmong({silent.get(), asked.get()}), one);
  EXPECT_EQ(answers_.AskedAmong({silent.get(), set.get()}), one);
  EXPECT_EQ(answers_.AskedAmong({other.get(), -1, STDIN_FILENO}), none);
}

}  // namespace
}  // namespace phantora
