// Executes a launch: all of it, or nothing.
#ifndef PHANTORA_TRAP_GPU_SASS_EXECUTE_H_
#define PHANTORA_TRAP_GPU_SASS_EXECUTE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trap/gpu/sass/program.h"
#include "trap/gpu/sass/warp.h"
#include "trap/gpu/sass/workers.h"

namespace phantora::sass {

class Block;

struct Launch {
  Dims grid, block, cluster;
  int registers = kNoRegister;
  uint32_t shared_bytes = 0;
  uint64_t code_address = 0;
  uint64_t began = 0;  // ns, what the GPU's timer says
  // Generic addresses of shared and local memory; 0 for those that GPUs have had.
  uint64_t shared_window = 0, local_window = 0;
  bool together = false;  // all blocks are under way at one time, since any may wait for any other
  // What it has written when it traps becomes visible, such as what its assertion says.
  bool keeps_trapped = false;
  Tracking tracking = Tracking::kNone;
  AccessCheck* check = nullptr;  // if accesses are looked at, see Outcome::wrong
  // By number; missing ones are zeros, as is what lies beyond their ends.
  std::array<absl::Span<const uint8_t>, 8> constants;
  uint64_t constants_address = 0;  // of number 0
};

struct Outcome {
  Stop stop;  // kNone: it is done, and what it wrote can be seen
  uint64_t thread_instructions = 0;
  uint64_t host_bytes = 0;  // of what it wrote: tainted, and where the host may see it
  // What the check has found, however the launch ended.
  std::vector<WrongAccess> wrong = {};
  bool done() const { return stop.reason == Stop::Reason::kNone; }
};
// What the outcome is in words, with the instruction and address.
std::string Describe(const Outcome& outcome, const Program& program);

// What a BPT.TRAP says beside that.
uint32_t TrapNumber(const Word& word);

// What some of a launch's blocks write, or all.
struct Sample {
  std::vector<std::pair<uint64_t, uint64_t>> written;  // ranges of addresses, in order, apart
  std::vector<std::pair<uint64_t, uint64_t>> of_one;   // of the cluster that wrote most
  uint64_t most_of_cluster = 0;                        // bytes that it wrote
  uint64_t clusters = 0;                               // of the launch
  bool is_all = false;                                 // and not some
  // All of the sample came to their end, and none may have waited for what another does: what is
  // left for the last of them to write nobody has seen.
  bool is_complete = true;
  // Bytes of constant bank 0 that it has read: ranges, in order, apart.
  std::vector<std::pair<uint32_t, uint32_t>> constants_read;
  uint64_t thread_instructions = 0;
};

// What one cluster of a launch does with global memory.
struct Watched {
  // Ranges of addresses, in order, apart.
  std::vector<std::pair<uint64_t, uint64_t>> read = {}, written = {};
  std::vector<uint8_t> bytes = {};  // of those written, one by one
  // Bytes of constant bank 0 that it has read: ranges, in order, apart.
  std::vector<std::pair<uint32_t, uint32_t>> constants_read = {};
  uint64_t thread_instructions = 0;
};

// Keeps what launches need, so that the next need not make it again. Not thread-safe.
class Executor {
 public:
  // `processors`: how many threads execute a launch together, the caller's among them.
  explicit Executor(int processors);
  ~Executor();

  // `most` thread instructions at most: a launch that would take more is given up. What is written
  // becomes visible when all blocks are over.
  //
  // Blocks run in the order of their numbers, several at once only where one waits for others; or,
  // where the first has told that it is worth it, in parts at one time, as long as no block does
  // what could let it see another: atomic operations and strong loads of global memory, clocks.
  // Of a launch in parts each block sees what those before it in its part have written, and memory
  // as it was; if it does not come to its end so, it is done again in order.
  // Now and then `interrupted` is asked, in the caller's thread, whether to give up.
  Outcome Run(const Launch& launch, const Program& program, AddressSpace& memory, uint64_t most,
              const std::function<bool()>& interrupted);

  // Executes some clusters, the first and the last of each direction and others between them, each
  // with memory as it is, of `most` thread instructions in all; and if then the launch seems to
  // take `most_of_all` at most, all of it. Nothing becomes visible.
  Sample Try(const Launch& launch, const Program& program, AddressSpace& memory, uint64_t most,
             uint64_t most_of_all, const std::function<bool()>& interrupted);

  // Executes cluster `number` alone, with memory as it is, to its end or for so many thread
  // instructions, and notes every byte that it reads and writes. Nothing becomes visible. nullopt:
  // it fails, or there is too much to note.
  std::optional<Watched> Watch(const Launch& launch, const Program& program, AddressSpace& memory,
                               uint64_t number, uint64_t instructions,
                               const std::function<bool()>& interrupted);

 private:
  struct Part;
  // False: nothing has such a shape.
  bool StateOf(const Launch& launch, const Program& program, LaunchState& state);
  // nullopt: it has to be done in order. `first` says how many clusters there are.
  std::optional<Outcome> RunInParts(Part& first, LaunchPages& pages, const LaunchState& state,
                                    const Program& program, uint64_t most, uint64_t expected,
                                    const std::function<bool()>& interrupted);
  // Clusters from `first` to before `end` as a part of a sample. False: that is enough.
  bool TryPart(LaunchState& state, const Program& program, AddressSpace& memory, uint64_t first,
               uint64_t end, uint64_t most, const std::function<bool()>& interrupted,
               Sample& sample);
  static void Commit(absl::Span<LaunchMemory* const> parts, Outcome& outcome);

  std::array<std::vector<uint8_t>, 8> banks_;
  std::array<size_t, 8> used_{};  // bytes of each that are not zeros
  std::vector<uint8_t> zeros_;
  PagePool pool_;
  Workers workers_;
  std::vector<std::vector<std::unique_ptr<Block>>> idle_;  // by worker
};

}  // namespace phantora::sass

#endif  // PHANTORA_TRAP_GPU_SASS_EXECUTE_H_
