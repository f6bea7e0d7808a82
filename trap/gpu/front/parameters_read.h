// Which of a launch's parameters tell what it writes.
#ifndef PHANTORA_TRAP_GPU_FRONT_PARAMETERS_READ_H_
#define PHANTORA_TRAP_GPU_FRONT_PARAMETERS_READ_H_

#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "trap/gpu/front/launch_outputs.h"

namespace phantora {

// [begin, end) in bytes from the first parameter, in order, apart.
using ByteRanges = std::vector<std::pair<uint32_t, uint32_t>>;

// Is all of a pointer at `at` in one of them?
bool HasPointer(const ByteRanges& ranges, uint32_t at);

// Blocks of a grid and threads of a block.
using GridAndBlock = std::array<uint32_t, 6>;

// What launches of one kernel read of their parameters. One that finds the same there as another
// reads no more, whatever lies elsewhere (between parameters, and in tables of which it uses a
// part, there may be anything), and writes as much, wherever its pointers point. Numbers with a
// point (factors, rates) tell nothing of that either, once launches that differ in nothing else
// were seen to write the same.
class ParametersRead {
 public:
  explicit ParametersRead(ByteRanges ranges);

  const ByteRanges& ranges() const { return ranges_; }
  // Of what tells what a launch writes. `pointers`: where among its parameters.
  uint64_t HashOf(absl::Span<const uint8_t> parameters, absl::Span<const uint32_t> pointers) const;
  // A launch was seen to write that.
  void Learn(const GridAndBlock& shape, absl::Span<const uint8_t> parameters,
             absl::Span<const uint32_t> pointers, const LaunchOutputs& outputs);

 private:
  // Of four bytes of the parameters those that are read.
  struct Word {
    uint32_t at = 0, mask = 0;
    uint8_t same = 0;        // how often it was another number, and what was written the same
    bool tells = false;      // it was not the same
    bool is_number = false;  // it tells nothing
  };
  struct Seen {
    GridAndBlock shape;
    std::vector<uint64_t> values;
    LaunchOutputs outputs;
  };
  // Of each word; kPointer for those of pointers.
  static constexpr uint64_t kPointer = uint64_t{1} << 32;
  std::vector<uint64_t> ValuesOf(absl::Span<const uint8_t> parameters,
                                 absl::Span<const uint32_t> pointers) const;
  // As far as one can tell by its value.
  bool MayBeNumber(absl::Span<const uint64_t> values, size_t index) const;

  ByteRanges ranges_;
  std::vector<Word> words_;
  std::optional<Seen> last_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_FRONT_PARAMETERS_READ_H_
