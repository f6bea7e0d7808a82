// One thread of an attack: a stream of calls that are wrong in every way.
#ifndef PHANTORA_TEST_FUZZ_HOSTILE_ATTACKER_H_
#define PHANTORA_TEST_FUZZ_HOSTILE_ATTACKER_H_

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

#include "test/fuzz/hostile_calls.h"
#include "test/fuzz/hostile_pushbuffer.h"
#include "test/fuzz/hostile_rig.h"
#include "test/fuzz/hostile_shared.h"
#include "trap/abi/generated/escapes.h"
#include "trap/abi/generated/rm_classes.h"
#include "trap/abi/generated/rm_controls.h"
#include "trap/abi/generated/uvm_ioctl.h"
#include "trap/abi/methods.h"

namespace phantora::hostile {

using namespace abi;  // NOLINT: NVIDIA's names

// Parameters, in pages of their own: what a call writes beyond them meets a hole.
class Block {
 public:
  Block() {
    void* at = mmap(nullptr, kSize + 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(at, kSize, PROT_READ | PROT_WRITE);
    bytes_ = static_cast<uint8_t*>(at);
  }
  ~Block() { munmap(bytes_, kSize + 4096); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  uint8_t* data() { return bytes_; }
  size_t size() const { return kSize; }

 private:
  static constexpr size_t kSize = 1 << 16;
  uint8_t* bytes_;
};

class Attacker {
 public:
  Attacker(Rig& rig, uint64_t seed, bool greedy) : rig_(rig), random_(seed), greedy_(greedy) {}

  void One();

 private:
  uint32_t SomeHandle() {
    switch (random_.Below(6)) {
      case 0:
        return shared->handles[random_.Below(256)];
      case 1:
        return static_cast<uint32_t>(random_.Boundary());
      case 2:
        return 0xc1d00001 + random_.Below(64);
      case 3:
        return 0xcaf00000 + random_.Below(64);
      default:
        return rig_.objects.empty() ? 0 : rig_.objects[random_.Below(rig_.objects.size())];
    }
  }
  int SomeFile() {
    switch (random_.Below(6)) {
      case 0:
        return rig_.gpu_fd;
      case 1:
        return rig_.uvm_fd;
      case 2:
        return static_cast<int>(random_.Below(64));
      case 3:
        return rig_.memory_files.empty()
                   ? -1
                   : rig_.memory_files[random_.Below(rig_.memory_files.size())];
      default:
        return rig_.control_fd;
    }
  }
  uint64_t SomePointer() {
    switch (random_.Below(8)) {
      case 0:
        return 0;
      case 1:
        return random_.Next();
      case 2:
        return reinterpret_cast<uint64_t>(block_.data() + block_.size()) - random_.Below(64);
      case 3:
        return reinterpret_cast<uint64_t>(&Function);  // not writable
      case 4:
        return reinterpret_cast<uint64_t>(rig_.ring) + random_.Below(kRingBytes);
      default:
        return reinterpret_cast<uint64_t>(block_.data() + 32768);
    }
  }
  // `pointer`, now and then another one.
  uint64_t OrSomePointer(const void* pointer);
  uint64_t OrSomeLimit(const timespec* time);
  static void Function() {}
  void Noise(size_t bytes) {
    bytes = bytes < block_.size() ? bytes : block_.size();
    const bool sparse = random_.OneIn(2);
    for (size_t i = 0; i + 4 <= bytes; i += 4) {
      uint32_t word = 0;
      if (!sparse || random_.OneIn(4)) {
        switch (random_.Below(5)) {
          case 0:
            word = static_cast<uint32_t>(random_.Next());
            break;
          case 1:
            word = static_cast<uint32_t>(random_.Boundary());
            break;
          case 2:
            word = SomeHandle();
            break;
          case 3:
            word = random_.Below(300);
            break;
          default:
            break;
        }
      }
      memcpy(block_.data() + i, &word, 4);
    }
  }
  void Flip(void* bytes, size_t size) {
    auto* at = static_cast<uint8_t*>(bytes);
    const uint32_t flips = random_.Below(4);
    for (uint32_t i = 0; i < flips && size > 0; ++i) {
      if (random_.OneIn(2)) {
        at[random_.Below(size)] ^= 1 << random_.Below(8);
      } else if (size >= 8) {
        const uint64_t value = random_.Boundary();
        memcpy(at + random_.Below(size / 4 - 1) * 4, &value, random_.OneIn(2) ? 4 : 8);
      }
    }
  }

  void OpenClose();
  void RandomEscape();
  void MutatedEscape();
  void RandomControl();
  void RandomAlloc();
  void Duplicate();
  void Exports();
  void Events();
  void RandomUvm();
  void MutatedUvm();
  void Mappings();
  void Memfds();
  void Push();
  void Channels();
  void Paths();
  void Pass();
  void Fork();
  void Sleeps();
  void Waits();
  void Timers();
  void Ports();
  void Transfers(int from, int to);
  void FreeSome();
  void MutatedDmaMapping();
  void MutatedHeapCall();
  void MutatedMapping();
  void MutatedOsDescriptor();
  void MutatedTransfer();
  void MutatedControl();

  // What a bomb has made.
  struct Left {
    std::vector<uint32_t> objects;
    std::vector<int> files;
  };
  void Bomb();
  void ChannelBomb(uint32_t much, Left& left);
  void MemoryBomb(uint32_t much, Left& left);
  void FileBomb(uint32_t much, Left& left);
  void RangeBomb(uint32_t much, Left& left);
  void TreeBomb(uint32_t much, Left& left);
  void ClientBomb(uint32_t much, Left& left);
  void EventBomb(uint32_t much, Left& left);
  void WorkBomb(uint32_t much, Left& left);

  Rig& rig_;
  Random random_;
  const bool greedy_;
  Block block_;
};

}  // namespace phantora::hostile

#endif  // PHANTORA_TEST_FUZZ_HOSTILE_ATTACKER_H_
