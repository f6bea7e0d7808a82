// Loads, stores and atomic operations.
#include "trap/gpu/sass/encoding.h"
#include "trap/gpu/sass/operations.h"

namespace phantora::sass {
namespace {

#define PHANTORA_SIZE "73+3=.U8,.S8,.U16,.S16,,.64,.128"
#define PHANTORA_EVICTION "84+3=.EF,,.EL,.LU,.EU,.NA"
#define PHANTORA_ORDER "77+4=,?,?,?,.CONSTANT,.STRONG.SM,?,.STRONG.GPU,?,?,.STRONG.SYS"
#define PHANTORA_PREFETCH "68+3=,.LTC64B,.LTC128B,.LTC256B"
#define PHANTORA_OPERATION "87+3=.ADD,.MIN,.MAX,.INC,.DEC,.AND,.OR,.XOR"
#define PHANTORA_OPERATION4 "87+4=.ADD,.MIN,.MAX,.INC,.DEC,.AND,.OR,.XOR,.EXCH"
#define PHANTORA_TYPE80 "73+3=,.S32,.64,.F32.FTZ.RN,.F16x2.RN,.S64,.F64.RN"
#define PHANTORA_TYPE90 "73+4=,.S32,.64,.S64"
#define PHANTORA_FLOAT_TYPE90 \
  "73+4=.F16x2.RN,?,?,.BF16x2.RN,?,?,?,?,?,.F32.FTZ.RN,?,?,.F32.RN,?,?,.F64.RN"

constexpr char kLoad[] =
    "72=.E " PHANTORA_EVICTION " " PHANTORA_PREFETCH " " PHANTORA_SIZE " " PHANTORA_ORDER;
constexpr char kGenericLoad[] = "72=.E " PHANTORA_EVICTION " " PHANTORA_SIZE " " PHANTORA_ORDER;
constexpr char kReduction80[] =
    "72=.E " PHANTORA_OPERATION " " PHANTORA_EVICTION " " PHANTORA_TYPE80 " " PHANTORA_ORDER;
constexpr char kReduction90[] =
    "72=.E " PHANTORA_OPERATION " " PHANTORA_EVICTION " " PHANTORA_TYPE90 " " PHANTORA_ORDER;
constexpr char kAtomic80[] =
    "72=.E " PHANTORA_OPERATION4 " " PHANTORA_EVICTION " " PHANTORA_TYPE80 " " PHANTORA_ORDER;
constexpr char kAtomic90[] =
    "72=.E " PHANTORA_OPERATION4 " " PHANTORA_EVICTION " " PHANTORA_TYPE90 " " PHANTORA_ORDER;
constexpr char kFloatReduction90[] =
    "72=.E 87+3=.ADD,? " PHANTORA_EVICTION " " PHANTORA_FLOAT_TYPE90 " " PHANTORA_ORDER;
constexpr char kFloatAtomic90[] =
    "72=.E 87+4=.ADD,? " PHANTORA_EVICTION " " PHANTORA_FLOAT_TYPE90 " " PHANTORA_ORDER;
constexpr char kCompareAndSwap80[] =
    "72=.E '.CAS " PHANTORA_EVICTION " 73+3=,?,.64 " PHANTORA_ORDER;
constexpr char kCompareAndSwap90[] =
    "72=.E '.CAS " PHANTORA_EVICTION " 73+4=,?,.64 " PHANTORA_ORDER;
constexpr char kShared[] = PHANTORA_SIZE;
constexpr char kLocal[] = "84+3=?,,?,.LU " PHANTORA_SIZE;

}  // namespace

std::vector<EncodingRow> MemoryRows() {
  constexpr Immediate kI = Immediate::kInteger;
  constexpr Flow kP = Flow::kPlain;
  return {
      {0x180, "1", "LD", kGenericLoad, "d*m mr", Always<&LoadGeneric>},
      {0x180, "4", "LD", kGenericLoad, "d*m mg", Always<&LoadGeneric>},
      {0x180, "4", "LD", kGenericLoad, "d*m mB =90+2:0", Always<&LoadGeneric>},
      {0x181, "1", "LDG", kLoad, "d*m mr v =81+3:7", Always<&LoadGlobal>},
      {0x181, "4", "LDG", kLoad, "d*m mg v =81+3:7", Always<&LoadGlobal>},
      {0x181, "4", "LDG", kLoad, "d*m mu v =81+3:7", Always<&LoadGlobal>},
      {0x182, "5", "LDC", "73+3=.U8,.S8,.U16,.S16,,.64", "d*m mi", Always<&LoadConstant>},
      {0x183, "4", "LDL", kLocal, "d*m ms", Always<&LoadLocal>},
      {0x184, "4", "LDS", kShared, "d*m msx", Always<&LoadShared>},
      {0x185, "1", "ST", kGenericLoad, "mB r64", Always<&StoreGeneric>},
      {0x185, "4", "ST", kGenericLoad, "mG r32", Always<&StoreGeneric>},
      {0x185, "4", "ST", kGenericLoad, "mU r32", Always<&StoreGeneric>},
      {0x185, "4", "ST", kGenericLoad, "mB r64 =90+2:0", Always<&StoreGeneric>},
      {0x186, "1", "STG", kGenericLoad, "mr r32", Always<&StoreGlobal>},
      {0x186, "4", "STG", kGenericLoad, "mG r32", Always<&StoreGlobal>},
      {0x186, "4", "STG", kGenericLoad, "mU r32", Always<&StoreGlobal>},
      {0x187, "1", "STL", kLocal, "ml r32", Always<&StoreLocal>},
      {0x187, "4", "STL", kLocal, "mS r32", Always<&StoreLocal>},
      {0x188, "1", "STS", kShared, "mlx r32", Always<&StoreShared>},
      {0x188, "4", "STS", kShared, "mSx r32", Always<&StoreShared>},
      {0x18a, "1", "ATOM", kAtomic80, "P81 d*a mr r32", Always<&AtomicGeneric>, kI, kP, 80, 89},
      {0x18a, "4", "ATOM", kAtomic80, "P81 d*a mH r32", Always<&AtomicGeneric>, kI, kP, 80, 89},
      {0x18a, "1", "ATOM", kAtomic90, "P81 d*a mr r32", Always<&AtomicGeneric>, kI, kP, 90, 90},
      {0x18a, "4", "ATOM", kAtomic90, "P81 d*a mH r32", Always<&AtomicGeneric>, kI, kP, 90, 90},
      {0x18b, "1", "ATOM", kCompareAndSwap80, "P81 d*a mr r32 r64", Always<&SwapGeneric>, kI, kP,
       80, 89},
      {0x18b, "1", "ATOM", kCompareAndSwap90, "P81 d*a mr r32 r64", Always<&SwapGeneric>, kI, kP,
       90, 90},
      {0x18c, "1", "ATOMS", PHANTORA_OPERATION4 " 73+3=,.S32,.64", "d*a mlx r32",
       Always<&AtomicShared>},
      {0x18c, "4", "ATOMS", PHANTORA_OPERATION4 " 73+3=,.S32,.64 84+3=", "d*a mSx r32",
       Always<&AtomicShared>},
      {0x18c, "7", "ATOMS", "87+4=?,?,?,?,?,?,?,?,?,?,.POPC.INC.32,.POPC.INC.32", "d mSx",
       Always<&CountShared>},
      {0x18d, "1", "ATOMS", "87+2=.CAS,?,?,.CAST.SPIN 73+3=,?,.64", "d*a mlx r32 r64",
       Always<&SwapShared>},
      {0x18e, "4", "RED", kReduction80, "mh r32", Always<&ReduceGlobal>, kI, kP, 80, 89},
      {0x18e, "4", "RED", kReduction80, "mr r32 =64+9:256 =90+2:0", Always<&ReduceGlobal>, kI, kP,
       80, 89},
      {0x18e, "4", "REDG", kReduction90, "mh r32", Always<&ReduceGlobal>, kI, kP, 90, 90},
      {0x18e, "4", "REDG", kReduction90, "mr r32 =64+9:256 =90+2:0", Always<&ReduceGlobal>, kI, kP,
       90, 90},
      {0x1a2, "4", "ATOM", kFloatAtomic90, "P81 d*a mH r32", Always<&AtomicGeneric>, kI, kP, 90,
       90},
      {0x1a3, "4", "ATOMG", kFloatAtomic90, "P81 d*a mH r32", Always<&AtomicGlobal>, kI, kP, 90,
       90},
      {0x1a6, "4", "REDG", kFloatReduction90, "mh r32", Always<&ReduceGlobal>, kI, kP, 90, 90},
      {0x1a8, "1", "ATOMG", kAtomic80, "P81 d*a mr r32", Always<&AtomicGlobal>, kI, kP, 80, 89},
      {0x1a8, "1", "ATOMG", kAtomic90, "P81 d*a mr r32", Always<&AtomicGlobal>, kI, kP, 90, 90},
      {0x1a8, "4", "ATOMG", kAtomic80, "P81 d*a mH r32", Always<&AtomicGlobal>, kI, kP, 80, 89},
      {0x1a8, "4", "ATOMG", kAtomic90, "P81 d*a mH r32", Always<&AtomicGlobal>, kI, kP, 90, 90},
      {0x1a9, "1", "ATOMG", kCompareAndSwap80, "P81 d*a mr r32 r64", Always<&SwapGlobal>, kI, kP,
       80, 89},
      {0x1a9, "1", "ATOMG", kCompareAndSwap90, "P81 d*a mr r32 r64", Always<&SwapGlobal>, kI, kP,
       90, 90},
      {0x1aa, "1", "QSPC", "72=.E 73+2=.G,.L,.S,.D", "P81 d mr", Always<&QuerySpace>},
      // Nothing that the order of one thread's accesses shows.
      {0x18f, "4", "CCTL",
       "72=.E 87+4=.PF1,.PF2,.WB,.IV,.IVALL,.RS,.IVALLP,.WBALL,.WBALLP,?,.DML2,.RML2",
       "?24+8 ?32+32", Always<&Nothing>},
      {0x192, "4", "MEMBAR", "79+2=.SC,.ALL, 76+3=.CTA,?,.GPU,.SYS,?,.VC", "", Always<&Nothing>},
      {0x1ab, "4", "ERRBAR", "", "", Always<&Nothing>},
      {0x1ab, "2", "CGAERRBAR", "", "", Always<&Nothing>, kI, kP, 90, 90},
      {0x1ae, "7", "LDGSTS.E",
       "81=.BYPASS, 71+2=,.LTC64B,.LTC128B,.LTC256B 73+2=,.64,.128 82=.ZFILL",
       "mp mq p87/90? =70+1:1 =75+2:3 ?77+4 =83+1:0 =84+3:1 ?101+1", Always<&CopyAsync>},
      // With uniform registers that are added to the global address, or to the shared one.
      {0x1ae, "7", "LDGSTS.E",
       "81=.BYPASS, 71+2=,.LTC64B,.LTC128B,.LTC256B 73+2=,.64,.128 82=.ZFILL",
       "mp mQ p87/90? =70+1:1 =75+2:1 ?77+4 =83+1:0 =84+3:1", Always<&CopyAsync>},
      {0x1ae, "6", "LDGSTS.E",
       "81=.BYPASS, 71+2=,.LTC64B,.LTC128B,.LTC256B 73+2=,.64,.128 82=.ZFILL",
       "mP mq p87/90? =70+1:1 =75+1:1 ?76+5 =83+1:0 =84+3:1 ?101+1", Always<&CopyAsync>},
      {0x1af, "4", "LDGDEPBAR", "", "", Always<&Nothing>},
      {0x11a, "4", "DEPBAR", "47=.LE", "?32+15", Always<&Nothing>},
  };
}

}  // namespace phantora::sass
