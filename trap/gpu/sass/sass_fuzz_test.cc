// Machine code is a tracee's: whatever its words are, executing them must end, and touch nothing
// but the launch's memory. Words are made from the encodings' rows, so that most are accepted, and
// then spoiled.
//
//   sass_fuzz_test [PROGRAMS [SEED]]
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "trap/gpu/sass/execute.h"
#include "trap/gpu/sass/programs_for_test.h"
#include "uvm_model/device_memory.h"

namespace phantora::sass {
namespace {

constexpr uint64_t kAt = 0x10000, kBytes = 1 << 16,
                   kPieceAt = 0x100000;  // low, so that small numbers are addresses

int programs = 20'000;
uint64_t seed = 1;

class Maker {
 public:
  explicit Maker(uint64_t from) : random_(from) {
    for (int operation = 0; operation < 512; ++operation) {
      for (int form = 0; form < 8; ++form) {
        for (const Encoding& encoding : EncodingsOf(operation, form)) {
          choices_.push_back({&encoding, operation, form});
        }
      }
    }
  }

  uint64_t Below(uint64_t end) { return random_() % end; }

  Word Make() {
    const auto& [encoding, operation, form] = choices_[Below(choices_.size())];
    Word word = {static_cast<uint64_t>(operation | form << 9), 0};
    Put(word, 12, 4, Below(3) == 0 ? Below(16) : 7);
    // Small registers, so that instructions meet.
    for (const int at : {16, 24, 32, 64}) Put(word, at, 8, Below(8) == 0 ? random_() : Below(12));
    if (Below(2) == 0) Put(word, 32, 32, Below(4) == 0 ? random_() : Below(256) * 4);
    if (form == 3 || form == 5) Put(word, 32, 32, Below(64) << 8);
    if (form == 6 || form == 7) Put(word, 91, 1, 1), Put(word, 32, 8, Below(64));
    for (const auto& operand : encoding->operands) Put(word, operand);
    for (const Modifier& modifier : encoding->modifiers) {
      uint64_t value = Below(modifier.spellings.size());
      for (const auto& part : modifier.parts) {
        Put(word, part.at, part.width, value);
        value >>= part.width;
      }
    }
    if (operation >= 0x80 && operation < 0xc0) Put(word, 91, 1, 1);
    if (Below(16) == 0) {
      const auto bit = static_cast<int>(Below(128));
      (bit < 64 ? word.low : word.high) ^= uint64_t{1} << bit % 64;
    }
    return word;
  }

 private:
  struct Choice {
    const Encoding* encoding;
    int operation, form;
  };

  static void Put(Word& word, int at, int width, uint64_t value) {
    for (int i = 0; i < width; ++i, value >>= 1) {
      uint64_t& half = at + i < 64 ? word.low : word.high;
      const uint64_t bit = uint64_t{1} << (at + i) % 64;
      half = (value & 1) != 0 ? half | bit : half & ~bit;
    }
  }
  void Put(Word& word, const Operand& operand) {
    switch (operand.kind) {
      case OperandKind::kPredicate:
      case OperandKind::kUniformPredicate:
        Put(word, operand.at, 3, Below(8));
        if (operand.inverted != 0) Put(word, operand.inverted, 1, Below(2));
        return;
      case OperandKind::kPredicateResult:
      case OperandKind::kUniformPredicateResult:
        Put(word, operand.at, 3, Below(8));
        return;
      case OperandKind::kExactly:
        Put(word, operand.at, operand.width, operand.value);
        return;
      case OperandKind::kUnsigned:
      case OperandKind::kSigned:
        Put(word, operand.at, operand.width, random_());
        return;
      case OperandKind::kSpecialRegister:
        Put(word, 72, 8, 0x20 + Below(8));
        return;
      case OperandKind::kTarget:
        // Nearby, mostly.
        Put(word, 16, 8, 0);
        Put(word, 34, 48, (Below(64) - 32) * 4);
        return;
      case OperandKind::kAbsoluteTarget:
        Put(word, 16, 8, 0);
        Put(word, 34, 48, (Below(2) == 0 ? Below(64) : kPieceAt / kWordBytes + Below(8)) * 4);
        return;
      case OperandKind::kWarpState:
        Put(word, operand.at, 8, 16 + Below(16));
        return;
      case OperandKind::kAddress:
        Put(word, 40, 24, Below(4) == 0 ? random_() : Below(64) * 16);
        for (const int at : {70, 71, 76, 90, 91}) Put(word, at, 1, 1);
        return;
      default:
        return;
    }
  }

  std::mt19937_64 random_;
  std::vector<Choice> choices_;
};

TEST(SassFuzzTest, AnyCodeEnds) {
  Maker maker(seed);
  auto pages = std::make_shared<PageStore>(64 << 20);
  AddressSpace space;
  space.Map(kAt, kBytes, std::make_shared<DeviceMemory>(pages, kBytes), 0);
  // Tensors, whose maps lie where small numbers point to.
  for (uint32_t at = 0; at < 64; ++at) {
    const uint32_t map[16] = {static_cast<uint32_t>(kAt),
                              0,
                              static_cast<uint32_t>(maker.Below(1 << 15)),
                              1 + at,
                              4,
                              4,
                              4,
                              0,
                              63,
                              31,
                              3,
                              3,
                              3,
                              static_cast<uint32_t>(15 << 24 | maker.Below(512)),
                              static_cast<uint32_t>(maker.Below(1 << 20)),
                              static_cast<uint32_t>(maker.Below(64))};
    ASSERT_FALSE(space.Write(kAt + uint64_t{at} * 64, map, sizeof map));
  }
  Executor executor(2);
  std::vector<uint8_t> bank(4096);
  for (size_t i = 0; i < bank.size(); ++i) bank[i] = static_cast<uint8_t>(i * 7);
  uint64_t accepted = 0, words = 0, done = 0;
  for (int i = 0; i < programs; ++i) {
    const Architecture architecture = maker.Below(2) == 0 ? 80 : 90;
    std::vector<Word> code = {ReadSpecialRegister(0, 0x21),
                              ReadSpecialRegister(1, 0x25),
                              MoveImmediate(2, static_cast<uint32_t>(kAt)),
                              MoveImmediate(3, 0),
                              MultiplyAddWideImmediate(4, 0, 16, 2),
                              CompareImmediate(0, 1, 0, 7)};
    const uint64_t length = 1 + maker.Below(40);
    for (uint64_t at = 0; at < length; ++at) {
      Word word = maker.Make();
      // Mostly words that are executed: the first that is not ends a program.
      for (int tries = 0; tries < 8 && maker.Below(200) != 0; ++tries) {
        if (Decode(word, architecture, at).encoding != nullptr) break;
        word = maker.Make();
      }
      code.push_back(word);
    }
    code.push_back(Exit());
    // Code elsewhere, of some.
    std::vector<Program::Piece> pieces;
    if (maker.Below(4) == 0) pieces.push_back({.address = kPieceAt, .code = CodeOf(code)});
    const Program program(CodeOf(code), architecture, std::move(pieces));
    for (uint32_t at = 0; at < program.size(); ++at) accepted += program.IsUnderstood(at) ? 1 : 0;
    words += program.size();
    Launch launch = {
        .grid = {2, 1, 1},
        .block = {static_cast<uint32_t>(1 + maker.Below(70)), 1, 1},
        .cluster = {static_cast<uint32_t>(1 + maker.Below(architecture >= 90 ? 2 : 1)), 1, 1},
        .registers = static_cast<int>(maker.Below(256)),
        .shared_bytes = static_cast<uint32_t>(maker.Below(4096)),
        .together = maker.Below(4) == 0,
        .constants = {}};
    launch.constants[0] = bank;
    launch.tracking = static_cast<Tracking>(maker.Below(3));
    space.SetTaint(kAt + maker.Below(kBytes), maker.Below(256), maker.Below(2) == 0);
    if (maker.Below(8) == 0) {
      const Sample sample = executor.Try(launch, program, space, 20'000, 20'000, NeverInterrupted);
      for (const auto& [begin, end] : sample.written) ASSERT_LT(begin, end);
    }
    done += executor.Run(launch, program, space, 20'000, NeverInterrupted).done() ? 1 : 0;
  }
  std::printf("%d programs, %llu of %llu words accepted, %llu programs executed to their end\n",
              programs, static_cast<unsigned long long>(accepted),
              static_cast<unsigned long long>(words), static_cast<unsigned long long>(done));
  // Else it is not the execution that is tested.
  EXPECT_GT(accepted * 2, words);
}

}  // namespace
}  // namespace phantora::sass

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc > 1) phantora::sass::programs = std::atoi(argv[1]);
  if (argc > 2) phantora::sass::seed = std::strtoull(argv[2], nullptr, 10);
  return RUN_ALL_TESTS();
}
