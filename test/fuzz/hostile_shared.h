// What all processes of the attack share, and the random numbers that decide.
#ifndef PHANTORA_TEST_FUZZ_HOSTILE_SHARED_H_
#define PHANTORA_TEST_FUZZ_HOSTILE_SHARED_H_

#include <time.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace phantora::hostile {

enum Kind {
  kOpenClose,
  kEscape,
  kMutated,
  kControl,
  kAlloc,
  kFree,
  kDup,
  kExport,
  kEvents,
  kUvm,
  kUvmMutated,
  kMap,
  kMemfd,
  kPushbuffer,
  kChannel,
  kPaths,
  kPass,
  kFork,
  kSleeps,
  kWaits,
  kTimers,
  kPorts,
  kBomb,
  kKinds
};
inline constexpr const char* kKindNames[kKinds] = {"open and close",
                                                   "random escapes",
                                                   "mutated calls",
                                                   "controls",
                                                   "allocations",
                                                   "frees",
                                                   "duplications",
                                                   "exports",
                                                   "events",
                                                   "random UVM ioctls",
                                                   "mutated UVM",
                                                   "mappings",
                                                   "memfd tricks",
                                                   "pushbuffers",
                                                   "channels",
                                                   "path calls",
                                                   "passed files",
                                                   "forks",
                                                   "sleeps and clocks",
                                                   "waits",
                                                   "timers",
                                                   "ports",
                                                   "bombs"};

struct Shared {
  std::atomic<uint64_t> calls[kKinds];
  std::atomic<uint64_t> total, generations, kills, rigs;
  std::atomic<uint32_t> handles[256];  // clients and objects of all processes
  std::atomic<bool> stop;
  std::atomic<uint64_t> corrupted;   // files of others that could be written
  std::atomic<uint64_t> longest_ns;  // of a call that should take microseconds
};
inline Shared* shared = nullptr;

inline uint64_t NowNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000 + static_cast<uint64_t>(now.tv_nsec);
}

// SplitMix64: small, and good enough to reach every branch.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  uint32_t Below(uint64_t bound) { return static_cast<uint32_t>(Next() % bound); }
  bool OneIn(uint32_t n) { return Below(n) == 0; }
  template <typename T, size_t N>
  T Of(const T (&list)[N]) {
    return list[Below(N)];
  }
  uint64_t Boundary() {
    static constexpr uint64_t kEdges[] = {0,
                                          1,
                                          2,
                                          3,
                                          4,
                                          7,
                                          8,
                                          0xff,
                                          0x100,
                                          0xfff,
                                          0x1000,
                                          0x1001,
                                          0xffff,
                                          0x10000,
                                          0x1fffff,
                                          0x200000,
                                          0x7fffffff,
                                          0x80000000,
                                          0xffffffff,
                                          0x100000000,
                                          0x7fffffffffff,
                                          0x800000000000,
                                          0x1ffffffffffff,
                                          0x2000000000000,
                                          0x7fffffffffffffff,
                                          0x8000000000000000,
                                          0xfffffffffffff000,
                                          0xffffffffffffffff};
    const uint64_t edge = Of(kEdges);
    return OneIn(4) ? edge + Below(5) - 2 : edge;
  }

 private:
  uint64_t state_;
};

}  // namespace phantora::hostile

#endif  // PHANTORA_TEST_FUZZ_HOSTILE_SHARED_H_
