// Between the threads of a warp, and what a thread is.
#include "trap/gpu/sass/encoding.h"
#include "trap/gpu/sass/operations.h"

namespace phantora::sass {

std::vector<EncodingRow> WarpRows() {
  static constexpr char kShuffle[] = "58+2=.IDX,.UP,.DOWN,.BFLY";
  return {
      {0x005, "4", "CS2R", "80=.32,", "d*2 S", &SelectReadSpecial64, Immediate::kInteger,
       Flow::kReadsClock},
      {0x006, "4", "VOTE", "72+2=.ALL,.ANY,.EQ", "d? P81 p87/90", Always<&Vote>},
      {0x086, "4", "VOTEU", "72+2=.ALL,.ANY,.EQ", "ud? Q81 p87/90", Always<&VoteUniform>},
      {0x119, "4", "S2R", "", "d S", &SelectReadSpecial, Immediate::kInteger, Flow::kReadsClock},
      {0x11c, "1", "B2R.RESULT", "", "d P81? =78+1:1", Always<&ReadBarrierResult>},
      {0x189, "1", "SHFL", kShuffle, "P81 d a r32 r64", Always<&Shuffle>},
      {0x189, "2", "SHFL", kShuffle, "P81 d a r32 i40+13", Always<&Shuffle>},
      {0x189, "4", "SHFL", kShuffle, "P81 d a i53+5 r64", Always<&Shuffle>},
      {0x189, "7", "SHFL", kShuffle, "P81 d a i53+5 i40+13", Always<&Shuffle>},
      {0x1a1, "1", "MATCH", "79=.ALL,.ANY 73=,.U64", "P81? d a", Always<&Match>},
      {0x1c2, "1", "R2UR", "", "P81? ud a", Always<&RegisterToUniform>},
      {0x0ca, "1", "R2UR", "", "P81? ud a", Always<&RegisterToUniform>, Immediate::kInteger,
       Flow::kPlain, 90, 90},
      {0x1c3, "4", "S2UR", "", "ud S", &SelectReadSpecialUniform},
      {0x1c4, "1", "REDUX", "78+3=,.OR,.XOR,.SUM,.MIN,.MAX 73=,.S32", "ud a", Always<&ReduceWarp>},
      {0x155, "1", "BMOV.32", "84=.CLEAR", "d B24", Always<&ReadConvergence>},
      {0x156, "1", "BMOV.32", "84=.CLEAR", "B24 r32", Always<&WriteConvergence>},
      {0x155, "1", "BMOV.32", "", "d W24", Always<&ReadWarpState>},
      {0x156, "1", "BMOV.32", "84=.PQUAD", "W24 r32", Always<&WriteWarpState>, Immediate::kInteger,
       Flow::kSetsExited},
  };
}

}  // namespace phantora::sass
