#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "trap/gpu/sass/printer.h"

namespace phantora::sass {
namespace {

// `silent`: bits that change nothing, as nvdisasm prints it too: inverting a predicate that is not
// there.
struct Sample {
  Architecture architecture;
  uint64_t low, high;
  const char* text;
  std::vector<int> silent = {};
};

// Words that NVRTC and PyTorch's compiler made, and what nvdisasm prints for them. (All of
// PyTorch's are compared by //test:sass_text_test.)
const Sample kSamples[] = {
    {80, 0x0000000502057208, 0x000fe20000000000, "FSEL R5, R2, R5, P0"},
    {80, 0x8000000a090a7211, 0x002fe200078eb8ff, "LEA R10, R9, -R10, #i17", {90}},
    {80, 0x0000000702057211, 0x000fc800008f0eff, "LEA.HI.X.SX32 R5, R2, R7, #i1, P1"},
    {80, 0x0000000d09047210, 0x000fe200007fe4ff, "IADD3.X R4, R9, R13, RZ, P0, !PT"},
    {80, 0x2000000cff0d7230, 0x004fe20000004100, "HADD2.F32 R13, -RZ, R12.H0_H0"},
    {80, 0x30000014001d7306, 0x000ea20000001000, "I2F.U8 R29, R20.B3"},
    {80, 0x0000000000007b1d, 0x000fec0004014800, "BAR.RED.OR.DEFER_BLOCKING #i0, !P0"},
    {80, 0x0000000402027981, 0x0000a2000c1e1900, "LDG.E R2, [R2.64]"},
    {90, 0x0004002e02007986, 0x000fe2000c101b0a, "STG.E.64 desc[UR10][R2.64+0x400], R46"},
    {90, 0x00000009100e1290, 0x000000000ff1e03f, "@UP1 UIADD3 UR14, UP0, UR16, UR9, URZ", {80, 90}},
    {80, 0x000000050605723e, 0x000fe400000010ff, "F2FP.BF16.PACK_AB R5, R6, R5"},
    {90, 0x000000050605723e, 0x000fe400000010ff, "F2FP.BF16.F32.PACK_AB R5, R6, R5"},
};

TEST(DecoderTest, WordsAreWhatTheDisassemblerSays) {
  for (const Sample& sample : kSamples) {
    const Decoded decoded = Decode({sample.low, sample.high}, sample.architecture, 0);
    ASSERT_NE(decoded.encoding, nullptr) << sample.text << ": " << decoded.why;
    EXPECT_EQ(Print(decoded, sample.architecture).Joined(), sample.text);
  }
}

TEST(DecoderTest, WordsWithABitThatIsNotKnownAreRefused) {
  // FSEL has nothing at bit 92.
  const Decoded decoded = Decode({0x0000000502057208, uint64_t{1} << (92 - 64)}, 80, 0);
  EXPECT_EQ(decoded.encoding, nullptr);
  EXPECT_STREQ(decoded.why, "bits that are not known");
  EXPECT_EQ(decoded.unknown.high, uint64_t{1} << (92 - 64));
}

TEST(DecoderTest, EachSingleBitOfAWordIsAccountedFor) {
  // Of whatever a word becomes by turning one bit, it is either refused or prints differently: no
  // bit that is accepted is without meaning, but for scheduling and what rows say is ignored.
  for (const Sample& sample : kSamples) {
    const Decoded before = Decode({sample.low, sample.high}, sample.architecture, 0);
    const std::string text = Print(before, sample.architecture).Joined();
    for (int bit = 0; bit < 105; ++bit) {
      Word word = {sample.low, sample.high};
      (bit < 64 ? word.low : word.high) ^= uint64_t{1} << bit % 64;
      const Decoded after = Decode(word, sample.architecture, 0);
      if (after.encoding == nullptr) continue;
      const bool may_be_silent = text.find("desc[") != std::string::npos ||
                                 text.find(".64]") != std::string::npos;  // the descriptor
      if (may_be_silent || std::count(sample.silent.begin(), sample.silent.end(), bit) > 0)
        continue;
      EXPECT_NE(Print(after, sample.architecture).Joined(), text) << "bit " << bit;
    }
  }
}

TEST(DecoderTest, AnOperationBelongsToItsArchitectures) {
  // VIADD is sm_90's.
  const Word word = {0x0000000103027836, 0};
  EXPECT_NE(Decode(word, 90, 0).encoding, nullptr);
  EXPECT_EQ(Decode(word, 80, 0).encoding, nullptr);
}

TEST(DecoderTest, WideResultsEndBeforeTheLastRegister) {
  // DADD into R254 would also write what reads as zero.
  const Word word = {0x00000000020a7229 & ~uint64_t{0xff0000}, 0x04};
  EXPECT_NE(Decode({word.low | uint64_t{0xfc} << 16, word.high}, 80, 0).encoding, nullptr);
  EXPECT_EQ(Decode({word.low | uint64_t{0xfe} << 16, word.high}, 80, 0).encoding, nullptr);
}

TEST(DecoderTest, BranchesGoWhereTheySay) {
  // BRA by 0x10 bytes from instruction 3: to 5. Since sm_90 the lowest byte of the distance lies
  // apart.
  EXPECT_EQ(Decode({0x0000001000007947, 0x03800000}, 80, 3).instruction.target, 5u);
  EXPECT_EQ(Decode({0x0000000000047947, 0x03800000}, 90, 3).instruction.target, 5u);
}

}  // namespace
}  // namespace phantora::sass
