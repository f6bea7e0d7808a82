// Pushbuffers, right and wrong.
#ifndef PHANTORA_TEST_FUZZ_HOSTILE_PUSHBUFFER_H_
#define PHANTORA_TEST_FUZZ_HOSTILE_PUSHBUFFER_H_

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "test/fuzz/hostile_rig.h"
#include "test/fuzz/hostile_shared.h"
#include "trap/abi/generated/escapes.h"
#include "trap/abi/generated/rm_classes.h"
#include "trap/abi/generated/rm_controls.h"
#include "trap/abi/generated/uvm_ioctl.h"
#include "trap/abi/methods.h"

namespace phantora::hostile {

using namespace abi;  // NOLINT: NVIDIA's names

class Pushbuffer {
 public:
  Pushbuffer(Random& random, uint8_t* at, uint64_t bytes)
      : random_(random), words_(reinterpret_cast<uint32_t*>(at)), room_(bytes / 4) {}
  void Word(uint64_t word) {
    if (used_ < room_) words_[used_++] = static_cast<uint32_t>(word);
  }
  void Method(uint32_t subchannel, uint32_t method, uint64_t data) {
    Word(kSecOpIncMethod << 29 | 1u << 16 | subchannel << 13 | method >> 2);
    Word(data);
  }
  void Address(uint32_t subchannel, uint32_t upper, uint64_t address) {
    Word(kSecOpIncMethod << 29 | 2u << 16 | subchannel << 13 | upper >> 2);
    Word(address >> 32);
    Word(address);
  }
  uint32_t used() const { return used_; }

  uint64_t SomeAddress() {
    switch (random_.Below(10)) {
      case 0:
        return kVidmemVa + random_.Below(kVidmemBytes);
      case 1:
        return kVidmemVa + kVidmemBytes - random_.Below(64);
      case 2:
        return kTraceeVa + random_.Below(kOwnBytes);
      case 3:
        return kExternalVa + random_.Below(1 << 22);
      case 4:
        return kRingVa + kSemaphoresAt + random_.Below(0x1000) * 4;
      case 5:
        return kRingVa + random_.Below(kRingBytes);  // GPFIFO, USERD, notifiers, itself
      case 6:
        return kRingVa + kUserdAt + random_.Below(0x800);
      case 7:
        return kRingVa + kQmdsAt + random_.Below(16) * 0x200;
      case 8:
        return kVidmemVa + (uint64_t{random_.Below(kVidmemBytes / 4096)} << 12);
      default:
        return random_.OneIn(8) ? random_.Next() : kVidmemVa + random_.Below(1 << 16) * 8;
    }
  }
  uint64_t SomeSize() {
    switch (random_.Below(8)) {
      case 0:
        return random_.Boundary();
      case 1:
        return random_.Next();
      case 2:
        return random_.Below(kVidmemBytes);
      case 3:
        return 0;
      default:
        return random_.Below(4096);
    }
  }
  void Copy() {
    const uint32_t sub = 4;
    Address(sub, copy::kOffsetInUpper, SomeAddress());
    Address(sub, copy::kOffsetOutUpper, SomeAddress());
    Method(sub, copy::kPitchIn, SomeSize());
    Method(sub, copy::kPitchOut, SomeSize());
    Method(sub, copy::kLineLengthIn, SomeSize());
    Method(sub, copy::kLineCount, random_.OneIn(3) ? SomeSize() : random_.Below(64));
    if (random_.OneIn(2)) Method(sub, copy::kRemapComponents, random_.Next());
    if (random_.OneIn(4)) Method(sub, copy::kRemapConstA, random_.Next());
    Address(sub, copy::kSemaphoreA, SomeAddress());
    uint32_t flags = static_cast<uint32_t>(random_.Next());
    if (!random_.OneIn(4)) flags = (flags & ~0x3000u) | 0x180;  // virtual, pitch
    Method(sub, copy::kLaunchDma, flags);
  }
  void Inline() {
    const uint32_t sub = 1;
    const uint32_t length =
        random_.OneIn(4) ? static_cast<uint32_t>(SomeSize()) : random_.Below(256);
    Method(sub, compute::kLineLengthIn, length);
    Method(sub, compute::kLineCount, random_.OneIn(3) ? SomeSize() : 1 + random_.Below(4));
    Address(sub, compute::kOffsetOutUpper, SomeAddress());
    Method(sub, compute::kPitchOut, SomeSize());
    Method(sub, compute::kLaunchDma, random_.Next());
    // The registers may change under the transfer.
    if (random_.OneIn(4)) Method(sub, compute::kLineLengthIn, random_.Below(3));
    if (random_.OneIn(8)) Method(sub, compute::kLineCount, SomeSize());
    const uint32_t count = random_.Below(200);
    const uint32_t op = random_.OneIn(2) ? kSecOpNonIncMethod : kSecOpOneInc;
    Word(op << 29 | count << 16 | sub << 13 | compute::kLoadInlineData >> 2);
    for (uint32_t i = 0; i < count; ++i) Word(random_.Next());
  }
  void Launch() {
    const uint32_t sub = 1;
    const uint64_t qmd = kRingVa + kQmdsAt + random_.Below(16) * 0x200;
    Method(sub, compute::kSendPcasA, (random_.OneIn(16) ? SomeAddress() : qmd) >> 8);
    if (random_.OneIn(2)) {
      Method(sub, compute::kSendSignalingPcasB, random_.Below(4));
    } else {
      Method(sub, compute::kSendSignalingPcas2B, random_.Below(16));
    }
  }
  void InlineQmd() {
    const uint32_t sub = 1;
    const uint64_t qmd = kRingVa + kQmdsAt + random_.Below(16) * 0x200;
    Word(kSecOpIncMethod << 29 | 98u << 16 | sub << 13 | compute::kInlineQmdAddressA >> 2);
    Word(qmd >> 40);
    Word(qmd >> 8);
    for (int i = 0; i < 96; ++i) Word(random_.OneIn(3) ? random_.Next() : 0);
  }
  void HostSemaphore() {
    Address(0, host::kSemAddrLo, 0);
    const uint64_t address = SomeAddress();
    Method(0, host::kSemAddrLo, address);
    Method(0, host::kSemAddrHi, address >> 32);
    Method(0, host::kSemPayloadLo, random_.Below(4));
    uint32_t execute = static_cast<uint32_t>(random_.Next());
    if (!random_.OneIn(8)) execute = (execute & ~7u) | host::kRelease;
    Method(0, host::kSemExecute, execute);
  }
  void Report() {
    const uint32_t sub = 1;
    Address(sub, compute::kSetReportSemaphoreA, SomeAddress());
    Method(sub, compute::kSetReportSemaphoreD, random_.Next());
    Method(sub, compute::kReportSemaphoreExecute, random_.Next());
  }
  void Fill() {
    Method(1, host::kSetObject,
           random_.OneIn(8) ? random_.Next() : (random_.OneIn(2) ? 0xcbc0 : 0xc6c0));
    Method(4, host::kSetObject, random_.OneIn(8) ? random_.Next() : 0xc8b5);
    const uint32_t pieces = 1 + random_.Below(12);
    for (uint32_t i = 0; i < pieces; ++i) {
      switch (random_.Below(12)) {
        case 0:
        case 1:
        case 2:
          Copy();
          break;
        case 3:
        case 4:
          Inline();
          break;
        case 5:
        case 6:
          Launch();
          break;
        case 7:
          InlineQmd();
          break;
        case 8:
          HostSemaphore();
          break;
        case 9:
          Report();
          break;
        case 10:  // a valid header, any method
          Word((1 + random_.Below(7)) << 29 | random_.Below(64) << 16 | random_.Below(8) << 13 |
               random_.Below(0x1000));
          break;
        default:
          if (random_.OneIn(4))
            Word(random_.Next());
          else
            Method(0, host::kNonStallInterrupt, 0);
          break;
      }
    }
  }

 private:
  Random& random_;
  uint32_t* const words_;
  const uint32_t room_;
  uint32_t used_ = 0;
};

// QMDs that know each other, also in cycles. Some words are random.
void WriteQmds(Rig& rig);

}  // namespace phantora::hostile

#endif  // PHANTORA_TEST_FUZZ_HOSTILE_PUSHBUFFER_H_
