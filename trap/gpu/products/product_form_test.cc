#include "trap/gpu/products/product_form.h"

#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "uvm_model/device_memory.h"

namespace phantora {
namespace {

constexpr uint64_t kA = 0x7f1000000000, kB = 0x7f2000000000, kBias = 0x7f3000000000,
                   kResults = 0x7f4000000000, kCounter = 0x7f5000000000, kBytes = 4 << 20;

// A product by "kernels" of 16 x 16 results each, whose reads and writes are noted as those of
// real ones are.
class ProductFormTest : public testing::Test {
 protected:
  ProductFormTest() : pages_(std::make_shared<PageStore>(uint64_t{256} << 20)) {
    for (const uint64_t at : {kA, kB, kBias, kResults, kCounter}) {
      memory_.Map(at, kBytes, std::make_shared<DeviceMemory>(pages_, kBytes), 0);
    }
    parameters_.resize(64);
    Put(0, kA), Put(8, kB), Put(16, kResults), Put(24, kBias), Put(32, kCounter);
    form_ = {.x = 48,
             .y = 64,
             .depth = 40,
             .factors = Number::kFloat,
             .result = Number::kFloat,
             .a = {.parameter = 0, .by_depth = true, .stride = 40 * 4},
             .b = {.parameter = 8, .by_depth = false, .stride = 64 * 4},
             .results = {.parameter = 16, .stride = 48 * 4}};
  }

  void Put(uint32_t at, uint64_t value) { std::memcpy(&parameters_[at], &value, sizeof value); }
  void Fill(uint64_t at, uint64_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = normal_(random_);
    memory_.Write(at, values.data(), 4 * count);
  }
  float At(uint64_t address) {
    float value;
    EXPECT_FALSE(memory_.Read(address, &value, 4));
    return value;
  }
  // As the "kernel" makes it of what is there.
  double Factor(uint64_t address) {
    const float value = At(address);
    return ToDouble(form_.factors, reinterpret_cast<const uint8_t*>(&value));
  }
  static uint64_t Address(uint64_t base, const MatrixPlace& place, uint64_t batch, uint64_t side,
                          uint64_t k) {
    return base + batch * place.batch_stride +
           (place.by_depth ? side * place.stride + k * 4 : k * place.stride + side * 4);
  }

  // `batch`: of results, which is a part of the depth if it is cut.
  sass::Watched Cluster(uint64_t batch, uint64_t x0, uint64_t y0) {
    constexpr uint64_t kTile = 16;
    std::map<uint64_t, uint64_t> read, written;
    std::map<uint64_t, float> values;
    const auto note = [](std::map<uint64_t, uint64_t>& in, uint64_t at) { in[at] = at + 4; };
    for (uint64_t x = x0; x < x0 + kTile; ++x) {
      for (uint64_t y = y0; y < y0 + kTile; ++y) {
        double sum = 0;
        const auto [first, count] = form_.TermsOf(batch);
        for (uint64_t k = first; k < first + count; ++k) {
          const uint64_t a = Address(kA, form_.a, batch / form_.parts, x, k),
                         b = Address(kB, form_.b, batch / form_.parts, y, k);
          note(read, a), note(read, b);
          sum += Factor(a) * Factor(b);
        }
        const uint64_t to =
            kResults + batch * form_.results.batch_stride + y * form_.results.stride + x * 4;
        sum *= form_.factor;
        if (form_.adds) note(read, to), sum += At(to);
        if (form_.bias) note(read, kBias + 4 * x), sum += At(kBias + 4 * x);
        note(written, to);
        values[to] = static_cast<float>(sum);
      }
    }
    if (form_.counter) note(written, kCounter);
    sass::Watched watched;
    for (const auto& [from, ranges] :
         {std::pair(&read, &watched.read), std::pair(&written, &watched.written)}) {
      for (const auto& [begin, end] : *from) {
        if (!ranges->empty() && ranges->back().second == begin) {
          ranges->back().second = end;
        } else {
          ranges->emplace_back(begin, end);
        }
      }
    }
    for (const auto& [at, value] : values) {
      const auto* const bytes = reinterpret_cast<const uint8_t*>(&value);
      watched.bytes.insert(watched.bytes.end(), bytes, bytes + 4);
    }
    if (form_.counter) watched.bytes.resize(watched.bytes.size() + 4);
    return watched;
  }

  void FillAll() {
    Fill(kA, form_.batch * form_.x * form_.depth + 4096);
    Fill(kB, form_.batch * form_.y * form_.depth + 4096);
    Fill(kResults, form_.batch * form_.x * form_.y);
    Fill(kBias, form_.x);
  }
  std::optional<ProductForm> Find() {
    const uint64_t matrices = form_.Matrices();
    std::vector<sass::Watched> watched = {Cluster(0, 0, 0), Cluster(matrices / 2, 16, 32),
                                          Cluster(matrices - 1, 32, 48)};
    if (change_) change_(watched);
    const std::vector<uint32_t> pointers = {0, 8, 16, 24, 32};
    return FindProductForm({.sizes = {form_.x, form_.y, form_.depth, form_.batch},
                            .factors = IsTf32(form_.factors) ? Number::kTf32 : form_.factors,
                            .parameters = parameters_,
                            .pointers = pointers},
                           watched, memory_, why_);
  }

  std::shared_ptr<PageStore> pages_;
  AddressSpace memory_;
  std::vector<uint8_t> parameters_;
  ProductForm form_;
  std::mt19937 random_{1};
  std::normal_distribution<float> normal_;
  std::function<void(std::vector<sass::Watched>&)> change_;
  std::string why_;
};

TEST_F(ProductFormTest, IsFoundInEachLayout) {
  for (const bool a_by_depth : {true, false}) {
    for (const bool b_by_depth : {true, false}) {
      form_.a.by_depth = a_by_depth, form_.a.stride = (a_by_depth ? form_.depth : form_.x) * 4;
      form_.b.by_depth = b_by_depth, form_.b.stride = (b_by_depth ? form_.depth : form_.y) * 4;
      FillAll();
      const auto found = Find();
      ASSERT_TRUE(found) << why_;
      EXPECT_EQ(*found, form_);
    }
  }
}

TEST_F(ProductFormTest, RowsOfWiderMatrices) {
  form_.a.stride = 256, form_.b.stride = 512, form_.results.stride = 1024;
  FillAll();
  EXPECT_EQ(Find(), form_) << why_;
}

TEST_F(ProductFormTest, Batches) {
  form_.batch = 3;
  form_.a.batch_stride = form_.x * form_.a.stride;
  form_.b.batch_stride = 0;  // all the same
  form_.results.batch_stride = form_.y * form_.results.stride;
  FillAll();
  EXPECT_EQ(Find(), form_) << why_;
  // Heads beside each other.
  form_.results = {.parameter = 16, .stride = 3 * 48 * 4, .batch_stride = 48 * 4};
  EXPECT_EQ(Find(), form_) << why_;
}

TEST_F(ProductFormTest, PartsOfTheDepth) {
  // 16, 16 and 8 terms.
  form_.parts = 3, form_.part_depth = 16;
  form_.results.batch_stride = form_.y * form_.results.stride;
  for (const bool a_by_depth : {true, false}) {
    for (const bool b_by_depth : {true, false}) {
      form_.a.by_depth = a_by_depth, form_.a.stride = (a_by_depth ? form_.depth : form_.x) * 4;
      form_.b.by_depth = b_by_depth, form_.b.stride = (b_by_depth ? form_.depth : form_.y) * 4;
      FillAll();
      EXPECT_EQ(Find(), form_) << why_;
    }
  }
  // A grid may have more clusters than there are tiles.
  change_ = [](std::vector<sass::Watched>& watched) { watched.back() = {}; };
  EXPECT_EQ(Find(), form_) << why_;
  // How many parts there are nobody has shown.
  change_ = [](std::vector<sass::Watched>& watched) { watched.resize(1); };
  EXPECT_FALSE(Find());
  // A factor of which it is not read what the other one's part is.
  change_ = [this](std::vector<sass::Watched>& watched) {
    watched[1].read.emplace_back(kB, kB + form_.b.stride);
    std::sort(watched[1].read.begin(), watched[1].read.end());
  };
  EXPECT_FALSE(Find());
}

TEST_F(ProductFormTest, HowFactorsBecomeTf32) {
  FillAll();
  form_.factors = Number::kTf32;
  EXPECT_EQ(Find(), form_) << why_;
  // Which of the two is told by a few numbers only.
  for (const Number way : {Number::kTf32Even, Number::kTf32Away}) {
    form_.factors = way;
    const auto found = Find();
    ASSERT_TRUE(found) << why_;
    EXPECT_TRUE(found->factors == Number::kTf32Even || found->factors == Number::kTf32Away);
  }
  // Numbers of which nothing is to be cut off.
  std::vector<float> values(4 * form_.x * form_.depth);
  for (const uint64_t at : {kA, kB}) {
    for (float& value : values) value = std::round(16 * normal_(random_));
    memory_.Write(at, values.data(), 4 * values.size());
  }
  EXPECT_FALSE(Find());
  EXPECT_EQ(why_, "its values do not say how it rounds them");
}

TEST_F(ProductFormTest, WhatIsAdded) {
  form_.adds = true;
  FillAll();
  EXPECT_EQ(Find(), form_) << why_;
  form_.bias = 24;
  EXPECT_EQ(Find(), form_) << why_;
  form_.counter = 32;
  EXPECT_EQ(Find(), form_) << why_;
}

TEST_F(ProductFormTest, FactorsAreAmongTheParameters) {
  form_.factor = 0.125;
  const float factor = 0.125;
  FillAll();
  EXPECT_FALSE(Find());
  std::memcpy(&parameters_[40], &factor, sizeof factor);
  EXPECT_EQ(Find(), form_) << why_;
}

TEST_F(ProductFormTest, ZerosSayNothing) {
  EXPECT_FALSE(Find());
  EXPECT_EQ(why_, "its values say nothing");
}

TEST_F(ProductFormTest, EqualRowsAreNoProof) {
  FillAll();
  std::vector<float> ones(form_.x * form_.depth, 1);
  memory_.Write(kA, ones.data(), 4 * ones.size());
  std::vector<float> others(form_.y * form_.depth, 2);
  memory_.Write(kB, others.data(), 4 * others.size());
  EXPECT_FALSE(Find());
}

TEST_F(ProductFormTest, OtherResultsAreRefused) {
  FillAll();
  // An activation, say.
  change_ = [](std::vector<sass::Watched>& watched) {
    for (auto& each : watched) {
      for (size_t at = 0; at < each.bytes.size(); at += 4) {
        float value;
        std::memcpy(&value, &each.bytes[at], 4);
        value = std::max(value, 0.0f);
        std::memcpy(&each.bytes[at], &value, 4);
      }
    }
  };
  EXPECT_FALSE(Find());
  EXPECT_EQ(why_, "no explanation holds");
}

TEST_F(ProductFormTest, ReadsThatNothingExplainsAreRefused) {
  FillAll();
  change_ = [](std::vector<sass::Watched>& watched) {
    // Beyond the bias's end.
    watched[0].read.insert(watched[0].read.begin() + 1, {kBias + (1 << 20), kBias + (1 << 20) + 4});
    std::sort(watched[0].read.begin(), watched[0].read.end());
  };
  EXPECT_FALSE(Find());
  change_ = [](std::vector<sass::Watched>& watched) {
    watched[0].read.insert(watched[0].read.begin(), {0x1000, 0x2000});
  };
  EXPECT_FALSE(Find());
  EXPECT_EQ(why_, "it uses memory to which no parameter points");
}

TEST_F(ProductFormTest, AbsurdSizes) {
  FillAll();
  form_.depth = uint64_t{1} << 40;
  const std::vector<uint32_t> pointers = {0};
  const sass::Watched nothing;
  for (const ProductSizes& sizes : {ProductSizes{48, 64, uint64_t{1} << 40}, ProductSizes{0, 0, 0},
                                    ProductSizes{48, 64, 1 << 20}}) {
    EXPECT_FALSE(FindProductForm({.sizes = sizes,
                                  .factors = Number::kFloat,
                                  .parameters = parameters_,
                                  .pointers = pointers},
                                 {&nothing, 1}, memory_, why_));
  }
}

}  // namespace
}  // namespace phantora
