// Products of small matrices, and the moves that feed them.
#include "trap/gpu/sass/encoding.h"
#include "trap/gpu/sass/operations.h"

namespace phantora::sass {

std::vector<EncodingRow> TensorRows() {
  return {
      {0x03a, "1", "MOVM.16.MT88", "", "d a", Always<&TransposeMatrix>},
      {0x03f, "1", "DMMA.884", "", "d*4 a b c", Always<&DoubleMatrixProduct>, Immediate::kInteger,
       Flow::kPlain, 80, 89},
      {0x03f, "1", "DMMA", "76+2=.8x8x4", "d*4 a b c", Always<&DoubleMatrixProduct>,
       Immediate::kInteger, Flow::kPlain, 90, 90},
      {0x03f, "1", "DMMA", "76+2=?,.16x8x4,.16x8x8,.16x8x16", "d*8 a b c",
       Always<&WideDoubleMatrixProduct>, Immediate::kInteger, Flow::kPlain, 90, 90},
      {0x037, "1", "IMMA.8816", "76=.U8,.S8 78=.U8,.S8 82=.SAT", "d*2 a b c =74+1:1 =83+4:0",
       Always<&IntegerMatrixProduct>},
      {0x037, "1", "IMMA", "75=.16816,.16832 76=.U8,.S8 78=.U8,.S8 82=.SAT",
       "d*4 a b c =74+1:1 =83+4:8", Always<&IntegerMatrixProduct>},
      // Of four bits each, and of one: on Hopper ptxas makes others of them.
      {0x037, "1", "IMMA.8832", "76=.U4,.S4 78=.U4,.S4 82=.SAT", "d*2 a b c =74+2:1 =83+4:7",
       Always<&IntegerMatrixProduct>, Immediate::kInteger, Flow::kPlain, 80, 89},
      {0x037, "1", "IMMA.16832", "76=.U4,.S4 78=.U4,.S4 82=.SAT", "d*4 a b c =74+2:3 =83+4:11",
       Always<&IntegerMatrixProduct>, Immediate::kInteger, Flow::kPlain, 80, 89},
      {0x037, "1", "IMMA.16864", "76=.U4,.S4 78=.U4,.S4 82=.SAT", "d*4 a b c =74+2:1 =83+4:15",
       Always<&IntegerMatrixProduct>, Immediate::kInteger, Flow::kPlain, 80, 89},
      {0x03d, "1", "BMMA.88128", "78=.XOR,.AND '.POPC", "d*2 a b c =74+3:1 =80+1:1",
       Always<&BitMatrixProduct>},
      {0x03d, "1", "BMMA", "75+2=?,.168128,.168256 78=.XOR,.AND '.POPC",
       "d*4 a b c =74+1:1 =80+1:1", Always<&BitMatrixProduct>},
      {0x03b, "4", "LDSM.16", "78+2=.M88,.MT88 72+2=,.2,.4", "d*4 ms", Always<&LoadMatrix>},
      {0x044, "4", "STSM.16", "78+2=.M88,.MT88 72+2=,.2,.4", "mS r32", Always<&StoreMatrix>,
       Immediate::kInteger, Flow::kPlain, 90, 90},
      {0x03c, "1", "HMMA", "75:78=.1688,.16816 76=.F16,.F32 82+2=,.BF16", "d*h a b c",
       &SelectMatrixProduct},
      {0x03c, "1", "HMMA", "75:78=.1688,?,.1684 76=?,.F32 82+2=?,?,.TF32", "d*h a b c",
       &SelectMatrixProduct},
  };
}

}  // namespace phantora::sass
