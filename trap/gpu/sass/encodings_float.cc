// Floating point numbers of 16, 32 and 64 bits, and conversions.
#include "trap/gpu/sass/encoding.h"
#include "trap/gpu/sass/operations.h"

namespace phantora::sass {
namespace {

#define PHANTORA_FLOAT_COMPARISONS \
  ".LT,.EQ,.LE,.GT,.NE,.GE,.NUM,.NAN,.LTU,.EQU,.LEU,.GTU,.NEU,.GEU,"
#define PHANTORA_ROUNDING "78+2=,.RM,.RP,.RZ"

constexpr char kArithmetic[] = "80=.FTZ " PHANTORA_ROUNDING " 77=.SAT";
constexpr char kCompare[] = "76+4=.F," PHANTORA_FLOAT_COMPARISONS ".T 80=.FTZ 74+2=.AND,.OR,.XOR";
constexpr char kCompareDoubles[] =
    "76+4=.MIN," PHANTORA_FLOAT_COMPARISONS ".MAX 74+2=.AND,.OR,.XOR";
constexpr char kCompareHalves[] =
    "65=.BF16_V2 76+4=.F," PHANTORA_FLOAT_COMPARISONS ".T 80=.FTZ 69+2=.AND,.OR,.XOR";
constexpr char kSetHalves[] =
    "65=.BF16_V2 71=.BF 76+4=.F," PHANTORA_FLOAT_COMPARISONS ".T 80=.FTZ 69+2=.AND,.OR,.XOR";
constexpr char kHalfArithmetic[] = "78=.F32 85=.BF16_V2 80=.FTZ 77=.SAT";
constexpr char kFloatToInteger[] =
    "80=.FTZ 75+2:72=.U8,.U16,.U32,.U64,.S8,.S16,,.S64 84+3=?,.F16,,.F64,.BF16 "
    "78+2=,.FLOOR,.CEIL,.TRUNC 77=.NTZ";
constexpr char kHalfToInteger[] =
    "80=.FTZ 75+2:72=.U8,.U16,.U32,.U64,.S8,.S16,,.S64 84+3=?,.F16 78+2=,.FLOOR,.CEIL,.TRUNC "
    "77=.NTZ";
constexpr char kIntegerToFloat[] =
    "75+3=?,.F16,,.F64,.BF16 84+2:74=.U8,.U16,.U32,.U64,.S8,.S16,,.S64 " PHANTORA_ROUNDING;
constexpr char kFloatToFloat[] =
    "80=.FTZ 75+3=?,.F16,.F32,.F64,.BF16 84+2=?,.F16,.F32,.F64 " PHANTORA_ROUNDING;
constexpr char kFunctions[] = "74+6=.COS,.SIN,.EX2,.LG2,.RCP,.RSQ,.RCP64H,.RSQ64H,.SQRT,.TANH";

}  // namespace

std::vector<EncodingRow> FloatRows() {
  constexpr Immediate kF = Immediate::kFloat, kD = Immediate::kDouble, kH = Immediate::kHalves;
  return {
      {0x008, "1456", "FSEL", "", "d a-| b-| p87/90", Always<&SelectFloat>, kF},
      {0x009, "1456", "FMNMX", "80=.FTZ 81=.NAN 82=.XORSIGN", "d a-| b-| p87/90",
       Always<&MinMaxFloat>, kF},
      {0x00a, "1456", "FSET.BF", kCompare, "d a-| b-| p87/90", Always<&SetFloat>, kF},
      {0x00b, "1456", "FSETP", kCompare, "P81 P84 a-| b-| p87/90", Always<&CompareFloats>, kF},
      {0x020, "1456", "FMUL", "84+3=?,.D8,.D4,.D2, 80=.FTZ " PHANTORA_ROUNDING " 77=.SAT",
       "d a-| b-|", &SelectMultiplyFloat, kF},
      {0x021, "1", "FADD", kArithmetic, "d a-| b-|", &SelectAddFloat, kF},
      {0x021, "237", "FADD", kArithmetic, "d a-| c-|", &SelectAddFloat, kF},
      {0x023, "1234567", "FFMA", kArithmetic, "d a-| b-| c-|", &SelectFusedMultiplyAdd, kF},
      {0x028, "1456", "DMUL", PHANTORA_ROUNDING, "d*2 a-|*2 b-|*2", Always<&MultiplyDouble>, kD},
      {0x029, "1237", "DADD", PHANTORA_ROUNDING, "d*2 a-|*2 c-|*2", Always<&AddDouble>, kD},
      {0x02a, "1", "DSETP", kCompareDoubles, "P81 P84 a-|*2 b-|*2 p87/90", Always<&CompareDoubles>,
       kD},
      {0x02a, "237", "DSETP", kCompareDoubles, "P81 P84 a-|*2 c-|*2 p87/90",
       Always<&CompareDoubles>, kD},
      {0x02b, "1234567", "DFMA", PHANTORA_ROUNDING, "d*2 a-|*2 b-|*2 c-|*2",
       Always<&FusedMultiplyAddDouble>, kD},
      {0x030, "1", "HADD2", kHalfArithmetic, "d a-|h b-|h", Always<&AddHalves>, kH},
      {0x030, "237", "HADD2", kHalfArithmetic, "d a-|h c-|h", Always<&AddHalves>, kH},
      {0x031, "1234567", "HFMA2", "85=.BF16_V2 80=.FTZ 79=.RELU 77=.SAT", "d a-|h b-|h c-|h",
       Always<&FusedMultiplyAddHalves>, kH},
      {0x031, "1234567", "HFMA2", "85=.BF16_V2 80=.FTZ 79=?,.RELU 77=.SAT",
       "d a-|h b-|h c-|h =87+3:7", Always<&FusedMultiplyAddHalves>, kH},
      // Of complex numbers.
      {0x031, "1", "HFMA2", "85=.BF16_V2 80=.FTZ 77=.SAT", "d a-|h bn c-|h =60+4:0 =86+4:1",
       Always<&ConjugateMultiplyAddHalves>, kH, Flow::kPlain, 90, 90},
      {0x032, "1456", "HMUL2", "85=.BF16_V2 80=.FTZ 77=.SAT", "d a-|h b-|h",
       Always<&MultiplyHalves>, kH},
      {0x033, "1", "HSET2", kSetHalves, "d a-|h b-|h p87/90", Always<&SetHalves>, kH},
      {0x033, "237", "HSET2", kSetHalves, "d a-|h c-|h p87/90", Always<&SetHalves>, kH},
      {0x034, "1", "HSETP2", kCompareHalves, "P81 P84 a-|h b-|h p87/90", Always<&CompareHalves>,
       kH},
      {0x034, "237", "HSETP2", kCompareHalves, "P81 P84 a-|h c-|h p87/90", Always<&CompareHalves>,
       kH},
      {0x038, "16", "I2I", "76+2=.U8,.S8,.U16,.S16 '.S32.SAT", "d b", Always<&SaturateInteger>},
      // On another pipe, and of packed halves only.
      {0x035, "1234567", "HFMA2.MMA", "'.BF16_V2 80=.FTZ 77=.SAT",
       "d a-|h b-|h c-|h =74+2:0 =81+2:0 =85+1:1", Always<&FusedMultiplyAddHalves>, kH,
       Flow::kPlain, 90, 90},
      {0x035, "1234567", "HFMA2.MMA", "'.BF16_V2 80=.FTZ 79=?,.RELU 77=.SAT",
       "d a-|h b-|h c-|h =74+2:0 =81+2:0 =85+1:1 =87+3:7", Always<&FusedMultiplyAddHalves>, kH,
       Flow::kPlain, 90, 90},
      {0x035, "1234567", "HFMA2.MMA", "80=.FTZ 77=.SAT", "d a-|h b-|h c-|h =74+2:0 =81+2:0",
       Always<&FusedMultiplyAddHalves>, kH},
      {0x035, "1234567", "HFMA2.MMA", "80=.FTZ 79=?,.RELU 77=.SAT",
       "d a-|h b-|h c-|h =74+2:0 =81+2:0 =87+3:7", Always<&FusedMultiplyAddHalves>, kH},
      {0x03e, "1456", "F2FP", "75=.RELU 76=,.BF16 '.PACK_AB 79+2=,.RM,.RP,.RZ", "d a-| b-|",
       Always<&PackFloats>, kF, Flow::kPlain, 80, 86},
      {0x03e, "1456", "F2FP", "75=.RELU 76=.F16.F32,.BF16.F32 '.PACK_AB 79+2=,.RM,.RP,.RZ",
       "d a-| b-|", Always<&PackFloats>, kF, Flow::kPlain, 89, 90},
      {0x03e, "1456", "F2FP", "75=.RELU 76+3=?,?,?,?,?,.TF32.F32 '.PACK_B 79+2=,?,?,.RZ",
       "d b-| =86+4:9", Always<&RoundToTf32>, kF, Flow::kPlain, 90, 90},
      {0x03e, "1456", "F2FP.SATFINITE",
       "75=.RELU 76+3=?,?,?,?,?,?,.E5M2.F32,.E4M3.F32 '.PACK_AB_MERGE_C", "d a b-| cH =87+4:9",
       Always<&PackBytes>, kF, Flow::kPlain, 90, 90},
      {0x03e, "1456", "F2FP.SATFINITE", "75=.RELU 76+3=?,?,.E5M2.F16,.E4M3.F16 '.UNPACK_B_MERGE_C",
       "d b cH =73+1:1 =87+4:9", Always<&PackBytes>, kF, Flow::kPlain, 90, 90},
      {0x03e, "1456", "F2FP", "75=.RELU '.F16 73+2=?,?,.E5M2,.E4M3 '.UNPACK_B",
       "d bH =86+2:0 =89+1:1", Always<&UnpackBytes>, kF, Flow::kPlain, 90, 90},
      {0x043, "1", "F2IP.U8.F32", "78+2=,?,?,.TRUNC '.NTZ", "d a b c =24+8:255 =64+8:255 =74+1:1",
       Always<&FloatToByte>, kF, Flow::kPlain, 90, 90},
      {0x040, "1456", "HMNMX2", "85=.BF16_V2 80=.FTZ 81=.NAN", "d a-|h b-|h p87/90",
       Always<&MinMaxHalves>, kH},
      {0x045, "1456", "I2FP.F32", "74=.U32,.S32 78+2=,.RM,.RP,.RZ", "d b =75+3:2 =84+2:2",
       Always<&IntegerToFloat32>},
      {0x102, "1456", "FCHK", "", "P81 a-| b-|", Always<&CheckDivision>, kF},
      {0x104, "1456", "F2F", kFloatToFloat, "d*f b-|", Always<&FloatToFloat>, kF},
      {0x104, "1", "F2F.F32.F16", "80=.FTZ", "d b-|H =75+3:2 =84+2:1", Always<&FloatToFloat>, kF},
      {0x104, "1", "F2F.F32.BF16", "80=.FTZ", "d b-|H =75+3:2 =84+3:4", Always<&FloatToFloat>, kF,
       Flow::kPlain, 90, 90},
      {0x105, "1456", "F2I", kFloatToInteger, "d*f b-|", Always<&FloatToInteger>, kF},
      {0x105, "1", "F2I", kHalfToInteger, "d*f b-|H", Always<&FloatToInteger>, kF},
      {0x106, "1456", "I2F", kIntegerToFloat, "d*f by", Always<&IntegerToFloat>},
      {0x107, "1456", "FRND", "75+2:84+2=?,?,?,?,?,.F16,?,?,?,?, 80=.FTZ 78+2=,.FLOOR,.CEIL,.TRUNC",
       "d b-|", Always<&RoundToIntegral>, kF},
      {0x107, "1456", "FRND.F16", "80=.FTZ 78+2=,.FLOOR,.CEIL,.TRUNC", "d b-|H =75+2:1 =84+2:1",
       Always<&RoundToIntegral>, kF},
      {0x107, "1456", "FRND.BF16", "80=.FTZ 78+2=,.FLOOR,.CEIL,.TRUNC", "d b-| =75+3:4 =84+3:4",
       Always<&RoundToIntegral>, kF, Flow::kPlain, 90, 90},
      {0x108, "1456", "MUFU", kFunctions, "d b-|", &SelectFunction, kF},
      {0x108, "1456", "MUFU", "74+6=?,?,.EX2,?,?,?,?,?,?,.TANH 72+2=?,?,.F16", "d b-|H",
       &SelectHalfFunction, kF, Flow::kPlain, 80, 89},
      {0x108, "1456", "MUFU", "74+6=?,?,.EX2,?,?,?,?,?,?,.TANH 72+2=?,.F16,.BF16", "d b-|H",
       &SelectHalfFunction, kF, Flow::kPlain, 90, 90},
      {0x110, "1456", "F2F", kFloatToFloat, "d*f b-|", Always<&FloatToFloat>, kD},
      {0x111, "1456", "F2I", kFloatToInteger, "d*f b-|", Always<&FloatToInteger>, kD},
      {0x112, "1456", "I2F", kIntegerToFloat, "d*f by", Always<&IntegerToFloat>},
      {0x113, "1456", "FRND",
       "75+2:84+2=?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,.F64 78+2=,.FLOOR,.CEIL,.TRUNC", "d*2 b-|*2",
       Always<&RoundToIntegral>, kD},
  };
}

}  // namespace phantora::sass
