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
    {80, 0x10000059007d7304, 0x144fe40000101000, "F2F.F32.F16 R125, R89.H1"},
    {90, 0x8000001604167297, 0x000fe2000fffe03f, "UIADD3.64 UR22, UR4, -UR22, URZ", {80}},
    {90, 0x10000059007d7304, 0x144fe40000401000, "F2F.F32.BF16 R125, R89.H1", {80}},
    {90, 0x00000000000079c5, 0x000fe20000008000, "WARPGROUP.WAIT"},
    {90, 0x0000800405007844, 0x0001e80008004208, "STSM.16.MT88.4 [R5+UR8+0x80], R4"},
    {90, 0xb960000009087446, 0x000fc80007800908, "VIADDMNMX R8, R9, -R8, #ib9600000, !PT"},
    {90, 0x00000005020b7235, 0x008fce0003a08006, "HFMA2.MMA.BF16_V2.RELU R11, R2, R5, R6"},
    {90, 0x00002004080273a8, 0x00042400001e0100, "ATOMG.E.ADD PT, R2, [R8+0x20], R4"},
    {90, 0x0000001109007547, 0x000fea000b800000, "BRA.U !UP1, L1010"},
    {90, 0x0000000100007547, 0x000fea0008800000, "BRA.U P1, UP0, L10"},
    {90, 0x3f803f8004047835, 0x008fe2000020000c, "HFMA2.MMA.BF16_V2 R4, R4, #h3f803f80, R12"},
    {80, 0x10000059007d7305, 0x144fe4000010f100, "F2I.F16.TRUNC.NTZ R125, R89.H1"},
    {90, 0x000000050605723e, 0x000fe400000010ff, "F2FP.BF16.F32.PACK_AB R5, R6, R5"},
    // Of PTX of our own.
    {80, 0x0000000804047237, 0x000fe2000078540c, "IMMA.16864.S4.S4 R4, R4, R8, R12"},
    {80, 0x0000000004087237, 0x000fe200005c5c08, "IMMA.16832.S4.S4.SAT R8, R4, R0, R8"},
    {80, 0x0000000500067237, 0x000fe20000380406, "IMMA.8832.U4.U4 R6, R0, R5, R6"},
    {80, 0x000000050006723d, 0x000fe20000010406, "BMMA.88128.XOR.POPC R6, R0, R5, R6"},
    {90, 0x000000080404723d, 0x000fe2000001540c, "BMMA.168256.AND.POPC R4, R4, R8, R12"},
    {90, 0x00000004030b7231, 0x000fca0000400c00, "HFMA2 R11, R3.H1_H1, R4.H0_NH1, R0"},
    {90, 0x0000000502007248, 0x008fc80007900300, "VIMNMX.S16x2 R0, P0, P1, R2, R5, !PT"},
    // Made by hand.
    {80, 0x0000010008004385, 0x0103e80000100b04, "@P4 ST.E.64 [R8+0x100], R4"},
    {80, 0xfffffff808004385, 0x0103e80000100b04, "@P4 ST.E.64 [R8+-0x8], R4"},
    {80, 0x0000000808047980, 0x000ee80000100b00, "LD.E.64 R4, [R8+0x8]"},
    {80, 0x0000000018027355, 0x001e640000000000, "BMOV.32 R2, MEXITED"},
    {90, 0x000000001d027355, 0x001e640000000000, "BMOV.32 R2, API_CALL_DEPTH"},
    {80, 0x000000011a007356, 0x0011e40000100000, "BMOV.32.PQUAD MACTIVE, R1"},
    {80, 0x000000100000794a, 0x000fea0003800000, "JMP 0x10"},
    {90, 0x0006180000007b4a, 0x000fc00003800000, "JMP c[0x0][0x1860]"},
    {90, 0x0006180100007b4a, 0x000fc00003800000, "JMP.U c[0x0][0x1860]"},
    {90, 0x000618010000794a, 0x000fc00003800000, "JMP.U 0x6180000"},
    {80, 0x000000000200098e, 0x000fe20000100100, "@P0 RED.E.ADD [R2], R0"},
    {90, 0x000000000200098e, 0x000fe20000100100, "@P0 REDG.E.ADD [R2], R0"},
    {80, 0x0000000000047919, 0x001f000000002000, "S2R R4, SR_TID"},
    {90, 0x00e00000041879f0, 0x000fe6000b801818,
     "HGMMA.64x64x16.F32.BF16 R24, gdesc[UR4], R24, UP0, gsb0"},
    {90, 0x61600000041879f0, 0x000fe6000b800118,
     "HGMMA.64x96x16.F16 R24, gdesc[UR4].negA.tnspA.tnspB, R24, UP0, gsb0"},
    {90, 0x00e0000438187df0, 0x000fe6000b800918,
     "HGMMA.64x64x16.F32 R24, -R56, gdesc[UR4], R24, UP0, gsb0"},
    {90, 0x048000042c187df0, 0x000fe6000c0028ff,
     "HGMMA.64x40x8.F32.TF32 R24, R44, gdesc[UR4], RZ, !UPT, gsb0"},
    {90, 0x00e00000041879f3, 0x000fe6000b803018,
     "QGMMA.64x64x32.F16.E5M2.E5M2 R24, gdesc[UR4], R24, UP0, gsb0"},
    {90, 0x0180000430187df1, 0x000fe6000b801018,
     "IGMMA.64x48x32.S8.U8 R24, R48, gdesc[UR4], R24, UP0, gsb0"},
    {90, 0x00008000000079c5, 0x000fe40000010300, "WARPGROUP.DEPBAR.LE gsb0, #i3"},
    {90, 0x00000008053f75b2, 0x0002640008000100, "SYNCS.EXCH.64 URZ, [UR5], UR8"},
    {90, 0x000000ff07ff79a7, 0x0083e40008100c3f,
     "SYNCS.ARRIVE.TRANS64.RED.OPTOUT.A1T0 RZ, [R7+URZ], RZ"},
    {90, 0x00002007080075a7, 0x000262000800017f,
     "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R8+URZ+0x20], R7"},
    {90, 0x00000000ff0079b0, 0x000fe20008000a84, "ARRIVES.LDGSTSBAR.64.TRANSCNT [UR4]"},
    {90, 0x00000c08060073b4, 0x0003d80008009804,
     "UTMALDG.2D.MULTICAST [UR8], [UR6], UR4, desc[UR12]"},
    {90, 0x00000008040075b4, 0x0003d80008020000, "UTMALDG.5D [UR8], [UR4]"},
    {90, 0x00000004080073b5, 0x0003e20008010000, "UTMASTG.3D [UR4], [UR8]"},
    {90, 0x00000a04080073b6, 0x0003d8000b809000, "UTMAREDG.2D.XOR [UR4], [UR8], desc[UR10]"},
    {90, 0x00000006080073ba, 0x0003d80008000204, "UBLKCP.S.G [UR6], [UR8], UR4"},
    {90, 0x00000006050073ba, 0x0003e20008000404, "UBLKCP.G.S [UR6], [UR5], UR4"},
    {90, 0x0000000406007dbd, 0x0103e8000c000a3f, "STAS.64 [R6.64], R4"},
    {90, 0x0000000000007dc7, 0x000fe20008000000, "UCGABAR_WAIT"},
    {90, 0x000000003f06782f, 0x000fe40008000100, "ELECT P0, UR6, ~URZ"},
    {90, 0x00000000003f082f, 0x000fe20003840000, "@P0 ELECT P2, URZ, PT"},
    {90, 0x000000e8000079c8, 0x000e620008000600, "USETMAXREG.TRY_ALLOC.CTAPOOL UP0, #ie8"},
    {90, 0x000000000aff73aa, 0x004ea80000000700, "QSPC.E.D P0, RZ, [R10]"},
    {90, 0x00000000000073c6, 0x000ea40000000100, "FENCE.VIEW.ASYNC.G"},
    {90, 0x00000000040079b9, 0x0003e80008040000, "UTMACCTL.PF [UR4]"},
    {90, 0x00000000060073bc, 0x0003e20008000004, "UBLKPF.L2 [UR6], UR4"},
    {90, 0x0000001006097980, 0x004ea20000100900, "LD.E R9, [R6+0x10]"},
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
