// Registers that say where a thread is, and what time it is there.
#ifndef PHANTORA_TRAP_GPU_SASS_SPECIAL_REGISTERS_H_
#define PHANTORA_TRAP_GPU_SASS_SPECIAL_REGISTERS_H_

namespace phantora::sass {

// Numbers, as nvdisasm prints them (bits 72 to 79 of S2R).
enum SpecialRegister : int {
  kLaneId = 0x00,
  kVirtualId = 0x03,
  kThreadX = 0x21,
  kThreadY = 0x22,
  kThreadZ = 0x23,
  kBlockX = 0x25,
  kBlockY = 0x26,
  kBlockZ = 0x27,
  kSharedWindowHigh = 0x2f,
  kSharedWindowLow = 0x30,
  kSharedSize = 0x32,
  kEqualMask = 0x38,
  kLowerMask = 0x39,
  kLowerEqualMask = 0x3a,
  kGreaterMask = 0x3b,
  kGreaterEqualMask = 0x3c,
  kVirtualSm = 0x43,
  kClockLow = 0x50,
  kClockHigh = 0x51,
  kGlobalTimerLow = 0x52,
  kGlobalTimerHigh = 0x53,
  kClusterBlockId = 0x88,
  kZero = 0xff,
};

// nullptr: it is not known.
constexpr const char* SpecialRegisterName(int number) {
  switch (number) {
    case kLaneId:
      return "SR_LANEID";
    case kVirtualId:
      return "SR_VIRTID";
    case kThreadX:
      return "SR_TID.X";
    case kThreadY:
      return "SR_TID.Y";
    case kThreadZ:
      return "SR_TID.Z";
    case kBlockX:
      return "SR_CTAID.X";
    case kBlockY:
      return "SR_CTAID.Y";
    case kBlockZ:
      return "SR_CTAID.Z";
    case kSharedWindowHigh:
      return "SR_SWINHI";
    case kSharedWindowLow:
      return "SR_SWINLO";
    case kSharedSize:
      return "SR_SMEMSZ";
    case kEqualMask:
      return "SR_EQMASK";
    case kLowerMask:
      return "SR_LTMASK";
    case kLowerEqualMask:
      return "SR_LEMASK";
    case kGreaterMask:
      return "SR_GTMASK";
    case kGreaterEqualMask:
      return "SR_GEMASK";
    case kVirtualSm:
      return "SR_VIRTUALSMID";
    case kClockLow:
      return "SR_CLOCKLO";
    case kClockHigh:
      return "SR_CLOCKHI";
    case kGlobalTimerLow:
      return "SR_GLOBALTIMERLO";
    case kGlobalTimerHigh:
      return "SR_GLOBALTIMERHI";
    case kClusterBlockId:
      return "SR_CgaCtaId";
    case kZero:
      return "SRZ";
    default:
      return nullptr;
  }
}

}  // namespace phantora::sass

#endif  // PHANTORA_TRAP_GPU_SASS_SPECIAL_REGISTERS_H_
