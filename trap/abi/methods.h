// Methods of the host, compute and copy classes that the front end acts on.
// Offsets in bytes. From NVIDIA's open-gpu-doc: classes/host/clc56f.h,
// classes/compute/clc6c0.h and clcbc0.h, classes/dma-copy/clc6b5.h and clc8b5.h.
#ifndef PHANTORA_TRAP_ABI_METHODS_H_
#define PHANTORA_TRAP_ABI_METHODS_H_

#include <cstdint>

namespace phantora::abi {

// GPFIFO entry (clc56f.h NVC56F_GP_ENTRY*): address bits 39:2, length in words.
inline constexpr uint64_t kGpEntryAddressMask = 0xfffffffffcull;
inline constexpr int kGpEntryLengthShift = 42;
inline constexpr uint64_t kGpEntryLengthMask = 0x1fffff;
inline constexpr uint64_t kGpEntryBytes = 8;

// USERD (Nvc56fControl): offsets of GP_GET and GP_PUT, and the bytes in use.
inline constexpr uint64_t kUserdGpGet = 0x88;
inline constexpr uint64_t kUserdGpPut = 0x8c;
inline constexpr uint64_t kUserdBytes = 0x200;

// Usermode page (clc361.h NVC361_NOTIFY_CHANNEL_PENDING): the doorbell.
inline constexpr uint64_t kDoorbell = 0x90;
inline constexpr uint64_t kUsermodeBytes = 0x10000;

// Method header (clc56f.h NVC56F_DMA_*).
inline constexpr uint32_t kSecOpGrp0UseTert = 0;
inline constexpr uint32_t kSecOpIncMethod = 1;
inline constexpr uint32_t kSecOpGrp2UseTert = 2;
inline constexpr uint32_t kSecOpNonIncMethod = 3;
inline constexpr uint32_t kSecOpImmdDataMethod = 4;
inline constexpr uint32_t kSecOpOneInc = 5;
inline constexpr uint32_t kSecOpEndPbSegment = 7;

namespace host {
inline constexpr uint32_t kMethodsEnd = 0x100;
inline constexpr uint32_t kSetObject = 0x00;
inline constexpr uint32_t kIllegal = 0x04;
inline constexpr uint32_t kNop = 0x08;
inline constexpr uint32_t kSemaphoreA = 0x10;
inline constexpr uint32_t kSemaphoreB = 0x14;
inline constexpr uint32_t kSemaphoreC = 0x18;
inline constexpr uint32_t kSemaphoreD = 0x1c;
inline constexpr uint32_t kNonStallInterrupt = 0x20;
inline constexpr uint32_t kFbFlush = 0x24;
inline constexpr uint32_t kMemOpA = 0x28;
inline constexpr uint32_t kMemOpB = 0x2c;
inline constexpr uint32_t kMemOpC = 0x30;
inline constexpr uint32_t kMemOpD = 0x34;
inline constexpr uint32_t kSetReference = 0x50;
inline constexpr uint32_t kSemAddrLo = 0x5c;
inline constexpr uint32_t kSemAddrHi = 0x60;
inline constexpr uint32_t kSemPayloadLo = 0x64;
inline constexpr uint32_t kSemPayloadHi = 0x68;
inline constexpr uint32_t kSemExecute = 0x6c;
inline constexpr uint32_t kWfi = 0x78;
inline constexpr uint32_t kYield = 0x80;
// Operations of kSemExecute, bits 2:0.
enum SemOperation : uint32_t {
  kAcquire = 0,
  kRelease = 1,
  kAcquireStrictGeq = 2,
  kAcquireCircularGeq = 3,
  kAcquireAnd = 4,
  kAcquireNor = 5,
  kReduction = 6,
};
// Operations of kSemaphoreD, bits 4:0.
enum SemaphoreDOperation : uint32_t {
  kDAcquire = 1,
  kDRelease = 2,
  kDAcquireGeq = 4,
  kDAcquireAnd = 8,
  kDReduction = 16,
};
}  // namespace host

namespace compute {
// Macros, see MacroEngine: their store, where each begins, and the calls, from clc597.h.
inline constexpr uint32_t kLoadMmeInstructionRamPointer = 0x114;
inline constexpr uint32_t kLoadMmeInstructionRam = 0x118;
inline constexpr uint32_t kLoadMmeStartAddressRamPointer = 0x11c;
inline constexpr uint32_t kLoadMmeStartAddressRam = 0x120;
inline constexpr uint32_t kMmeMemAddressA = 0x550;
inline constexpr uint32_t kMmeMemAddressB = 0x554;
inline constexpr uint32_t kMmeDmaReadFifoed = 0x560;
inline constexpr uint32_t kCallMmeMacro = 0x3800;  // of macro j: + 8 * j, and its data behind that
inline constexpr uint32_t kReportPayloadLower = 0x158;  // clcbc0.h
inline constexpr uint32_t kReportPayloadUpper = 0x15c;
inline constexpr uint32_t kReportAddressLower = 0x160;
inline constexpr uint32_t kReportAddressUpper = 0x164;
inline constexpr uint32_t kReportSemaphoreExecute = 0x168;
inline constexpr uint32_t kLineLengthIn = 0x180;
inline constexpr uint32_t kLineCount = 0x184;
inline constexpr uint32_t kOffsetOutUpper = 0x188;
inline constexpr uint32_t kOffsetOut = 0x18c;
inline constexpr uint32_t kPitchOut = 0x190;
inline constexpr uint32_t kLaunchDma = 0x1b0;
inline constexpr uint32_t kLoadInlineData = 0x1b4;
inline constexpr uint32_t kI2mSemaphoreA = 0x1dc;
inline constexpr uint32_t kI2mSemaphoreB = 0x1e0;
inline constexpr uint32_t kI2mSemaphoreC = 0x1e4;
inline constexpr uint32_t kSetSharedMemoryWindowA = 0x2a0;
inline constexpr uint32_t kSetSharedMemoryWindowB = 0x2a4;
inline constexpr uint32_t kSendPcasA = 0x2b4;
inline constexpr uint32_t kSendPcasB = 0x2b8;
inline constexpr uint32_t kSendSignalingPcasB = 0x2bc;
inline constexpr uint32_t kSendSignalingPcas2B = 0x2c0;
inline constexpr uint32_t kInlineQmdAddressA = 0x318;
inline constexpr uint32_t kInlineQmdAddressB = 0x31c;
inline constexpr uint32_t kLoadInlineQmdData = 0x320;
inline constexpr uint32_t kSetLocalMemoryWindowA = 0x7b0;
inline constexpr uint32_t kSetLocalMemoryWindowB = 0x7b4;
inline constexpr uint32_t kSetReportSemaphoreA = 0x1b00;
inline constexpr uint32_t kSetReportSemaphoreB = 0x1b04;
inline constexpr uint32_t kSetReportSemaphoreC = 0x1b08;
inline constexpr uint32_t kSetReportSemaphoreD = 0x1b0c;
inline constexpr uint32_t kMethodsEnd = 0x4000;
// Actions of kSendSignalingPcas2B, bits 3:0 (clcbc0.h).
enum PcasAction : uint32_t {
  kNop = 0,
  kInvalidate = 1,
  kSchedule = 2,
  kInvalidateCopySchedule = 3,
  kIncrementPut = 6,
  kDecrementDependence = 7,
  kPrefetch = 8,
  kPrefetchSchedule = 9,
  kInvalidatePrefetchCopySchedule = 10,
  kInvalidatePrefetchCopyForceRequireScheduling = 11,
};
}  // namespace compute

namespace copy {
inline constexpr uint32_t kSemaphoreA = 0x240;
inline constexpr uint32_t kSemaphoreB = 0x244;
inline constexpr uint32_t kSemaphorePayload = 0x248;
inline constexpr uint32_t kSemaphorePayloadUpper = 0x24c;  // clc8b5.h
inline constexpr uint32_t kSrcPhysMode = 0x260;
inline constexpr uint32_t kDstPhysMode = 0x264;
inline constexpr uint32_t kLaunchDma = 0x300;
inline constexpr uint32_t kOffsetInUpper = 0x400;
inline constexpr uint32_t kOffsetInLower = 0x404;
inline constexpr uint32_t kOffsetOutUpper = 0x408;
inline constexpr uint32_t kOffsetOutLower = 0x40c;
inline constexpr uint32_t kPitchIn = 0x410;
inline constexpr uint32_t kPitchOut = 0x414;
inline constexpr uint32_t kLineLengthIn = 0x418;
inline constexpr uint32_t kLineCount = 0x41c;
inline constexpr uint32_t kRemapConstA = 0x700;
inline constexpr uint32_t kRemapConstB = 0x704;
inline constexpr uint32_t kRemapComponents = 0x708;
inline constexpr uint32_t kMethodsEnd = 0x800;
}  // namespace copy

}  // namespace phantora::abi

#endif  // PHANTORA_TRAP_ABI_METHODS_H_
