// The steps of a rank, found from what repeats, and what their time went to.
#ifndef PHANTORA_TOOLS_OBSERVE_STEP_VIEW_H_
#define PHANTORA_TOOLS_OBSERVE_STEP_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "clock/virtual_time.h"

namespace phantora {

// A program does not say where its steps begin. But the kernels that it launches repeat: a step is
// what lies between two launches of a kernel between which the same kernels are launched again and
// again. Of all kernels that one is taken whose repetitions cover the most launches; of those that
// cover about as many, the one that is launched most rarely (an optimizer's, not a layer's). A step
// of a server is one of its engine, with the batch that it has most often. Keeps the last launches
// only, so memory is bounded.
class StepView {
 public:
  // What steps are held against.
  struct Terms {
    double peak_flops_per_s = 0;  // of a GPU's tensor cores in bf16, dense; 0: not known
    double tokens = 0;            // in a step, of all ranks together; 0: nobody has said
  };
  enum class Kind : uint8_t { kCompute, kCommunication, kCopy };
  struct Work {
    VirtualTime start, end;
    uint64_t channel = 0;  // with its GPU
    Kind kind = Kind::kCompute;
    double flops = 0;
  };
  // In the order in which a channel does it; that of channels does not matter.
  void Add(const Work& work, const std::string& name);
  // Bytes of GPU memory that are taken from `at` on.
  void Memory(VirtualTime at, int64_t bytes);

  struct Step {
    VirtualTime start;
    VirtualSpan time;           // until the next begins
    VirtualSpan compute;        // at least one kernel that is not NCCL's is under way
    VirtualSpan communication;  // of NCCL
    VirtualSpan exposed;        // communication, and no compute
    VirtualSpan idle;           // nothing is under way: it waits for the processor, or for others
    double flops = 0;
    int64_t peak_memory = 0;  // bytes
  };
  struct Steps {
    size_t kernels = 0;  // of the channel with the most, in a step
    std::vector<Step> steps;
    const Step& median() const;  // by time
  };
  // nullopt: nothing repeats three times.
  std::optional<Steps> Find() const;

 private:
  struct Entry {
    int64_t start, end;  // ps
    uint64_t channel;
    float flops;
    uint32_t name;
    Kind kind;
  };
  // What a sequence of launches repeats: where its steps begin, in it.
  struct Period {
    size_t length = 0;
    std::vector<std::pair<size_t, size_t>> steps;  // from, to
  };
  static Period FindPeriod(const std::vector<uint32_t>& names);
  // `next` is where the call before, of a step before this one, has found the level at its
  // beginning; 0 at first.
  int64_t PeakMemory(int64_t from, int64_t to, size_t* next) const;

  std::deque<Entry> entries_;
  absl::flat_hash_map<std::string, uint32_t> names_;
  std::deque<std::pair<int64_t, int64_t>> memory_;  // ps, bytes
};

}  // namespace phantora

#endif  // PHANTORA_TOOLS_OBSERVE_STEP_VIEW_H_
