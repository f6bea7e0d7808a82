// Registers that say where a thread is, and what time it is there.
#ifndef PHANTORA_TRAP_GPU_SASS_SPECIAL_REGISTERS_H_
#define PHANTORA_TRAP_GPU_SASS_SPECIAL_REGISTERS_H_

namespace phantora::sass {

// Numbers, as nvdisasm prints them (bits 72 to 79 of S2R).
enum SpecialRegister : int {
  kLaneId = 0x00,
  kVirtualId = 0x03,
  kThread = 0x20,  // 16, 10 and 6 bits of x, y and z
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
    case kThread:
      return "SR_TID";
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

// Registers of a warp, of which BMOV has more than these.
inline constexpr int kThreadsExited = 24, kThreadsActive = 26;
// A bit of each thread's state. Those that have the last one set do not go on: functions of the
// driver's set it for the threads that have not called them, until they return.
inline constexpr int kThreadState = 16, kThreadsHeld = 20, kThreadStateEnd = 21;
// What these are for is not known; the same functions save them, and restore them.
inline constexpr int kOptStack = 28, kApiCallDepth = 29;
// nullptr: not one that is known.
constexpr const char* WarpStateName(int number) {
  switch (number) {
    case kThreadState:
      return "THREAD_STATE_ENUM.0";
    case kThreadState + 1:
      return "THREAD_STATE_ENUM.1";
    case kThreadState + 2:
      return "THREAD_STATE_ENUM.2";
    case kThreadState + 3:
      return "THREAD_STATE_ENUM.3";
    case kThreadState + 4:
      return "THREAD_STATE_ENUM.4";
    case kThreadsExited:
      return "MEXITED";
    case kThreadsActive:
      return "MACTIVE";
    case kOptStack:
      return "OPT_STACK";
    case kApiCallDepth:
      return "API_CALL_DEPTH";
    default:
      return nullptr;
  }
}

}  // namespace phantora::sass

#endif  // PHANTORA_TRAP_GPU_SASS_SPECIAL_REGISTERS_H_
