// What sm_90 has beyond its predecessors: products by four warps with operands in shared memory,
// copies that complete on barriers in shared memory, and blocks that form a cluster.
//
// All fields are from words that ptxas 12.4 makes of PTX of our own, and nvdisasm's text for them.
#include <string>

#include "absl/strings/str_cat.h"
#include "trap/gpu/sass/encoding.h"
#include "trap/gpu/sass/operations.h"
#include "trap/gpu/sass/warpgroup_shape.h"

namespace phantora::sass {
namespace {

#define PHANTORA_DIMENSIONS "79+3=.1D,.2D,.3D,.4D,.5D"
// The operation is of the uniform datapath.
#define PHANTORA_UNIFORM " =91+1:1"

// 64 rows, columns in steps and the depth: the modifier at `at`.
std::string Shapes(int at, int width, int step, int depth) {
  std::string text = absl::StrCat(at, "+", width, "=");
  for (int i = 0; i < 1 << width; ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ",", ".64x", (i + 1) * step, "x", depth);
  }
  return text;
}
// Of integers: 8, 16, 24 and 32 columns, and then every 16; every third value of the field.
std::string IntegerShapes() {
  std::string text = "53+6=";
  for (int i = 0; i < 1 << 6; ++i) {
    const int columns = IntegerColumns(i);
    absl::StrAppend(&text, i == 0 ? "" : ",");
    if (i % 3 == 0 && columns <= 256) {
      absl::StrAppend(&text, ".64x", columns, "x32");
    } else {
      absl::StrAppend(&text, "?");
    }
  }
  return text;
}

}  // namespace

std::vector<EncodingRow> HopperRows() {
  static const std::string halves = Shapes(53, 5, 8, 16), floats = Shapes(53, 5, 8, 8),
                           bytes = Shapes(53, 5, 8, 32), integers = IntegerShapes();
  static const std::string hgmma = absl::StrCat(halves, " 75=.F16,.F32 76+3=,.BF16 58=,?");
  static const std::string tf32 = absl::StrCat(floats, " 75=?,.F32 76+3=?,?,.TF32 58=?,");
  static const std::string qgmma =
      absl::StrCat(bytes, " 75=.F16,.F32 76=.E4M3,.E5M2 77=.E4M3,.E5M2");
  static const std::string igmma = absl::StrCat(integers, " 76=.U8,.S8 82=.U8,.S8 75=.SAT");
  // Always by all threads: =12+4:7.
  static constexpr char kBoth[] = "d*w Gd24 r64 g87/90 Gs84 =12+4:7 =91+1:1";
  static constexpr char kOne[] = "d*w a- Gd32 r64 g87/90 Gs84 =12+4:7 =91+1:1 =61+1:0";
  const auto row = [](int operation, const char* forms, const char* name, const char* modifiers,
                      const char* operands, Selector select, Flow flow = Flow::kPlain) {
    return EncodingRow{operation,           forms, name, modifiers, operands, select,
                       Immediate::kInteger, flow,  90,   90};
  };
  return {
      row(0x1f0, "4", "HGMMA", hgmma.c_str(), kBoth, &SelectWarpgroupProduct),
      row(0x1f0, "6", "HGMMA", hgmma.c_str(), kOne, &SelectWarpgroupProduct),
      row(0x1f0, "4", "HGMMA", tf32.c_str(), kBoth, &SelectWarpgroupProduct),
      row(0x1f0, "6", "HGMMA", tf32.c_str(), kOne, &SelectWarpgroupProduct),
      row(0x1f3, "4", "QGMMA", qgmma.c_str(), kBoth, &SelectWarpgroupProduct),
      row(0x1f3, "6", "QGMMA", qgmma.c_str(), kOne, &SelectWarpgroupProduct),
      row(0x1f1, "4", "IGMMA", igmma.c_str(), kBoth, &SelectWarpgroupProduct),
      row(0x1f1, "6", "IGMMA", igmma.c_str(), kOne, &SelectWarpgroupProduct),
      row(0x1c5, "4", "WARPGROUP.ARRIVE", "", "", Always<&MeetWarpgroup>, Flow::kTryWait),
      row(0x1c5, "4", "WARPGROUP.WAIT", "", "=79+1:1", Always<&MeetWarpgroup>, Flow::kTryWait),
      row(0x1c5, "4", "WARPGROUP.DEPBAR.LE", "", "Gs84 i72+3 =47+1:1 =80+1:1",
          Always<&MeetWarpgroup>, Flow::kTryWait),
      row(0x1c6, "1", "FENCE.VIEW.ASYNC", "72=.S,.G", "", Always<&Nothing>),
      // Other grids, which are over before a launch begins.
      row(0x02e, "4", "ACQBULK", "", "", Always<&Nothing>),
      row(0x02d, "4", "PREEXIT", "", "", Always<&Nothing>),
      row(0x1c8, "4", "USETMAXREG", "72+2=?,.DEALLOC,.TRY_ALLOC 74=?,.CTAPOOL",
          "Q81? i32+9 =12+4:7" PHANTORA_UNIFORM, Always<&ReserveRegisters>),
      row(0x1c9, "4", "USETSHMSZ", "", "i32+32" PHANTORA_UNIFORM, Always<&Nothing>),
      row(0x1c9, "4", "USETSHMSZ.FLUSH", "", "=72+1:1" PHANTORA_UNIFORM, Always<&Nothing>),
      row(0x02f, "4", "ELECT", "", "P81 ud u24/72 =91+1:1", Always<&Elect>),
      row(0x02f, "4", "ELECT", "", "P81 ud p87/90 =91+1:0", Always<&Elect>),
      // Barriers in shared memory.
      row(0x1b2, "2", "SYNCS.EXCH", "72=?,.64", "ud*2 mV u32" PHANTORA_UNIFORM,
          Always<&SwapMemoryBarrier>),
      row(0x1b1, "4", "SYNCS.CCTL.IV", "", "mS" PHANTORA_UNIFORM, Always<&Nothing>),
      row(0x1a7, "4", "SYNCS.ARRIVE.TRANS64",
          "73+2=,?,.RED 75=.OPTOUT 84+3=,.A1T0,.A0T1,.A0TR,.A0TX,.ART0",
          "d*2 mS r32" PHANTORA_UNIFORM, Always<&ArriveAtMemoryBarrier>),
      row(0x1a7, "2", "SYNCS.PHASECHK.TRANS64", "72=.TRYWAIT",
          "P81 mS r32 =70+1:1" PHANTORA_UNIFORM, Always<&CheckMemoryBarrier>, Flow::kTryWait),
      row(0x1b0, "4", "ARRIVES.LDGSTSBAR.64", "70+2=?,.ARVCNT,.TRANSCNT",
          "mS =73+1:1 =75+1:1" PHANTORA_UNIFORM, Always<&ArriveAfterCopies>),
      row(0x1bd, "6", "STAS", "73+3=?,?,?,?,,.64,.128", "mW r32 =90+1:1" PHANTORA_UNIFORM,
          Always<&StoreAsync>),
      // Copies without threads.
      row(0x1b4, "2", "UTMALDG", PHANTORA_DIMENSIONS, "U32 U24 D40&76" PHANTORA_UNIFORM,
          Always<&LoadTensor>),
      row(0x1b4, "1", "UTMALDG", PHANTORA_DIMENSIONS " 82=.IM2COL 75=.MULTICAST",
          "U32 U24 u64 D40&76" PHANTORA_UNIFORM, Always<&LoadTensor>),
      row(0x1b5, "1", "UTMASTG", PHANTORA_DIMENSIONS " 82=.IM2COL",
          "U32 U24 D40&76" PHANTORA_UNIFORM, Always<&StoreTensor>),
      row(0x1b6, "1", "UTMAREDG",
          PHANTORA_DIMENSIONS " 87+3=.ADD,.MIN,.MAX,.INC,.DEC,.AND,.OR,.XOR",
          "U32 U24 D40&76" PHANTORA_UNIFORM, Always<&ReduceTensor>),
      row(0x1b7, "4", "UTMACMDFLUSH", "", "", Always<&Nothing>),
      row(0x1b8, "2", "UTMAPF.L2", PHANTORA_DIMENSIONS, "U32 U24 D40&76" PHANTORA_UNIFORM,
          Always<&Nothing>),
      row(0x1b9, "4", "UTMACCTL", "82=.IV,.PF", "U24" PHANTORA_UNIFORM, Always<&Nothing>),
      row(0x1ba, "1", "UBLKCP", "73=.G,.S 74=.G,.S 75=.MULTICAST",
          "U32 U24 u64 D40&76" PHANTORA_UNIFORM, &SelectBulkCopy),
      row(0x1bc, "1", "UBLKPF.L2", "", "U24 u64 D40&76" PHANTORA_UNIFORM, Always<&Nothing>),
      // Blocks of a cluster.
      row(0x1c7, "4", "UCGABAR_ARV", "", "=12+4:7" PHANTORA_UNIFORM, Always<&ArriveAtCluster>),
      row(0x1c7, "6", "UCGABAR_WAIT", "", "=12+4:7" PHANTORA_UNIFORM, Always<&WaitForCluster>,
          Flow::kTryWait),
  };
}

}  // namespace phantora::sass
