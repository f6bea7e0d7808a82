#include "test/raw_client/kernel.h"

#include <string.h>

#include <iterator>
#include <vector>

#include "trap/abi/generated/rm_classes.h"
#include "trap/abi/methods.h"

namespace raw {
namespace {

using namespace phantora::abi;  // NOLINT: NVIDIA's names

// ptxas 12.8 -arch=sm_80 -O3 kernel.ptx
constexpr uint64_t kCode80[] = {
    0x00000a0000017a02, 0x000fe40000000f00, 0x0000000000027919, 0x000e220000002500,
    0x0000460000047ab9, 0x000fc60000000a00, 0x0000000000037919, 0x000e240000002100,
    0x0000000002027a24, 0x001fe200078e0203, 0x00000004ff037435, 0x000fc800000001ff,
    0x00005a0002057a10, 0x000fcc0007ffe0ff, 0x0000580002027625, 0x000fca00078e0003,
    0x0000000502007986, 0x000fe2000c101904, 0x000000000000794d, 0x000fea0003800000,
    0xfffffff000007947, 0x000fc0000383ffff,
};
// ptxas 12.8 -arch=sm_90 -O3 kernel.ptx
constexpr uint64_t kCode90[] = {
    0x00000a00ff017b82, 0x000fe20000000800, 0x0000000000007919, 0x000e2e0000002100,
    0x00000000000479c3, 0x000e300000002500, 0x00000000ff057b82, 0x000e300000000800,
    0x00008400ff027b82, 0x000e620000000a00, 0x0000000405057c24, 0x001fe2000f8e0200,
    0x0000860000047ab9, 0x000fc60000000800, 0x0000000405027825, 0x042fe200078e0002,
    0x0000000405057c10, 0x000fe2000fffe0ff, 0x0000820000047ab9, 0x000fc80000000a00,
    0x0000000502007986, 0x000fe2000c101904, 0x000000000000794d, 0x000fea0003800000,
    0xfffffffc00fc7947, 0x000fc0000383ffff,
};

constexpr uint32_t kRegisters = 8;
// Constant bank 0: the block's dimensions, and the parameters (EIATTR_PARAM_CBANK of the cubins).
constexpr uint32_t kBankBytes = 0x300, kParameters80 = 0x160, kParameters90 = 0x210;

// A queue meta data, whose fields are ranges of bits: MW(high:low) of clc6c0qmd.h and clcbc0qmd.h.
class QueueMetaData {
 public:
  void Set(int high, int low, uint64_t value) {
    for (int bit = low; bit <= high; ++bit) {
      const uint32_t mask = 1u << bit % 32;
      words_[bit / 32] = (words_[bit / 32] & ~mask) | (value >> (bit - low) & 1 ? mask : 0);
    }
  }
  const uint32_t (&words() const)[96] { return words_; }

 private:
  uint32_t words_[96] = {};
};

// Version 3.0.
QueueMetaData Ampere(uint64_t program, uint64_t bank, uint32_t blocks, uint32_t threads) {
  QueueMetaData qmd;
  qmd.Set(583, 580, 3);
  qmd.Set(415, 384, blocks);
  qmd.Set(431, 416, 1);
  qmd.Set(463, 448, 1);
  qmd.Set(607, 592, threads);
  qmd.Set(623, 608, 1);
  qmd.Set(639, 624, 1);
  qmd.Set(656, 648, kRegisters);
  qmd.Set(1567, 1536, program);
  qmd.Set(1584, 1568, program >> 32);
  qmd.Set(640, 640, 1);
  qmd.Set(1055, 1024, bank);
  qmd.Set(1072, 1056, bank >> 32);
  qmd.Set(1087, 1075, kBankBytes >> 4);
  return qmd;
}

// Version 4.0.
QueueMetaData Hopper(uint64_t program, uint64_t bank, uint32_t blocks, uint32_t threads) {
  QueueMetaData qmd;
  qmd.Set(583, 580, 4);
  qmd.Set(25, 23, 2);  // a grid of blocks
  qmd.Set(1055, 1024, blocks);
  qmd.Set(1071, 1056, 1);
  qmd.Set(1103, 1088, 1);
  qmd.Set(1167, 1152, threads);
  qmd.Set(1183, 1168, 1);
  qmd.Set(1199, 1184, 1);
  qmd.Set(1208, 1200, kRegisters);
  qmd.Set(1247, 1216, program);
  qmd.Set(1272, 1248, program >> 32);
  qmd.Set(416, 416, 1);
  qmd.Set(1567, 1536, bank >> 6);
  qmd.Set(1586, 1568, bank >> 38);
  qmd.Set(1599, 1587, kBankBytes >> 4);
  return qmd;
}

template <typename Word, size_t N>
void Copy(const Buffer& to, uint64_t offset, const Word (&from)[N]) {
  uint32_t words[sizeof from / 4];
  memcpy(words, from, sizeof from);
  for (size_t i = 0; i < std::size(words); ++i) to.words[offset / 4 + i] = words[i];
}

}  // namespace

void LaunchStore(Gpu& gpu, Channel& compute, uint64_t out, uint32_t value, uint32_t blocks,
                 uint32_t threads) {
  constexpr uint64_t kBank = 0x1000, kQmd = 0x2000;
  const bool hopper = gpu.Has(HOPPER_COMPUTE_A);
  const Buffer memory = gpu.VideoMemory(64 << 10);
  if (hopper) {
    Copy(memory, 0, kCode90);
  } else {
    Copy(memory, 0, kCode80);
  }
  const uint64_t parameters = kBank + (hopper ? kParameters90 : kParameters80);
  Copy(memory, kBank, {threads, 1u, 1u});
  Copy(memory, parameters, {static_cast<uint32_t>(out), static_cast<uint32_t>(out >> 32), value});
  const QueueMetaData qmd =
      (hopper ? Hopper : Ampere)(memory.address, memory.address + kBank, blocks, threads);
  Copy(memory, kQmd, qmd.words());
  constexpr uint32_t kSubchannel = 0, kInvalidateCopySchedule = 3;
  compute.Push(kSubchannel, compute::kSendPcasA,
               {static_cast<uint32_t>((memory.address + kQmd) >> 8)});
  compute.Push(kSubchannel, compute::kSendSignalingPcas2B, {kInvalidateCopySchedule});
}

}  // namespace raw
