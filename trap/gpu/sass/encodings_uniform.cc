// The uniform datapath: one value for all threads of a warp.
#include "trap/gpu/sass/encoding.h"
#include "trap/gpu/sass/operations.h"

namespace phantora::sass {

std::vector<EncodingRow> UniformRows() {
  return {
      {0x082, "4", "UMOV", "", "ud b", Always<&UniformMove>},
      {0x082, "6", "UMOV", "", "ud b", Always<&UniformMove>},
      {0x083, "4", "UP2UR", "", "ud R a i32+32", Always<&UniformPredicatesToRegister>},
      {0x087, "14", "USEL", "", "ud a b q87/90", Always<&UniformSelect>},
      {0x08c, "14", "UISETP",
       "76+3=.F,.LT,.EQ,.LE,.GT,.NE,.GE,.T 73=.U32, 74+2=.AND,.OR,.XOR 72=.EX",
       "Q81 Q84 a b q87/90 q68/71&72", Always<&UniformCompare>},
      {0x090, "124", "UIADD3", "74=.X", "ud Q81? Q84? a- b- c- q87/90&74 q77/80&74",
       Always<&UniformAdd3>},
      {0x091, "14", "ULEA", "74=.X", "ud Q81? a- b- =80+1:0 =73+1:0 i75+5 q87/90&74",
       &SelectUniformLoadEffectiveAddress},
      {0x091, "14", "ULEA.HI", "74=.X", "ud Q81? a- b- c =80+1:1 =73+1:0 i75+5 q87/90&74",
       &SelectUniformLoadEffectiveAddress},
      {0x091, "2", "ULEA.HI", "74=.X", "ud Q81? a- b c =80+1:1 =73+1:0 i75+5 q87/90&74",
       &SelectUniformLoadEffectiveAddress},
      {0x091, "14", "ULEA.HI", "74=.X '.SX32", "ud Q81? a- b- =80+1:1 =73+1:1 i75+5 q87/90&74",
       &SelectUniformLoadEffectiveAddress},
      {0x092, "124", "ULOP3.LUT", "", "Q81? ud a b c i72+8 q87/90", Always<&UniformLogic3>},
      {0x096, "124", "UPRMT", "", "ud a b c", Always<&UniformPermuteBytes>},
      {0x097, "14", "UIADD3.64", "", "ud*2 a-*2 b-*2 c-*2 =77+14:16383", Always<&UniformAdd64>},
      {0x099, "124", "USHF", "76=.L,.R 75=.W 73+2=.S64,.U64,.S32,.U32 80=.HI", "ud a b c",
       Always<&UniformShift>},
      {0x09a, "14", "USGXT", "75=.W 73=.U32,", "ud a b", Always<&UniformSignExtend>},
      {0x09b, "14", "UBMSK", "75=.W", "ud a b", Always<&UniformBitMask>},
      {0x09c, "4", "UPLOP3.LUT", "", "Q81 Q84 q87/90 q77/80 q68/71 =67+1:0 L i16+8",
       Always<&UniformLogicPredicates>},
      {0x0a4, "124", "UIMAD", "73=.U32, 74=.X", "ud a b c- q87/90&74 =81+3:7",
       Always<&UniformMultiplyAdd>},
      {0x0a5, "124", "UIMAD.WIDE", "73=.U32,", "ud*2 Q81? a b c*2 =87+4:15",
       Always<&UniformMultiplyAddWide>},
      {0x0b9, "5", "ULDC", "73+3=.U8,.S8,.U16,.S16,,.64", "ud*m k", Always<&UniformLoadConstant>},
      {0x0bb, "5", "ULDC", "73+3=.U8,.S8,.U16,.S16,,.64", "ud*m mc =91+1:1",
       Always<&UniformLoadConstant>},
      {0x0bd, "1", "UFLO", "73=.U32, 74=.SH", "ud Q81? b~", Always<&UniformFindLeadingOne>},
      {0x0be, "1", "UBREV", "", "ud b", Always<&UniformReverseBits>},
      {0x0bf, "1", "UPOPC", "", "ud b~", Always<&UniformCountBits>},
  };
}

}  // namespace phantora::sass
