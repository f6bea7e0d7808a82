// Where a thread goes next, and for whom it waits.
#include "trap/gpu/sass/encoding.h"
#include "trap/gpu/sass/operations.h"

namespace phantora::sass {

std::vector<EncodingRow> ControlRows() {
  constexpr Immediate kI = Immediate::kInteger;
  return {
      {0x118, "4", "NOP", "", "", Always<&Nothing>},
      {0x11b, "4", "ENDCOLLECTIVE", "", "=87+4:7", Always<&Nothing>, kI, Flow::kPlain, 90, 90},
      {0x11d, "5", "BAR", "77+2=.SYNC,.ARV 80=.DEFER_BLOCKING", "i54+4 i42+12? =74+2:0 ?87+4",
       nullptr, kI, Flow::kBarrier},
      {0x11d, "5", "BAR", "77+2=?,?,.RED 74+2=.POPC,.AND,.OR 80=.DEFER_BLOCKING",
       "i54+4 i42+12? p87/90", nullptr, kI, Flow::kBarrier},
      // By registers: the number in the lowest four bits, the count of threads in the upper half.
      {0x11d, "1", "BAR", "77+2=.SYNC,.ARV 80=.DEFER_BLOCKING", "r32 r32 =74+2:0 ?87+4", nullptr,
       kI, Flow::kBarrier},
      {0x11d, "1", "BAR", "77+2=?,?,.RED 74+2=.POPC,.AND,.OR 80=.DEFER_BLOCKING", "r32 r32 p87/90",
       nullptr, kI, Flow::kBarrier},
      {0x11d, "2", "BAR", "77+2=.SYNC,.ARV 80=.DEFER_BLOCKING", "r32 i42+12? =74+2:0 ?87+4",
       nullptr, kI, Flow::kBarrier},
      {0x11d, "2", "BAR", "77+2=?,?,.RED 74+2=.POPC,.AND,.OR 80=.DEFER_BLOCKING",
       "r32 i42+12? p87/90", nullptr, kI, Flow::kBarrier},
      {0x141, "4", "BSYNC", "", "p87/90? B16", nullptr, kI, Flow::kConverge},
      {0x142, "4", "BREAK", "", "p87/90? B16", nullptr, kI, Flow::kBreak},
      // Also to functions of the driver: assertions, printf.
      {0x143, "1", "CALL.ABS", "86=,.NOINC", "r24*2 =87+4:7", nullptr, kI, Flow::kAbsoluteCall},
      {0x143, "4", "CALL.ABS", "86=,.NOINC", "?24+10 T =87+4:7", nullptr, kI, Flow::kAbsoluteCall},
      {0x144, "1", "CALL.REL", "86=,.NOINC", "r24*2 t =87+4:7", nullptr, kI, Flow::kIndirectBranch},
      {0x144, "4", "CALL.REL", "86=,.NOINC", "t =87+4:7", nullptr, kI, Flow::kCall},
      {0x145, "4", "BSSY", "", "B16 t =87+4:7", nullptr, kI, Flow::kSetConvergence},
      {0x146, "4", "YIELD", "", "=87+4:7", nullptr, kI, Flow::kYield},
      {0x147, "4", "BRA", "", "p87/90? t =32+2:0", nullptr, kI, Flow::kBranch},
      {0x147, "4", "BRA.U", "", "p87/90? t =32+2:1", nullptr, kI, Flow::kBranch},
      {0x147, "2", "BRA.U", "", "p87/90? q24/27 t =28+4:0 =32+2:1 =91+1:1", nullptr, kI,
       Flow::kBranchIfUniform},
      {0x147, "4", "BRA.U.ANY", "", "p87/90? t =32+2:1 =84+1:1", nullptr, kI, Flow::kBranchTogether,
       90, 90},
      {0x147, "4", "BRA", "32+2=?,?,.DIV,.CONV", "u24~ t =87+4:7 =91+1:1", nullptr, kI,
       Flow::kDivergence},
      {0x148, "1", "WARPSYNC", "", "r32 =86+5:14", nullptr, kI, Flow::kWarpSync, 80, 89},
      {0x148, "1", "WARPSYNC.EXCLUSIVE", "", "r32 =86+5:15", nullptr, kI, Flow::kWarpSync, 80, 89},
      {0x148, "1", "WARPSYNC", "85=.EXCLUSIVE", "r24 =86+5:14", nullptr, kI, Flow::kWarpSync, 90,
       90},
      {0x148, "1", "WARPSYNC.COLLECTIVE", "", "r24 t =86+5:15", nullptr, kI, Flow::kWarpSync, 90,
       90},
      {0x148, "4", "WARPSYNC.COLLECTIVE.ALL", "", "t =32+2:0 =86+5:15", nullptr, kI,
       Flow::kWarpSync, 90, 90},
      {0x148, "4", "WARPSYNC.ALL", "", "=32+32:0 =87+4:7", nullptr, kI, Flow::kWarpSync},
      {0x148, "4", "WARPSYNC", "", "i32+32 =87+4:7", nullptr, kI, Flow::kWarpSync},
      {0x149, "4", "BRX", "", "r24*2 t =87+4:7", nullptr, kI, Flow::kIndirectBranch},
      {0x14a, "4", "JMP", "", "p87/90? T =32+2:0", nullptr, kI, Flow::kAbsoluteBranch},
      {0x14a, "5", "JMP", "", "p87/90? k =32+2:0", nullptr, kI, Flow::kAbsoluteBranch},
      {0x14a, "4", "JMP.U", "", "p87/90? T =32+2:1", nullptr, kI, Flow::kAbsoluteBranch},
      {0x14a, "5", "JMP.U", "", "p87/90? k =32+2:1", nullptr, kI, Flow::kAbsoluteBranch},
      {0x14d, "4", "EXIT", "", "p87/90?", nullptr, kI, Flow::kExit},
      {0x14e, "1", "LEPC", "", "d*2", Always<&LoadProgramCounter>, kI, Flow::kReadsAddress},
      {0x14e, "4", "LEPC", "", "d*2 ?24+58", Always<&LoadProgramCounter>, kI, Flow::kReadsAddress,
       90, 90},
      {0x150, "4", "RET.REL", "86=,.NODEC", "r24*2 t =85+1:0 =87+4:7", nullptr, kI, Flow::kReturn},
      {0x150, "4", "RET.ABS", "86=,.NODEC", "r24*2 T =85+1:1 =87+4:7", nullptr, kI,
       Flow::kAbsoluteReturn},
      // Set and reset by the driver's functions around their locks: whether a warp may be stopped
      // there, it seems (Maxwell has an IDE). nvdisasm has no name for it.
      {0x151, "4", "IDE", "84=.DI", "i34+20", Always<&Nothing>},
      {0x158, "4", "BRXU", "", "u24*2 t =87+4:7 =91+1:1", nullptr, kI,
       Flow::kUniformIndirectBranch},
      {0x15c, "4", "BPT", "84+2=?,?,?,.TRAP", "i34+20", nullptr, kI, Flow::kTrap},
      {0x15d, "145", "NANOSLEEP", "84=.SYNCS", "b =87+4:7", nullptr, kI, Flow::kYield},
  };
}

}  // namespace phantora::sass
