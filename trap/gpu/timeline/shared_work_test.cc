// Work of a GPU whose end others decide, as exact timelines.
#include "trap/gpu/timeline/shared_work.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "absl/strings/str_cat.h"
#include "profiles/kernels/code_fingerprint.h"
#include "trap/gpu/timeline/gpu_timelines_harness.h"

namespace phantora {
namespace {

// Parameters of the kernel that is shared work.
struct Parameters {
  uint32_t id = 0;     // by which the test knows it; 0: over at once
  uint32_t sms = 1;    // that it takes
  uint32_t wrong = 0;  // it makes no sense
  uint32_t unused = 0;
};

// The test says when which work ends.
class FakeSharedWork : public SharedWork {
 public:
  explicit FakeSharedWork(uint64_t fingerprint) : fingerprint_(fingerprint) {}

  size_t ParameterBytes(uint64_t fingerprint) const override {
    return fingerprint == fingerprint_ ? sizeof(Parameters) : 0;
  }
  Prepared Prepare(pid_t process, const std::shared_ptr<GpuContext>&,
                   absl::Span<const uint8_t> bytes) override {
    Parameters parameters;
    EXPECT_EQ(bytes.size(), sizeof parameters);
    std::memcpy(&parameters, bytes.data(), sizeof parameters);
    absl::StrAppend(&log, "prepare ", parameters.id, "\n");
    if (parameters.wrong != 0) return {.error = "wrong"};
    works_[parameters.id].process = process;
    return {.id = parameters.id, .sms = static_cast<double>(parameters.sms)};
  }
  void Start(uint64_t id, VirtualTime at) override {
    absl::StrAppend(&log, "start ", id, " at ", at.nanoseconds() / 1000, "\n");
    works_[id].started = true;
  }
  VirtualTime EndOf(uint64_t id) const override {
    EXPECT_TRUE(works_.at(id).started);
    return works_.at(id).end;
  }
  const char* NameOf(uint64_t) const override { return "shared"; }
  void Forget(uint64_t id) override {
    absl::StrAppend(&log, "forget ", id, "\n");
    EXPECT_EQ(works_.erase(id), 1u);
  }
  VirtualTime Now() const override { return now_; }
  VirtualTime NextEvent() override {
    return ends_.empty() ? VirtualTime::Infinity() : ends_.begin()->first;
  }
  void Advance(VirtualTime to) override {
    EXPECT_GE(to, now_);
    now_ = to;
    while (!ends_.empty() && ends_.begin()->first <= to) {
      Work& work = works_.at(ends_.begin()->second);
      work.end = ends_.begin()->first;
      changed_.push_back(work.process);
      ends_.erase(ends_.begin());
    }
  }
  std::vector<pid_t> TakeChanged() override { return std::exchange(changed_, {}); }

  // What has started will end then.
  void EndAt(uint64_t id, VirtualTime end) { ends_.emplace(end, id); }
  std::string log;

 private:
  struct Work {
    pid_t process = 0;
    bool started = false;
    VirtualTime end = VirtualTime::Infinity();
  };
  const uint64_t fingerprint_;
  std::map<uint64_t, Work> works_;
  std::multimap<VirtualTime, uint64_t> ends_;
  std::vector<pid_t> changed_;
  VirtualTime now_;
};

class SharedWorkTest : public GpuTimelinesTest {
 protected:
  // Addresses of its code, and of constants.
  static constexpr uint64_t kCode = kData + 0x8000, kConstants = kData + 0xa000;

  SharedWorkTest() {
    for (size_t i = 0; i < kPrefixBytes; ++i) code_[i] = static_cast<uint8_t>(i + 1);
    EXPECT_FALSE(context_->memory.Write(kCode, code_, sizeof code_));
    shared_ = std::make_unique<FakeSharedWork>(PrefixFingerprint(code_));
    services_.shared = shared_.get();
  }
  ~SharedWorkTest() override {
    for (const pid_t process : {kProcess, kOther}) timelines_.ProcessDied(process);
  }

  static uint64_t ParameterOffset() {
    Qmd qmd;
    qmd.major = 3;
    return qmd.parameter_offset();
  }
  // Launches shared work on the channel.
  void Share(Submitter& channel, const Parameters& parameters) {
    const uint64_t constants = kConstants + launches_ * 0x400;
    const uint64_t qmd = kData + 0x2000 + launches_++ * kQmdBytesBeforeHopper;
    EXPECT_FALSE(
        context_->memory.Write(constants + ParameterOffset(), &parameters, sizeof parameters));
    channel.Write(qmd, QmdBuilder(kCode, 1).Constants(constants, 0x400)).Load(qmd);
  }
  void Submit(pid_t process, int64_t from, int64_t to) {
    timelines_.Submit(process, At(from), At(to), VirtualSpan());
  }
  // All others have come to `to`.
  std::vector<pid_t> Passed(int64_t to) { return timelines_.Passed(At(to)); }
  VirtualTime Run(int64_t to, pid_t process = kProcess) {
    return timelines_.Advance(process, At(to), false).time;
  }

  uint8_t code_[kPrefixBytes];
  std::unique_ptr<FakeSharedWork> shared_;
  uint64_t launches_ = 0;
};

TEST_F(SharedWorkTest, ATimelineDoesNotRunAheadOfTheSharedTime) {
  Submitter one(*this, 1, kProcess);
  Share(one, {.id = 7});
  one.Copy(5).Submit();
  EXPECT_FALSE(timelines_.WaitsForOthers(kProcess));
  Submit(kProcess, 0, 20);  // enters at 10
  EXPECT_EQ(shared_->log, "prepare 7\nstart 7 at 10\n");
  EXPECT_TRUE(timelines_.WaitsForOthers(kProcess));
  EXPECT_EQ(timelines_.TimeOf(kProcess).Now(), At(10));
  EXPECT_EQ(timelines_.NextEvent(kProcess), VirtualTime::Infinity());
  EXPECT_EQ(Run(1000), At(10));
  EXPECT_TRUE(Passed(30).empty());
  EXPECT_EQ(Run(1000), At(30));
  EXPECT_EQ(Run(1000), At(30));
  EXPECT_EQ(timeline_.text, "");
}

TEST_F(SharedWorkTest, WhatDependsOnItStartsExactlyAtItsEnd) {
  Submitter one(*this, 1, kProcess);
  Share(one, {.id = 7});
  one.Copy(5).Semaphore(abi::host::kRelease, 0x100, 1).Submit();
  Submit(kProcess, 0, 0);
  shared_->EndAt(7, At(33));
  EXPECT_EQ(timelines_.NextSharedEvent(), At(33));
  EXPECT_TRUE(Passed(20).empty());
  EXPECT_EQ(Run(20), At(20));
  EXPECT_EQ(Passed(33), std::vector<pid_t>{kProcess});
  EXPECT_FALSE(timelines_.WaitsForOthers(kProcess));
  EXPECT_EQ(timelines_.NextSharedEvent(), VirtualTime::Infinity());
  EXPECT_LE(timelines_.NextEvent(kProcess), At(33));
  RunAll();
  EXPECT_EQ(timeline_.text, "ch1k 0-33 ch1 33-38 ");
  EXPECT_EQ(shared_->log, "prepare 7\nstart 7 at 0\nforget 7\n");
}

// The end may have passed before the timeline looks.
TEST_F(SharedWorkTest, TheTimelineMayBeBehind) {
  Submitter one(*this, 1, kProcess);
  Share(one, {.id = 7});
  one.Copy(5).Submit();
  Submit(kProcess, 0, 0);
  shared_->EndAt(7, At(33));
  Passed(500);
  RunAll();
  EXPECT_EQ(timeline_.text, "ch1k 0-33 ch1 33-38 ");
}

TEST_F(SharedWorkTest, OtherChannelsGoOnUpToTheSharedTime) {
  Submitter one(*this, 1, kProcess), two(*this, 2, kProcess);
  Share(one, {.id = 7});
  one.Submit();
  two.Copy(5).Copy(5).Copy(100).Kernel(3, 1).Submit();
  Submit(kProcess, 0, 0);
  EXPECT_EQ(timelines_.NextEvent(kProcess), At(5));
  EXPECT_EQ(Run(50), At(0));
  Passed(10);
  EXPECT_EQ(Run(50), At(10));
  EXPECT_EQ(timeline_.text, "ch2 0-5 ch2 5-10 ");
  shared_->EndAt(7, At(60));
  Passed(60);
  RunAll();
  EXPECT_EQ(timeline_.text, "ch2 0-5 ch2 5-10 ch1k 0-60 ch2 10-110 ch2k 110-113 ");
}

TEST_F(SharedWorkTest, SubmissionsMadeMeanwhileTakeEffectAtTheirOwnTimes) {
  Submitter one(*this, 1, kProcess), two(*this, 2, kProcess);
  Share(one, {.id = 7});
  one.Submit();
  Submit(kProcess, 0, 0);
  for (int i = 0; i < 3; ++i) two.Copy(1).Submit();
  const auto submitted = timelines_.Submit(kProcess, At(0), At(40), VirtualSpan());
  EXPECT_EQ(submitted.count, 3);
  EXPECT_EQ(submitted.now, At(40));
  EXPECT_FALSE(timelines_.HasSubmitted(kProcess));
  EXPECT_EQ(timelines_.QueuesOf(kProcess).hidden, 0u);
  EXPECT_EQ(timelines_.NextEvent(kProcess), At(10));
  EXPECT_EQ(timeline_.text, "");
  // Another one later still.
  one.Copy(2).Submit();
  EXPECT_TRUE(timelines_.HasSubmitted(kProcess));
  Submit(kProcess, 40, 60);
  Passed(20);
  Run(1000);
  EXPECT_EQ(timeline_.text, "ch2 10-11 ");
  EXPECT_EQ(timelines_.NextEvent(kProcess), At(20) + VirtualSpan::Microseconds(1));
  Passed(45);
  Run(1000);
  EXPECT_EQ(timeline_.text, "ch2 10-11 ch2 20-21 ch2 30-31 ");
  shared_->EndAt(7, At(47));
  Passed(47);
  RunAll();
  EXPECT_EQ(timeline_.text, "ch2 10-11 ch2 20-21 ch2 30-31 ch1k 0-47 ch1 50-52 ");
  EXPECT_EQ(timelines_.NextEvent(kProcess), VirtualTime::Infinity());
}

// What was submitted first takes effect first, also if the work ends in between.
TEST_F(SharedWorkTest, SubmissionsKeepTheirOrder) {
  Submitter one(*this, 1, kProcess);
  Share(one, {.id = 7});
  one.Submit();
  Submit(kProcess, 0, 0);
  one.Copy(1).Submit();
  Submit(kProcess, 0, 100);  // at 50
  shared_->EndAt(7, At(20));
  Passed(20);
  one.Copy(2).Submit();
  Submit(kProcess, 100, 120);  // at 110
  RunAll();
  EXPECT_EQ(timeline_.text, "ch1k 0-20 ch1 50-51 ch1 110-112 ");
}

TEST_F(SharedWorkTest, SharedWorkAfterSharedWork) {
  Submitter one(*this, 1, kProcess);
  Share(one, {.id = 1});
  one.Copy(4);
  Share(one, {.id = 2});
  one.Submit();
  Submit(kProcess, 0, 0);
  shared_->EndAt(1, At(10));
  Passed(10);
  EXPECT_EQ(timelines_.Advance(kProcess, VirtualTime::Infinity(), false).time, At(14));
  EXPECT_TRUE(timelines_.WaitsForOthers(kProcess));
  EXPECT_EQ(shared_->log, "prepare 1\nstart 1 at 0\nforget 1\nprepare 2\nstart 2 at 14\n");
  shared_->EndAt(2, At(40));
  Passed(40);
  RunAll();
  EXPECT_EQ(timeline_.text, "ch1k 0-10 ch1 10-14 ch1k 14-40 ");
}

TEST_F(SharedWorkTest, AnotherProcessGoesItsOwnWay) {
  Submitter one(*this, 1, kProcess), other(*this, 2, kOther);
  Share(one, {.id = 7});
  one.Submit();
  other.Copy(5).Kernel(10, kFull).Submit();
  Submit(kProcess, 0, 0);
  Submit(kOther, 0, 0);
  EXPECT_FALSE(timelines_.WaitsForOthers(kOther));
  RunAll(kOther);
  EXPECT_EQ(timeline_.text, "ch2 0-5 ch2k 5-15 ");
  EXPECT_EQ(Run(100), At(0));
}

TEST_F(SharedWorkTest, TwoProcessesEndTogether) {
  Submitter one(*this, 1, kProcess), other(*this, 2, kOther);
  Share(one, {.id = 1});
  one.Copy(1).Submit();
  Share(other, {.id = 2});
  other.Copy(2).Submit();
  Submit(kProcess, 0, 0);
  Submit(kOther, 0, 40);  // at 20
  shared_->EndAt(1, At(30));
  shared_->EndAt(2, At(30));
  EXPECT_EQ(Passed(30), (std::vector<pid_t>{kProcess, kOther}));
  RunAll(kProcess);
  RunAll(kOther);
  EXPECT_EQ(timeline_.text, "ch1k 0-30 ch1 30-31 ch2k 20-30 ch2 30-32 ");
}

TEST_F(SharedWorkTest, ItsSmsAreMissingToOthers) {
  Submitter one(*this, 1, kProcess), two(*this, 2, kProcess);
  Share(one, {.id = 7, .sms = kSmallGpu.sms / 2});
  one.Submit();
  Submit(kProcess, 0, 0);
  two.Kernel(10, kFull).Submit();
  Submit(kProcess, 0, 0);
  shared_->EndAt(7, At(8));
  Passed(8);
  RunAll();
  // At half of its speed until 8.
  EXPECT_EQ(timeline_.text, "ch1k 0-8 ch2k 0-14 ");
}

TEST_F(SharedWorkTest, ItWaitsForItsSms) {
  Submitter one(*this, 1, kProcess), two(*this, 2, kProcess);
  two.Kernel(10, kFull).Submit();
  Submit(kProcess, 0, 0);
  Share(one, {.id = 7});
  one.Submit();
  Submit(kProcess, 0, 0);
  EXPECT_EQ(shared_->log, "prepare 7\n");
  EXPECT_FALSE(timelines_.WaitsForOthers(kProcess));
  Run(5);
  EXPECT_EQ(shared_->log, "prepare 7\n");
  EXPECT_EQ(Run(100), At(10));
  EXPECT_EQ(shared_->log, "prepare 7\nstart 7 at 10\n");
  shared_->EndAt(7, At(12));
  Passed(12);
  RunAll();
  EXPECT_EQ(timeline_.text, "ch2k 0-10 ch1k 10-12 ");
}

TEST_F(SharedWorkTest, ItMayTakeMoreSmsThanThereAreOrNone) {
  Submitter one(*this, 1, kProcess), two(*this, 2, kProcess);
  Share(one, {.id = 1, .sms = 1000000});
  one.Submit();
  Submit(kProcess, 0, 0);
  Share(two, {.id = 2, .sms = 0});
  two.Submit();
  Submit(kProcess, 0, 0);
  EXPECT_EQ(shared_->log, "prepare 1\nstart 1 at 0\nprepare 2\n");
}

TEST_F(SharedWorkTest, WhatIsOverAtOnceWaitsForNobody) {
  Submitter one(*this, 1, kProcess);
  Share(one, {.id = 0});
  one.Copy(5).Submit();
  Submit(kProcess, 0, 0);
  EXPECT_FALSE(timelines_.WaitsForOthers(kProcess));
  RunAll();
  EXPECT_EQ(timeline_.text, "ch1 0-5 ");  // a part of other work is no kernel
  EXPECT_EQ(shared_->log, "prepare 0\n");
}

TEST_F(SharedWorkTest, WhatMakesNoSenseFailsTheChannel) {
  Submitter one(*this, 1, kProcess), two(*this, 2, kProcess);
  Share(one, {.id = 5, .wrong = 1});
  one.Submit();
  two.Copy(5).Submit();
  Submit(kProcess, 0, 0);
  EXPECT_EQ(sink_.errors, 1);
  RunAll();
  EXPECT_EQ(timeline_.text, "ch2 0-5 ");
}

TEST_F(SharedWorkTest, ParametersThatAreNotThereFailTheChannel) {
  Submitter one(*this, 1, kProcess);
  const uint64_t qmd = kData + 0x2000;
  one.Write(qmd, QmdBuilder(kCode, 1).Constants(0x7000000, 0x400)).Load(qmd).Submit();
  Submit(kProcess, 0, 0);
  EXPECT_EQ(sink_.errors, 1);
  EXPECT_EQ(shared_->log, "");
}

TEST_F(SharedWorkTest, AFailureGivesItUp) {
  Submitter one(*this, 1, kProcess), two(*this, 2, kProcess);
  Share(one, {.id = 7});
  one.Submit();
  Submit(kProcess, 0, 0);
  one.channel()->Fail(kMmuFault, {}, services_);
  EXPECT_EQ(shared_->log, "prepare 7\nstart 7 at 0\nforget 7\n");
  EXPECT_FALSE(timelines_.WaitsForOthers(kProcess));
  two.Copy(5).Submit();
  Submit(kProcess, 0, 0);
  RunAll();
  EXPECT_EQ(timeline_.text, "ch2 0-5 ");
}

TEST_F(SharedWorkTest, ARemovedChannelHoldsNobodyBack) {
  Submitter one(*this, 1, kProcess), two(*this, 2, kProcess);
  Share(one, {.id = 7});
  one.Submit();
  two.Copy(5).Submit();
  Submit(kProcess, 0, 0);
  one.Copy(1).Submit();
  two.Copy(3).Submit();
  Submit(kProcess, 0, 30);  // at 10 and 20
  timelines_.Remove(one.channel().get());
  one.Destroy();
  EXPECT_EQ(shared_->log, "prepare 7\nstart 7 at 0\nforget 7\n");
  EXPECT_FALSE(timelines_.WaitsForOthers(kProcess));
  RunAll();
  EXPECT_EQ(timeline_.text, "ch2 0-5 ch2 20-23 ");
}

TEST_F(SharedWorkTest, ADeadProcessIsForgotten) {
  {
    Submitter one(*this, 1, kProcess);
    Share(one, {.id = 7});
    one.Submit();
    Submit(kProcess, 0, 0);
    shared_->EndAt(8, At(10));
    timelines_.ProcessDied(kProcess);
  }
  EXPECT_EQ(shared_->log, "prepare 7\nstart 7 at 0\nforget 7\n");
  EXPECT_FALSE(timelines_.WaitsForOthers(kProcess));
}

// It ends with its communicator, before what led to it.
TEST_F(SharedWorkTest, WorkThatIsGivenUpLastsNoNegativeTime) {
  Submitter one(*this, 1, kProcess);
  Share(one, {.id = 7});
  one.Copy(1).Submit();
  Submit(kProcess, 0, 100);  // at 50
  shared_->EndAt(7, At(20));
  Passed(20);
  RunAll();
  EXPECT_EQ(timeline_.text, "ch1k 50-50 ch1 50-51 ");
}

// Time that the process has run is not lost: what it submits is not let in too early.
TEST_F(SharedWorkTest, ASubmissionThatFollowsTheEndIsNotEarly) {
  Submitter one(*this, 1, kProcess);
  Share(one, {.id = 7});
  one.Submit();
  Submit(kProcess, 0, 0);
  Submit(kProcess, 0, 100);
  shared_->EndAt(7, At(20));
  Passed(20);
  one.Copy(1).Submit();
  Submit(kProcess, 100, 120);  // at 110
  RunAll();
  EXPECT_EQ(timeline_.text, "ch1k 0-20 ch1 110-111 ");
}

TEST_F(SharedWorkTest, AStoppedWaiterSeesTheRelease) {
  Submitter one(*this, 1, kProcess);
  Share(one, {.id = 7});
  one.Semaphore(abi::host::kRelease, 0x100, 1).Submit();
  Submit(kProcess, 0, 0);
  auto progress = timelines_.Advance(kProcess, VirtualTime::Infinity(), true);
  EXPECT_FALSE(progress.released);
  shared_->EndAt(7, At(9));
  Passed(9);
  progress = timelines_.Advance(kProcess, VirtualTime::Infinity(), true);
  EXPECT_TRUE(progress.released);
  EXPECT_EQ(progress.time, At(9));
}

TEST_F(SharedWorkTest, WithoutSharedWorkNothingIsShared) {
  services_.shared = nullptr;
  EXPECT_EQ(timelines_.NextSharedEvent(), VirtualTime::Infinity());
  EXPECT_TRUE(timelines_.Passed(At(5)).empty());
  EXPECT_FALSE(timelines_.WaitsForOthers(kProcess));
}

}  // namespace
}  // namespace phantora
