// Integers and bits, registers and predicates.
#include "trap/gpu/sass/encoding.h"
#include "trap/gpu/sass/operations.h"

namespace phantora::sass {
namespace {

constexpr char kCompare[] = "76+3=.F,.LT,.EQ,.LE,.GT,.NE,.GE,.T 73=.U32, 74+2=.AND,.OR,.XOR 72=.EX";
constexpr char kShift[] = "76=.L,.R 75=.W 73+2=.S64,.U64,.S32,.U32 80=.HI";
constexpr char kSigned[] = "73=.U32,";
constexpr char kSignedAt72[] = "72+2=.U32,,.U16x2,.S16x2 76=.RELU";

}  // namespace

std::vector<EncodingRow> IntegerRows() {
  return {
      {0x002, "1456", "MOV", "", "d b =72+4:15", &SelectMove},
      {0x003, "4", "P2R", "76+2=,.B1,.B2,.B3", "d R a i32+32", Always<&PredicatesToRegister>},
      {0x004, "4", "R2P", "76+2=,.B1,.B2,.B3", "R a i32+32", Always<&RegisterToPredicates>},
      {0x007, "1456", "SEL", "", "d a b p87/90", Always<&Select>},
      {0x00c, "1456", "ISETP", kCompare, "P81 P84 a b p87/90 p68/71&72", &SelectCompareIntegers},
      {0x00f, "156", "VIMNMX3", kSignedAt72, "d a b c p87/90", Always<&MinMax3>,
       Immediate::kInteger, Flow::kPlain, 90, 90},
      {0x010, "1234567", "IADD3", "74=.X", "d P81? P84? a- b- c- p87/90&74 p77/80&74", &SelectAdd3},
      {0x011, "1456", "LEA", "74=.X", "d P81? a- b- =80+1:0 =73+1:0 i75+5 p87/90&74",
       &SelectLoadEffectiveAddress},
      {0x011, "1456", "LEA.HI", "74=.X", "d P81? a- b- c =80+1:1 =73+1:0 i75+5 p87/90&74",
       &SelectLoadEffectiveAddress},
      // In these forms the shift lies where the second source would be negated.
      {0x011, "237", "LEA.HI", "74=.X", "d P81? a- b c =80+1:1 =73+1:0 i75+5 p87/90&74",
       &SelectLoadEffectiveAddress},
      {0x011, "1456", "LEA.HI", "74=.X '.SX32", "d P81? a- b- =80+1:1 =73+1:1 i75+5 p87/90&74",
       &SelectLoadEffectiveAddress},
      {0x012, "1456", "LOP3.LUT", "80=.PAND", "P81? d a b c i72+8 p87/90", &SelectLogic3},
      {0x013, "1456", "IABS", "", "d b", Always<&AbsoluteInteger>},
      {0x014, "16", "VABSDIFF", "73=.U32,", "d a b c =81+3:7", Always<&AbsoluteDifference>},
      {0x015, "1", "VABSDIFF4.U8", "75=?,.ACC", "d a b c =81+3:7", Always<&AbsoluteDifference4>},
      {0x015, "1", "VABSDIFF4.U8", "", "d a b c =64+8:255 =81+3:7", Always<&AbsoluteDifference4>},
      {0x016, "1234567", "PRMT", "72+3=,.F4E,.B4E,.RC8,.ECL,.ECR,.RC16", "d a b c",
       Always<&PermuteBytes>},
      {0x017, "1456", "IMNMX", kSigned, "d a b p87/90", Always<&MinMaxInteger>},
      {0x019, "1234567", "SHF", kShift, "d a b c", &SelectShift},
      {0x01a, "1456", "SGXT", "75=.W 73=.U32,", "d a b", Always<&SignExtend>},
      {0x01b, "1456", "BMSK", "75=.W", "d a b", Always<&BitMask>},
      {0x01c, "4", "PLOP3.LUT", "", "P81 P84 p87/90 p77/80 p68/71 =67+1:0 L i16+8",
       Always<&LogicPredicates>},
      {0x01c, "4", "PLOP3.LUT", "", "P81 P84 p87/90 p77/80 q68/71 =67+1:1 L i16+8",
       Always<&LogicPredicates>},
      {0x024, "1234567", "IMAD", "73=.U32, 74=.X", "d a b c- p87/90&74 =81+3:7",
       &SelectMultiplyAdd},
      {0x025, "1234567", "IMAD.WIDE", "73=.U32, 74=.X", "d*2 P81? a b c-*2 p87/90&74",
       &SelectMultiplyAddWide},
      {0x026, "1456", "IDP.4A", "73=.U8,.S8 74=.U8,.S8", "d a b c", Always<&DotProduct4>},
      {0x026, "1456", "IDP.2A", "77=.LO,.HI 73=.U16,.S16 74=.U8,.S8", "d a b c =76+1:1",
       Always<&DotProduct2>},
      {0x027, "1234567", "IMAD.HI", "73=.U32, 74=.X", "d P81? a b c*2 p87/90&74",
       Always<&MultiplyAddHigh>},
      {0x036, "1456", "VIADD", "73=.16x2", "d a b-", Always<&AddIntegers>, Immediate::kInteger,
       Flow::kPlain, 90, 90},
      {0x046, "1234567", "VIADDMNMX", kSignedAt72, "d a b- c p87/90", Always<&AddMinMax>,
       Immediate::kInteger, Flow::kPlain, 90, 90},
      {0x048, "1456", "VIMNMX", kSignedAt72, "d a b =81+6:63 p87/90", Always<&MinMaxInteger>,
       Immediate::kInteger, Flow::kPlain, 90, 90},
      {0x048, "1456", "VIMNMX", "72+2=?,?,.U16x2,.S16x2", "d P81 P84 a b p87/90 =87+4:15",
       Always<&MinMaxAndWhich>, Immediate::kInteger, Flow::kPlain, 90, 90},
      {0x039, "1", "I2IP", "76+2=.U8,.S8,?,.S16 '.S32.SAT", "d a b c", Always<&PackSaturated>},
      {0x039, "1", "I2IP", "76+2=.U8,.S8,.U16,.S16 '.S32.SAT", "d a b c =74+1:1",
       Always<&PackSaturated>, Immediate::kInteger, Flow::kPlain, 90, 90},
      {0x100, "1456", "FLO", "73=.U32, 74=.SH", "d P81? b~", Always<&FindLeadingOne>},
      {0x101, "1456", "BREV", "", "d b", Always<&ReverseBits>},
      {0x109, "1456", "POPC", "", "d b~", Always<&CountBits>},
  };
}

}  // namespace phantora::sass
