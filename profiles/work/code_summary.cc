#include "profiles/work/code_summary.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

namespace phantora {
namespace {

constexpr uint64_t kInstruction = 16;
constexpr size_t kMostLoops = 64;
// Ways through the code that have left it and come back later, some KiB each.
constexpr size_t kMostJoining = 256;
// That may end a loop.
constexpr int kMostComparisons = 32;
// How far back, and through how many copies, the bound of a loop is looked for.
constexpr size_t kMostInstructionsBack = 4096;
constexpr int kMostCopies = 4;
constexpr uint32_t kZeroRegister = 255;

// The low nine bits of an instruction say what it does, the next three where its second
// operand comes from.
enum Operation : uint32_t {
  kMove = 0x002,
  kSelect = 0x007,
  kFloatSelect = 0x008,
  kIntegerCompare = 0x00c,
  kIntegerAdd = 0x010,
  kMultiplyAdd = 0x024,  // IMAD, by which registers are copied too
  kFloatMultiply = 0x020,
  kFloatAdd = 0x021,
  kFloatMultiplyAdd = 0x023,
  kDoubleMultiply = 0x028,
  kDoubleAdd = 0x029,
  kDoubleMultiplyAdd = 0x02b,
  kHalfAdd = 0x030,
  kHalfMultiplyAdd = 0x031,
  kHalfMultiply = 0x032,
  kHalfMatrix = 0x03c,  // HMMA, 16 x 8 x 16 by a warp
  kUniformCompare = 0x08c,
  kUniformAdd = 0x090,
  kUniformConstant = 0x0b9,  // ULDC
  kSpecialFunction = 0x108,
  kReadSpecial = 0x119,  // S2R
  kFirstControl = 0x140,
  kBranch = 0x147,
  kExit = 0x14d,
  kLastControl = 0x15f,
  kGlobalLoad = 0x181,
  kLoadConstant = 0x182,  // LDC
  kGlobalStore = 0x186,
  kReduce = 0x18e,
  kAtomic = 0x1a8,
  kGlobalToShared = 0x1ae,  // LDGSTS
  kGroupMatrix = 0x1f0,     // HGMMA, 64 x N x 16 by four warps
};
constexpr uint32_t kRegisters = 1, kImmediate = 4, kConstantBank = 5;

struct Instruction {
  explicit Instruction(const uint8_t* at) {
    std::memcpy(&low, at, 8);
    std::memcpy(&high, at + 8, 8);
  }
  uint64_t low, high;
  uint32_t operation() const { return low & 0x1ff; }
  uint32_t form() const { return low >> 9 & 7; }
  uint32_t result() const { return low >> 16 & 0xff; }
  uint32_t first() const { return low >> 24 & 0xff; }
  uint32_t second() const { return low >> 32 & 0xff; }
  int32_t immediate() const { return static_cast<int32_t>(low >> 32); }
  // Bytes of a global access: 1, 1, 2, 2, 4, 8, 16 by the field's value.
  uint32_t width() const {
    constexpr uint32_t kWidths[8] = {1, 1, 2, 2, 4, 8, 16, 16};
    return kWidths[high >> 9 & 7];
  }
  // Is this a load whose data are to be evicted last?
  bool kept() const { return operation() == 0x181 && (high >> 20 & 7) == 2; }
  // The offset of an operand c[0][offset], bytes; -1: another bank.
  int32_t constant() const {
    const uint64_t field = low >> 38;
    return field >> 16 == 0 ? static_cast<int32_t>(field & 0xffff) : -1;
  }
  // The predicate that guards it, and the one that a comparison sets; 7 is always true.
  uint32_t guard() const { return low >> 12 & 7; }
  uint32_t compared() const { return high >> 17 & 7; }
  uint32_t third() const { return high & 0xff; }
  // Of a branch or an exit: goes every thread there? There is a predicate more than the guard, and
  // of branches a form (.DIV, .CONV) that is taken where threads have diverged.
  bool unconditional() const {
    const bool diverged = operation() == kBranch && (low >> 32 & 3) >= 2;
    return (low >> 12 & 0xf) == 7 && (high >> 23 & 0xf) == 7 && !diverged;
  }
  bool uniform() const { return operation() == kUniformAdd || operation() == kUniformConstant; }
};

class Reader {
 public:
  Reader(absl::Span<const uint8_t> code, uint32_t parameters_at)
      : code_(code), count_(code.size() / kInstruction), parameters_at_(parameters_at) {}

  CodeSummary Read() {
    FindLoops();
    CodeSummary summary;
    for (size_t i = 0; i < loops_.size(); ++i) {
      CodeSummary::Part part;
      part.outer = loops_[i].outer;
      part.trips = TripsOf(i);
      summary.parts.push_back(part);
    }
    const Way none = {summary.parts};
    Way way = none, longest = none;
    std::map<size_t, Way> joining;  // by where
    // Warps that load for others go another way than those that multiply: of tensor cores all code
    // counts.
    std::vector<double> tensor_flops(summary.parts.size());
    bool alive = true;
    for (size_t i = 0; i < count_; ++i) {
      if (const auto joined = joining.find(i); joined != joining.end()) {
        if (!alive || way < joined->second) way = std::move(joined->second);
        joining.erase(joined);
      } else if (!alive) {
        way = none;  // who comes here is not known
      }
      alive = true;
      const Instruction instruction = At(i);
      Do(instruction, i, summary, way);
      CodeSummary::Part done;
      Arithmetic(instruction, done);
      tensor_flops[part_of_[i]] += done.tensor_flops;
      const bool goes = instruction.operation() == kBranch, ends = instruction.operation() == kExit;
      if (!goes && !ends) continue;
      if (goes) {
        const auto to = TargetOf(i);
        if (to && *to > i && *to < count_ &&
            (joining.size() < kMostJoining || joining.contains(*to))) {
          auto& there = joining.try_emplace(*to, way).first->second;
          if (there < way) there = way;
        }
      } else if (longest < way) {
        longest = way;
      }
      alive = !instruction.unconditional();
    }
    if (alive && longest < way) longest = std::move(way);
    summary.parts = std::move(longest.parts);
    for (size_t i = 0; i < tensor_flops.size(); ++i) {
      summary.parts[i].tensor_flops = tensor_flops[i];
    }
    return summary;
  }

 private:
  struct Loop {
    size_t begin, end;   // instructions, both in it
    uint32_t outer = 0;  // part
  };
  // Through the code, as far as it has come.
  struct Way {
    std::vector<CodeSummary::Part> parts;
    double bytes = 0, flops = 0;  // of all parts, each once
    // In latencies of memory: the present, and when what was loaded into a register is there.
    double now = 0;
    std::array<double, 256> there{};

    bool operator<(const Way& other) const {
      return std::tuple(bytes, flops, now) < std::tuple(other.bytes, other.flops, other.now);
    }
  };
  struct Value {
    double constant = 0;
    int32_t parameter_at = -1;
  };

  Instruction At(size_t index) const { return Instruction(code_.data() + index * kInstruction); }

  void Do(const Instruction& instruction, size_t index, CodeSummary& summary, Way& way) const {
    CodeSummary::Part& part = way.parts[part_of_[index]];
    const double before = way.now;
    const uint32_t loaded = LoadedBy(instruction);
    Wait(instruction, way);
    part.rounds += way.now - before;
    if (loaded > 0) {
      (instruction.kept() ? part.kept : part.loaded) += loaded, summary.loaded += loaded;
      way.bytes += loaded;
      if (instruction.operation() == kGlobalLoad) {
        for (uint32_t i = 0; i < std::max(1U, loaded / 4); ++i) {
          const uint32_t into = instruction.result() + i;
          if (into < kZeroRegister) way.there[into] = way.now + 1;
        }
      }
    } else if (instruction.operation() == kGlobalStore) {
      part.stored += instruction.width(), summary.stored += instruction.width();
      way.bytes += instruction.width();
    } else if (instruction.operation() == kSelect || instruction.operation() == kFloatSelect) {
      ++summary.selects;
    } else {
      const double flops = part.flops;
      Arithmetic(instruction, part);
      way.flops += part.flops - flops;
    }
  }

  // Until what it reads or writes is there.
  static void Wait(const Instruction& instruction, Way& way) {
    const uint32_t operation = instruction.operation();
    if (operation >= kFirstControl && operation <= kLastControl) return;
    const auto wait = [&way](uint32_t on) {
      if (on < kZeroRegister) way.now = std::max(way.now, way.there[on]);
    };
    const bool memory = operation == kGlobalLoad || operation == kGlobalStore ||
                        operation == kReduce || operation == kAtomic ||
                        operation == kGlobalToShared;
    if (memory) {
      wait(instruction.first()), wait(instruction.first() + 1);  // an address
      if (operation == kGlobalStore) {
        for (uint32_t i = 0; i < std::max(1U, instruction.width() / 4); ++i) {
          wait(instruction.second() + i);
        }
        return;
      }
      wait(instruction.result());
      return;
    }
    if (operation != kReadSpecial) {
      if (operation != kMove) wait(instruction.first());
      if (const uint32_t form = instruction.form(); form == kRegisters) wait(instruction.second());
      if (operation != kMove) wait(instruction.third());
    }
    wait(instruction.result());
  }

  static uint32_t LoadedBy(const Instruction& instruction) {
    switch (instruction.operation()) {
      case kGlobalLoad:
      case kGlobalToShared:
        return instruction.width();
      case kReduce:
      case kAtomic:
        return 8;  // read and written, four bytes each as a rule
      default:
        return 0;
    }
  }

  static void Arithmetic(const Instruction& instruction, CodeSummary::Part& part) {
    switch (instruction.operation()) {
      case kFloatMultiply:
      case kFloatAdd:
      case kSpecialFunction:
        part.flops += 1;
        break;
      case kFloatMultiplyAdd:
      case kHalfAdd:
      case kHalfMultiply:
        part.flops += 2;
        break;
      case kDoubleMultiply:
      case kDoubleAdd:
        part.flops += 2;  // at half the rate, on the GPUs that this is for
        break;
      case kDoubleMultiplyAdd:
      case kHalfMultiplyAdd:
        part.flops += 4;
        break;
      case kHalfMatrix:
        part.tensor_flops += 2.0 * 16 * 8 * 16 / 32;
        break;
      case kGroupMatrix:
        // N / 8 - 1 in bits 53 to 57.
        part.tensor_flops += 2.0 * 64 * 8 * ((instruction.low >> 53 & 31) + 1) * 16 / 128;
        break;
      default:
        break;
    }
  }

  // Where a branch goes, as an instruction; nothing if that is before the code.
  std::optional<size_t> TargetOf(size_t index) const {
    const Instruction branch = At(index);
    // In words from the next instruction: signed, from bit 34 on. Hopper has its low eight
    // bits in bits 16 to 23, before it they are 0 there.
    const auto upper = static_cast<int64_t>(static_cast<int32_t>(branch.low >> 32) >> 2);
    const int64_t hopper = upper * 256 + branch.result();
    const int64_t words = branch.result() != 0 || upper % 4 != 0 ? hopper : upper;
    const int64_t to = static_cast<int64_t>(index) + 1 + (words >= 0 ? words / 4 : -(-words / 4));
    if (to < 0) return std::nullopt;
    return static_cast<size_t>(to);
  }

  // Nothing if it is no branch, or not backwards.
  std::optional<size_t> BackTo(size_t index) const {
    if (At(index).operation() != kBranch) return std::nullopt;
    const auto to = TargetOf(index);
    return to && *to < index ? to : std::nullopt;
  }

  void FindLoops() {
    for (size_t i = 0; i < count_ && loops_.size() < kMostLoops; ++i) {
      if (const auto begin = BackTo(i)) loops_.push_back({*begin, i});
    }
    // Outer ones first.
    std::sort(loops_.begin(), loops_.end(), [](const Loop& a, const Loop& b) {
      return a.end - a.begin != b.end - b.begin ? a.end - a.begin > b.end - b.begin
                                                : a.begin < b.begin;
    });
    for (size_t i = 0; i < loops_.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (loops_[j].begin <= loops_[i].begin && loops_[i].end <= loops_[j].end) {
          loops_[i].outer = static_cast<uint32_t>(j + 1);
        }
      }
    }
    part_of_.assign(count_, 0);
    for (size_t i = 0; i < loops_.size(); ++i) {
      std::fill(part_of_.begin() + static_cast<ptrdiff_t>(loops_[i].begin),
                part_of_.begin() + static_cast<ptrdiff_t>(loops_[i].end) + 1,
                static_cast<uint8_t>(i + 1));
    }
  }

  // What a register holds when the loop begins, if that is a number or a parameter plus one.
  std::optional<Value> ValueBefore(size_t index, uint32_t wanted, bool uniform,
                                   int copies = kMostCopies) const {
    const size_t stop = index > kMostInstructionsBack ? index - kMostInstructionsBack : 0;
    for (size_t i = index; i > stop; --i) {
      const Instruction from = At(i - 1);
      const bool writes = from.operation() == kMove || from.operation() == kIntegerAdd ||
                          from.operation() == kMultiplyAdd || from.operation() == kLoadConstant ||
                          from.uniform();
      if (!writes || from.uniform() != uniform || from.result() != wanted) continue;
      switch (from.operation()) {
        case kMove:
          if (from.form() == kImmediate) return Value{double(from.immediate()), -1};
          if (from.form() == kConstantBank) return Parameter(from.constant());
          break;
        case kMultiplyAdd:  // IMAD.MOV: 0 x 0 + a constant
          if (from.first() == kZeroRegister && from.form() == kConstantBank) {
            return Parameter(from.constant());
          }
          break;
        case kLoadConstant:
        case kUniformConstant:
          return Parameter(from.constant());
        case kIntegerAdd:
        case kUniformAdd: {
          if (from.form() != kImmediate || copies == 0) return std::nullopt;
          auto value = ValueBefore(i - 1, from.first(), uniform, copies - 1);
          if (value) value->constant += from.immediate();
          return value;
        }
        default:
          break;
      }
      return std::nullopt;
    }
    return std::nullopt;
  }

  std::optional<Value> Parameter(int32_t constant) const {
    if (constant < static_cast<int32_t>(parameters_at_)) return std::nullopt;
    return Value{0, constant - static_cast<int32_t>(parameters_at_)};
  }

  // The step of each register that is counted in the loop; 0 if it is not. Uniform registers
  // come second.
  using Steps = std::array<std::array<double, 256>, 2>;
  Steps StepsIn(const Loop& loop) const {
    Steps steps{};
    for (size_t i = loop.begin; i <= loop.end; ++i) {
      const Instruction add = At(i);
      const bool uniform = add.operation() == kUniformAdd;
      if (!uniform && add.operation() != kIntegerAdd) continue;
      double& step = steps[uniform ? 1 : 0][add.result()];
      if (add.form() == kImmediate && add.first() == add.result() && step == 0) {
        step = add.immediate();
      }
    }
    return steps;
  }

  CodeSummary::Trips TripsOf(size_t number) const {
    const Loop& loop = loops_[number];
    const Steps steps = StepsIn(loop);
    CodeSummary::Trips best;
    double most = 0;
    int looked_at = 0;
    for (size_t i = loop.begin; i <= loop.end; ++i) {
      if (part_of_[i] != number + 1) continue;  // a loop within has its own
      const Instruction compare = At(i);
      const bool uniform = compare.operation() == kUniformCompare;
      if (!uniform && compare.operation() != kIntegerCompare) continue;
      // It has to decide whether there is another turn.
      if (compare.compared() != At(loop.end).guard()) continue;
      if (++looked_at > kMostComparisons) break;
      uint32_t counter = compare.first();
      bool counter_uniform = uniform;
      double step = steps[uniform ? 1 : 0][counter];
      std::optional<Value> bound;
      if (compare.form() == kImmediate) {
        bound = Value{double(compare.immediate()), -1};
      } else if (compare.form() == kConstantBank) {
        bound = Parameter(compare.constant());
      } else {
        // Two registers, the second of which is uniform in form 6: either may count.
        const bool second_uniform = uniform || compare.form() == 6;
        if (step != 0) {
          bound = ValueBefore(loop.begin, compare.second(), second_uniform);
        } else {
          counter_uniform = second_uniform;
          counter = compare.second();
          step = steps[counter_uniform ? 1 : 0][counter];
          bound = ValueBefore(loop.begin, compare.first(), uniform);
        }
      }
      if (step == 0 || !bound) continue;
      // Down to 0 as a rule: from where it began.
      if (step < 0 && bound->constant == 0 && bound->parameter_at < 0) {
        bound = ValueBefore(loop.begin, counter, counter_uniform);
        if (!bound) continue;
      }
      // Small counters go through the stages of a pipeline; the largest is the loop's.
      const double reach = bound->parameter_at >= 0 ? 1e9 : std::abs(bound->constant / step);
      if (reach > most) {
        most = reach;
        best = {std::abs(step), bound->constant, bound->parameter_at};
      }
    }
    return best;
  }

  const absl::Span<const uint8_t> code_;
  const size_t count_;
  const uint32_t parameters_at_;
  std::vector<Loop> loops_;
  std::vector<uint8_t> part_of_;  // of each instruction
};

}  // namespace

CodeSummary Summarise(absl::Span<const uint8_t> code, uint32_t parameters_at) {
  return Reader(code, parameters_at).Read();
}

}  // namespace phantora
