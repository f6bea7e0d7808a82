#include "trap/gpu/front/launch_outputs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "trap/gpu/front/skipped_outputs.h"
#include "uvm_model/device_memory.h"

namespace phantora {
namespace {

constexpr uint64_t kInput = 0x7f1000000000, kOutput = 0x7f1000100000, kOther = 0x7f1000180000;
constexpr uint64_t kBytes = 1 << 21;

class LaunchOutputsTest : public testing::Test {
 protected:
  LaunchOutputsTest() : pages_(std::make_shared<PageStore>(64 << 20)) {
    memory_.Map(kInput, kBytes, std::make_shared<DeviceMemory>(pages_, kBytes), 0);
    const uint64_t words[] = {kInput, kOutput, 0x100000007, kOther};
    parameters_.resize(sizeof words);
    std::memcpy(parameters_.data(), words, sizeof words);
  }
  LaunchOutputs Outputs(const sass::Sample& sample, WorkFamily family = WorkFamily::kRows,
                        const KernelWork& work = {}) {
    return OutputsOf(sample, parameters_, PointersAmong(parameters_, memory_), memory_, family,
                     work);
  }
  // Rows of a tile.
  static void AddTile(sass::Sample& sample, uint64_t at, uint64_t width, uint64_t stride,
                      uint64_t rows) {
    std::vector<std::pair<uint64_t, uint64_t>> tile;
    for (uint64_t row = 0; row < rows; ++row) {
      tile.emplace_back(at + row * stride, at + row * stride + width);
    }
    sample.written.insert(sample.written.end(), tile.begin(), tile.end());
    std::sort(sample.written.begin(), sample.written.end());
    sample.of_one = tile;
    sample.most_of_cluster = width * rows;
  }

  std::shared_ptr<PageStore> pages_;
  AddressSpace memory_;
  std::vector<uint8_t> parameters_;
};

TEST_F(LaunchOutputsTest, PointersAreWhatIsMapped) {
  EXPECT_EQ(PointersAmong(parameters_, memory_), (std::vector<uint32_t>{0, 8, 24}));
}

TEST_F(LaunchOutputsTest, BlocksOfAListAreAllOfIt) {
  sass::Sample sample;
  sample.clusters = 16;
  for (const uint64_t block : {0, 4, 8, 15}) AddTile(sample, kOutput + block * 512, 512, 512, 1);
  const LaunchOutputs outputs = Outputs(sample);
  EXPECT_TRUE(outputs.known);
  ASSERT_EQ(outputs.regions.size(), 1u);
  EXPECT_EQ(outputs.regions[0].parameter, 8u);
  EXPECT_EQ(outputs.regions[0].begin, 0u);
  EXPECT_EQ(outputs.regions[0].width, 16u * 512);
  EXPECT_TRUE(outputs.regions[0].is_exact);
}

TEST_F(LaunchOutputsTest, ColumnsOfAWiderMatrixAreRowsOfIt) {
  sass::Sample sample;
  sample.clusters = 4;  // of 2 by 2 tiles, 64 bytes of 8 rows each
  AddTile(sample, kOutput + 32, 64, 1024, 8);
  AddTile(sample, kOutput + 32 + 64 + 8 * 1024, 64, 1024, 8);
  const LaunchOutputs outputs = Outputs(sample);
  ASSERT_EQ(outputs.regions.size(), 1u);
  const OutputRegion& region = outputs.regions[0];
  EXPECT_EQ(region.begin, 32u);
  EXPECT_EQ(region.width, 128u);
  EXPECT_EQ(region.stride, 1024u);
  EXPECT_EQ(region.rows, 16u);
  EXPECT_TRUE(region.is_exact);
}

TEST_F(LaunchOutputsTest, RowsThatNoTriedBlockWritesMayBeWritten) {
  sass::Sample sample;
  sample.clusters = 8;  // of 1 by 8 tiles, of which the last was not tried
  AddTile(sample, kOutput, 64, 1024, 8);
  AddTile(sample, kOutput + 6 * 8 * 1024, 64, 1024, 8);
  const LaunchOutputs outputs = Outputs(sample);
  ASSERT_EQ(outputs.regions.size(), 1u);
  EXPECT_EQ(outputs.regions[0].width, 64u);
  EXPECT_EQ(outputs.regions[0].rows, 64u);
  EXPECT_FALSE(outputs.regions[0].is_exact);
}

TEST_F(LaunchOutputsTest, AProductIsAsLargeAsItsWorkSays) {
  KernelWork work;
  work.shape = {512, 24, 7, 2, 0};  // m, n, k, batch: 2 bytes each
  work.written_bytes = 512 * 24 * 2 * 2;
  sass::Sample sample;
  sample.clusters = 4;
  sample.is_complete = false;  // blocks took what is next
  AddTile(sample, kOutput + 256, 256, 1024, 8);
  LaunchOutputs outputs = Outputs(sample, WorkFamily::kGemm, work);
  EXPECT_TRUE(outputs.known);
  ASSERT_EQ(outputs.regions.size(), 1u);
  EXPECT_EQ(outputs.regions[0].begin, 0u);
  EXPECT_EQ(outputs.regions[0].width, 512u * 24 * 2 * 2);
  EXPECT_TRUE(outputs.regions[0].is_exact);
  // One of another size, by the same kernel, of as many bytes each, as far as they are there.
  const LaunchOutputs known = outputs;
  work.shape = {64, 10, 9, 1, 0};
  work.written_bytes = 64 * 10 * 2;
  auto other = OutputsOfProduct(known, parameters_, memory_, work);
  ASSERT_TRUE(other);
  EXPECT_EQ(other->regions[0].width, 64u * 10 * 2);
  EXPECT_EQ(other->regions[0].parameter, 8u);
  work.written_bytes = 64 * 10 * 3;
  EXPECT_FALSE(OutputsOfProduct(known, parameters_, memory_, work));
  work.shape[1] = kBytes;
  work.written_bytes = 64.0 * kBytes * 2;
  EXPECT_FALSE(OutputsOfProduct(known, parameters_, memory_, work));
  EXPECT_FALSE(OutputsOfProduct({}, parameters_, memory_, work));
  // Sizes are a program's: they may be anything.
  for (const double size : {0.0, -3.0, 0.25, 1e300, std::nan("")}) {
    work.shape = {size, 24, 7, 1, 0};
    work.written_bytes = size;
    EXPECT_FALSE(OutputsOfProduct(known, parameters_, memory_, work));
    EXPECT_FALSE(Outputs(sample, WorkFamily::kGemm, work).known);
    work.shape = {1, size, 7, 1, size};
    EXPECT_FALSE(Outputs(sample, WorkFamily::kAttention, work).known);
  }
  work = {};
  work.shape = {512, 24, 7, 2, 0};
  // Nobody knows what else there is.
  EXPECT_FALSE(Outputs(sample).known);
  // Rows that are farther apart than the work says.
  work.shape[0] = 300;
  outputs = Outputs(sample, WorkFamily::kGemm, work);
  EXPECT_FALSE(outputs.known);
}

TEST_F(LaunchOutputsTest, WhatGoesOnBehindAPointerIsTheNextOnes) {
  sass::Sample sample;
  sample.clusters = 1;
  sample.is_all = true;
  AddTile(sample, kOther - 64, 128, 128, 1);
  const LaunchOutputs outputs = Outputs(sample);
  EXPECT_TRUE(outputs.known);
  ASSERT_EQ(outputs.regions.size(), 2u);
  EXPECT_EQ(outputs.regions[0].begin, kOther - 64 - kOutput);
  EXPECT_EQ(outputs.regions[1].parameter, 24u);
  EXPECT_EQ(outputs.regions[1].width, 64u);
  // What is written where no pointer leads.
  AddTile(sample, kInput - 4096, 8, 8, 1);
  EXPECT_FALSE(Outputs(sample).known);
}

TEST_F(LaunchOutputsTest, WhatIsExactIsFilledAndAllIsTainted) {
  const LaunchOutputs outputs = {
      .known = true,
      .regions = {
          {.parameter = 8, .begin = 16, .width = 8, .stride = 32, .rows = 3, .is_exact = true},
          {.parameter = 24, .width = 64, .stride = 64}}};
  const std::vector<uint8_t> before(256, 7);
  const auto at = [this](uint64_t address) {
    uint16_t value = 0;
    EXPECT_FALSE(memory_.Read(address, &value, sizeof value));
    return value;
  };
  for (const Skipped kind : {Skipped::kZeros, Skipped::kNoise, Skipped::kStale}) {
    memory_.Write(kOutput, before.data(), before.size());
    memory_.Write(kOther, before.data(), before.size());
    SkippedOutputs skipped(kind, pages_);
    EXPECT_EQ(skipped.Leave(memory_, parameters_, outputs, WorkFamily::kGemm).seen, 0u);
    for (const uint64_t row : {0, 1, 2}) {
      const uint64_t begin = kOutput + 16 + row * 32;
      EXPECT_EQ(at(begin - 2), 0x0707);
      EXPECT_EQ(at(begin + 8), 0x0707);
      if (kind == Skipped::kZeros) {
        EXPECT_EQ(at(begin), 0);
      } else if (kind == Skipped::kNoise) {
        EXPECT_GE(at(begin) & 0x7fff, 0x3b80);
        EXPECT_LT(at(begin) & 0x7fff, 0x3c80);
      } else {
        EXPECT_EQ(at(begin), 0x0707);
      }
      EXPECT_TRUE(memory_.IsTainted(begin, 1));
      EXPECT_TRUE(memory_.IsTainted(begin + 7, 1));
      EXPECT_FALSE(memory_.IsTainted(begin + 8, 24));
    }
    EXPECT_EQ(at(kOther), 0x0707);
    EXPECT_TRUE(memory_.IsTainted(kOther, 1));
    EXPECT_FALSE(memory_.IsTainted(kOther + 64, 64));
  }
  // Where the extent may depend on data, nothing is filled.
  memory_.Write(kOutput, before.data(), before.size());
  SkippedOutputs(Skipped::kZeros, pages_).Leave(memory_, parameters_, outputs, WorkFamily::kIndex);
  EXPECT_EQ(at(kOutput + 16), 0x0707);
  EXPECT_TRUE(memory_.IsTainted(kOutput + 16, 1));
}

TEST_F(LaunchOutputsTest, WhatIsNotAllWrittenIsNotExact) {
  sass::Sample sample;
  sample.clusters = 1;
  sample.is_all = true;
  // All but a few bytes of a list.
  sample.written = {{kOutput, kOutput + 1000}, {kOutput + 1008, kOutput + 2000}};
  sample.of_one = sample.written;
  const LaunchOutputs outputs = Outputs(sample);
  ASSERT_EQ(outputs.regions.size(), 1u);
  EXPECT_TRUE(outputs.known);
  EXPECT_FALSE(outputs.regions[0].is_exact);
}

TEST_F(LaunchOutputsTest, WhatAProductWritesBesideItsResultMayHaveAnotherSizeNextTime) {
  LaunchOutputs known;
  known.known = true, known.bytes_of_work = 4096;
  known.regions = {{.parameter = 8, .width = 4096, .stride = 4096, .is_exact = true},
                   {.parameter = 24, .width = 64, .stride = 64, .is_exact = true}};
  KernelWork work;
  work.shape = {64, 8, 1, 1, 0};
  work.written_bytes = 1024;
  const auto other = OutputsOfProduct(known, parameters_, memory_, work);
  ASSERT_TRUE(other);
  EXPECT_EQ(other->regions[0].width, 1024u);
  EXPECT_TRUE(other->regions[0].is_exact);
  EXPECT_FALSE(other->regions[1].is_exact);
}

TEST_F(LaunchOutputsTest, AProductIntoAWiderMatrixIsAnother) {
  const auto put = [this](size_t at, uint32_t word) {
    std::memcpy(&parameters_[at], &word, sizeof word);
  };
  KernelWork work;
  work.shape = {512, 24, 7, 1, 0};
  work.written_bytes = 512 * 24 * 2;
  sass::Sample sample;
  sample.clusters = 4;
  sample.is_complete = false;
  AddTile(sample, kOutput, 256, 1024, 8);
  parameters_.resize(48);
  put(32, 512);   // the distance of rows in elements
  put(36, 64);    // in 16 bytes
  put(40, 7777);  // anything
  const LaunchOutputs known = Outputs(sample, WorkFamily::kGemm, work);
  EXPECT_EQ(known.sizes, (std::vector<std::pair<uint32_t, uint32_t>>{{32, 0}, {36, 2}}));
  work.shape = {64, 10, 7, 1, 0};
  work.written_bytes = 64 * 10 * 2;
  put(32, 64), put(36, 8);
  EXPECT_TRUE(OutputsOfProduct(known, parameters_, memory_, work));
  put(32, 192), put(36, 24);
  EXPECT_FALSE(OutputsOfProduct(known, parameters_, memory_, work));
  // Rows twice as far apart look like those of a type twice as wide.
  work.shape = {256, 24, 7, 1, 0};
  work.written_bytes = 256 * 24 * 2;
  const LaunchOutputs wider = Outputs(sample, WorkFamily::kGemm, work);
  EXPECT_TRUE(wider.known);
  EXPECT_FALSE(wider.regions[0].is_exact);
  EXPECT_EQ(wider.bytes_of_work, 0u);
}

TEST_F(LaunchOutputsTest, NoiseOfHalvesIsSmallInHalves) {
  const LaunchOutputs outputs = {
      .known = true,
      .precision = MathPrecision::kFp16,
      .regions = {{.parameter = 8, .width = 4096, .stride = 4096, .is_exact = true}}};
  SkippedOutputs skipped(Skipped::kNoise, pages_);
  EXPECT_EQ(skipped.Leave(memory_, parameters_, outputs, WorkFamily::kGemm).made, 4096u);
  uint16_t words[2048];
  memory_.Read(kOutput, words, sizeof words);
  for (const uint16_t word : words) {
    EXPECT_GE(word & 0x7fff, 0x1c00);  // 2^-8
    EXPECT_LT(word & 0x7fff, 0x2400);  // 2^-6
  }
}

TEST_F(LaunchOutputsTest, NoiseTakesNoMemoryAndDiffersFromRowToRow) {
  const LaunchOutputs outputs = {
      .known = true,
      .regions = {{.parameter = 0, .width = kBytes, .stride = kBytes, .is_exact = true}}};
  SkippedOutputs skipped(Skipped::kNoise, pages_);
  skipped.Leave(memory_, parameters_, outputs, WorkFamily::kGemm);
  uint64_t rows[2][16];
  memory_.Read(kInput, rows[0], sizeof rows[0]);
  memory_.Read(kInput + 4096, rows[1], sizeof rows[1]);
  EXPECT_NE(std::memcmp(rows[0], rows[1], sizeof rows[0]), 0);
  EXPECT_LE(pages_->used(), uint64_t{2} << 20);
}

}  // namespace
}  // namespace phantora
