#include "trap/gpu/front/pushbuffer_reader.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "clock/time_source.h"
#include "trap/abi/methods.h"

namespace phantora {
namespace {

constexpr uint64_t kPushbuffer = 0x20000, kBytes = 0x100000;

// Writes down what it is handed: "subchannel:method=data", and runs as "subchannel:method*words"
// or, of methods that follow each other, "subchannel:method+words".
class WritingSink : public MethodSink {
 public:
  Progress Method(ExecutionContext&, uint32_t subchannel, uint32_t method, uint32_t data) override {
    if (answer != Progress::kDone) return answer;
    seen.push_back(absl::StrCat(subchannel, ":", absl::Hex(method), "=", absl::Hex(data)));
    return Progress::kDone;
  }
  size_t Bulk(ExecutionContext&, uint32_t subchannel, uint32_t method, bool increments,
              absl::Span<const uint32_t> words) override {
    if (bulk == 0) return 0;
    const size_t used = std::min(words.size(), bulk);
    seen.push_back(absl::StrCat(subchannel, ":", absl::Hex(method), increments ? "+" : "*", used));
    return used;
  }
  std::vector<std::string> seen;
  Progress answer = Progress::kDone;
  size_t bulk = 0;  // words that it takes at once
};

class PushbufferReaderTest : public testing::Test {
 protected:
  PushbufferReaderTest() {
    context_->memory.Map(kPushbuffer, kBytes,
                         std::make_shared<OwnedMemory>(MemoryKind::kVidmem, kBytes), 0);
  }
  static uint32_t Header(uint32_t operation, uint32_t count, uint32_t subchannel, uint32_t method) {
    return operation << 29 | count << 16 | subchannel << 13 | method >> 2;
  }
  void Begin(const std::vector<uint32_t>& words) {
    EXPECT_FALSE(context_->memory.Write(kPushbuffer, words.data(), words.size() * 4));
    reader_.Begin(kPushbuffer, words.size());
  }
  Progress Run(int64_t budget = kStepBudget) {
    execution_.budget = budget;
    return reader_.Run(execution_, sink_);
  }

  ManualTimeSource time_;
  GpuServices services_{&time_, nullptr, nullptr, nullptr, nullptr, nullptr, {}};
  std::shared_ptr<GpuContext> context_ = std::make_shared<GpuContext>();
  ExecutionContext execution_{context_, services_, time_, 0, 1, 7};
  WritingSink sink_;
  PushbufferReader reader_;
};

using Seen = std::vector<std::string>;

TEST_F(PushbufferReaderTest, HeadersSayHowMethodsGoOn) {
  Begin({Header(abi::kSecOpIncMethod, 2, 1, 0x100), 10, 11,     //
         Header(abi::kSecOpNonIncMethod, 2, 2, 0x200), 12, 13,  //
         Header(abi::kSecOpOneInc, 3, 3, 0x300), 14, 15, 16,    //
         Header(abi::kSecOpImmdDataMethod, 0x1fff, 4, 0x400)});
  EXPECT_EQ(Run(), Progress::kDone);
  EXPECT_EQ(sink_.seen, (Seen{"1:100=a", "1:104=b", "2:200=c", "2:200=d", "3:300=e", "3:304=f",
                              "3:304=10", "4:400=1fff"}));
}

TEST_F(PushbufferReaderTest, OldHeadersHaveACountOfTheirOwn) {
  // Tertiary opcode 0: count in bits 28:18, method in bits 12:2.
  Begin({abi::kSecOpGrp0UseTert << 29 | 2u << 18 | 1u << 13 | 0x100, 1, 2,
         abi::kSecOpGrp2UseTert << 29 | 2u << 18 | 1u << 13 | 0x200, 3, 4,
         abi::kSecOpGrp0UseTert << 29 | 1u << 16 | 0x100,  // SET_SUB_DEVICE_MASK
         0});
  EXPECT_EQ(Run(), Progress::kDone);
  EXPECT_EQ(sink_.seen, (Seen{"1:100=1", "1:104=2", "1:200=3", "1:200=4"}));
}

TEST_F(PushbufferReaderTest, ASegmentMayEndEarly) {
  Begin({Header(abi::kSecOpImmdDataMethod, 1, 1, 0x100), Header(abi::kSecOpEndPbSegment, 0, 0, 0),
         Header(abi::kSecOpImmdDataMethod, 2, 1, 0x100)});
  EXPECT_EQ(Run(), Progress::kDone);
  EXPECT_EQ(sink_.seen, Seen{"1:100=1"});
}

TEST_F(PushbufferReaderTest, WhatBlockedIsCalledAgain) {
  Begin({Header(abi::kSecOpImmdDataMethod, 1, 1, 0x100), Header(abi::kSecOpIncMethod, 1, 1, 0x200),
         5});
  sink_.answer = Progress::kBlocked;
  EXPECT_EQ(Run(), Progress::kBlocked);
  EXPECT_EQ(Run(), Progress::kBlocked);
  sink_.answer = Progress::kDone;
  EXPECT_EQ(Run(), Progress::kDone);
  EXPECT_EQ(sink_.seen, (Seen{"1:100=1", "1:200=5"}));
}

TEST_F(PushbufferReaderTest, ASpentBudgetYieldsAndGoesOn) {
  Begin({Header(abi::kSecOpIncMethod, 2, 1, 0x100), 1, 2});
  EXPECT_EQ(Run(2), Progress::kYield);
  EXPECT_EQ(sink_.seen, Seen{"1:100=1"});
  EXPECT_EQ(Run(), Progress::kDone);
  EXPECT_EQ(sink_.seen, (Seen{"1:100=1", "1:104=2"}));
}

TEST_F(PushbufferReaderTest, RunsOfOneMethodMayBeTakenAtOnce) {
  Begin({Header(abi::kSecOpOneInc, 6, 1, 0x100), 1, 2, 3, 4, 5, 6,  //
         Header(abi::kSecOpIncMethod, 2, 1, 0x200), 7, 8});
  sink_.bulk = 3;
  EXPECT_EQ(Run(), Progress::kDone);
  // The first run increments once; of the second the last word is left to Method.
  EXPECT_EQ(sink_.seen, (Seen{"1:100*3", "1:104*3", "1:200=7", "1:204=8"}));
}

TEST_F(PushbufferReaderTest, SoMayMethodsThatFollowEachOtherIfTheyAreMany) {
  Begin({Header(abi::kSecOpIncMethod, 12, 1, 0x100), 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  sink_.bulk = 3;
  EXPECT_EQ(Run(), Progress::kDone);
  EXPECT_EQ(sink_.seen, (Seen{"1:100+3", "1:10c+3", "1:118=7", "1:11c=8", "1:120=9", "1:124=a",
                              "1:128=b", "1:12c=c"}));
}

TEST_F(PushbufferReaderTest, LongSegmentsAreReadInParts) {
  std::vector<uint32_t> words;
  for (int i = 0; i < 9; ++i) {
    words.push_back(Header(abi::kSecOpNonIncMethod, 0x1ffe, 1, 0x100));
    words.resize(words.size() + 0x1ffe, 7);
  }
  Begin(words);
  sink_.bulk = 1 << 20;
  EXPECT_EQ(Run(1 << 20), Progress::kDone);
  size_t taken = 0;
  for (const std::string& text : sink_.seen) {
    const size_t star = text.find('*');
    taken += star == std::string::npos ? 1 : std::stoul(text.substr(star + 1));
  }
  EXPECT_EQ(taken, 9u * 0x1ffe);
}

TEST_F(PushbufferReaderTest, MalformedHeadersAndUnmappedMemoryFail) {
  Begin({6u << 29});
  EXPECT_EQ(Run(), Progress::kFault);
  EXPECT_EQ(execution_.fault->code, kPbdmaError);
  reader_.Begin(kPushbuffer + kBytes, 1);
  EXPECT_EQ(Run(), Progress::kFault);
  EXPECT_EQ(execution_.fault->code, kMmuFault);
}

}  // namespace
}  // namespace phantora
