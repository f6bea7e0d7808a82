#include "trap/gpu/small/small_kernel.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "uvm_model/memory_object.h"

namespace phantora {
namespace {

constexpr uint64_t kBase = 0x7f0000000000, kBytes = 2 << 20;
constexpr uint64_t kOut = kBase, kFirst = kBase + 0x10000, kSecond = kBase + 0x20000;

const std::string kGreater =
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_50_GLOBAL__N__e50ef81d_17_CompareKernels_"
    "cu_8f1b29aa14CompareFunctorIlEESt5arrayIPcLm3EEEEviT0_T1_";
const std::vector<CubinKernel::Parameter> kGreaterParameters = {{0, 4}, {4, 4}, {8, 24}};
const std::string kFill =
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIiEESt5arrayIPcLm1EEEEviT0_"
    "T1_";
const std::vector<CubinKernel::Parameter> kFillParameters = {{0, 4}, {4, 4}, {8, 8}};
const std::string kSum =
    "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIlNS0_14func_wrapper_tIlZNS0_11sum_"
    "functorIlllEclERNS_14TensorIteratorEEUlllE_EEjlLi4EEEEEvT1_";
const std::vector<CubinKernel::Parameter> kSumParameters = {{0, 1056}};
const std::string kCat =
    "_ZN2at6native40_GLOBAL__N__0f1a8107_8_Shape_cu_49f7391c36CatArrayBatchedCopy_aligned16_"
    "contigINS1_10OpaqueTypeILj8EEEjLi1ELi128ELi1EEEvPT_NS1_25CatArrInputTensorMetadataIS5_T0_XT2_"
    "EXT3_EEENS1_16TensorSizeStrideIS8_Lj4EEEiS8_";
const std::vector<CubinKernel::Parameter> kCatParameters = {
    {0, 8}, {8, 2720}, {2728, 32}, {2760, 4}, {2764, 4}};

class Launch {
 public:
  explicit Launch(size_t bytes) : bytes_(bytes) {}
  template <typename T>
  Launch& Set(size_t at, T value) {
    std::memcpy(&bytes_.at(at + sizeof value - 1) - (sizeof value - 1), &value, sizeof value);
    return *this;
  }
  LaunchShape Shape() const {
    LaunchShape shape{.grid = {1, grid_y, 1}, .block = {4, 1, 1}, .parameters = bytes_};
    return shape;
  }
  std::vector<uint8_t>& bytes() { return bytes_; }
  uint32_t grid_y = 1;

 private:
  std::vector<uint8_t> bytes_;
};

class SmallKernelTest : public testing::Test {
 protected:
  SmallKernelTest() {
    EXPECT_TRUE(
        memory_.Map(kBase, kBytes, std::make_shared<OwnedMemory>(MemoryKind::kVidmem, kBytes), 0));
  }
  void Put(uint64_t address, const std::vector<int64_t>& words) {
    EXPECT_EQ(memory_.Write(address, words.data(), words.size() * 8), std::nullopt);
  }
  template <typename T>
  std::vector<T> Get(uint64_t address, size_t count) {
    std::vector<T> values(count);
    EXPECT_EQ(memory_.Read(address, values.data(), count * sizeof(T)), std::nullopt);
    return values;
  }
  static Launch Greater(int32_t count) {
    return Launch(32)
        .Set(0, count)
        .Set(4, int32_t{1})
        .Set(8, kOut)
        .Set(16, kFirst)
        .Set(24, kSecond);
  }
  // A sum of `inputs` by one block of four threads, as PyTorch 2.6 lays it out.
  static Launch Sum(int32_t inputs) {
    Launch launch(1056);
    constexpr size_t kConfig = 16, kInput = kConfig + 64, kTail = 992;
    launch.Set(kConfig, int32_t{8}).Set(kConfig + 4, inputs).Set(kConfig + 8, int32_t{1});
    launch.Set(kConfig + 0x2c, uint32_t{4}).Set(kConfig + 0x30, uint32_t{1});
    launch.Set(kConfig + 0x34, uint32_t{4});
    launch.Set(kInput, uint32_t{1}).Set(kInput + 4, static_cast<uint32_t>(inputs));
    launch.Set(kInput + 304, uint32_t{8});
    launch.Set(kTail, kFirst).Set(kTail + 8, kOut).Set(kTail + 57, uint8_t{1});
    return launch;
  }
  bool Run(const std::string& symbol, KernelParameters parameters, const Launch& launch) {
    const auto kernel = FindSmallKernel(symbol, parameters);
    return kernel != nullptr && kernel->CarryOut(launch.Shape(), memory_, transfers_);
  }

  AddressSpace memory_;
  TransferQueue transfers_;
};

TEST_F(SmallKernelTest, Compares) {
  Put(kFirst, {3, -1, 5});
  Put(kSecond, {2, 1, 5});
  ASSERT_TRUE(Run(kGreater, kGreaterParameters, Greater(3)));
  EXPECT_EQ(Get<uint8_t>(kOut, 4), (std::vector<uint8_t>{1, 0, 0, 0}));
}

TEST_F(SmallKernelTest, Sums) {
  Put(kFirst, {3, -1, 5, int64_t{1} << 40});
  ASSERT_TRUE(Run(kSum, kSumParameters, Sum(4)));
  EXPECT_EQ(Get<int64_t>(kOut, 1)[0], 7 + (int64_t{1} << 40));
}

TEST_F(SmallKernelTest, FillsAndConcatenatesByTransfers) {
  EXPECT_TRUE(Run(kFill, kFillParameters, Launch(16).Set(0, 5).Set(4, 7).Set(8, kOut)));
  EXPECT_EQ(transfers_.Traffic(), 20);
  Launch cat(2768);
  cat.grid_y = 2;
  cat.Set(0, kOut).Set(8, kFirst).Set(16, kSecond).Set(8 + 1024 + 4, uint32_t{3});
  cat.Set(8 + 2048, uint32_t{3}).Set(8 + 2048 + 4, uint32_t{1});
  EXPECT_TRUE(Run(kCat, kCatParameters, cat));
  EXPECT_EQ(transfers_.Traffic(), 20 + 2 * 4 * 8);
}

TEST_F(SmallKernelTest, LeavesWhatIsTooLarge) {
  EXPECT_FALSE(Run(kGreater, kGreaterParameters, Greater(kMostSmallElements + 1)));
  EXPECT_FALSE(Run(kGreater, kGreaterParameters, Greater(-1)));
  EXPECT_FALSE(Run(kSum, kSumParameters, Sum(kMostSmallElements + 1)));
  EXPECT_FALSE(Run(kFill, kFillParameters, Launch(16).Set(0, 1 << 30).Set(8, kOut)));
  EXPECT_TRUE(transfers_.empty());
}

TEST_F(SmallKernelTest, LeavesMemoryThatIsNotMapped) {
  Launch greater = Greater(3);
  EXPECT_FALSE(Run(kGreater, kGreaterParameters, greater.Set(16, uint64_t{0x1000})));
  EXPECT_FALSE(Run(kFill, kFillParameters, Launch(16).Set(0, 5).Set(8, kBase + kBytes - 8)));
  EXPECT_FALSE(Run(kFill, kFillParameters, Launch(16).Set(0, 5).Set(8, ~uint64_t{7})));
  EXPECT_TRUE(transfers_.empty());
}

TEST_F(SmallKernelTest, OtherKernelsAndLayoutsHaveNoRule) {
  EXPECT_EQ(FindSmallKernel("_Z6kernelPf", kGreaterParameters), nullptr);
  EXPECT_EQ(FindSmallKernel(kGreater, KernelParameters()), nullptr);
  const std::vector<CubinKernel::Parameter> two = {{0, 4}, {4, 4}, {8, 16}};
  EXPECT_EQ(FindSmallKernel(kGreater, two), nullptr);
  // As another version might lay it out.
  const std::vector<CubinKernel::Parameter> larger = {{0, 1064}};
  EXPECT_FALSE(Run(kSum, larger, Sum(4)));
}

TEST_F(SmallKernelTest, RandomParametersDoNoHarm) {
  std::mt19937_64 random(1);
  const std::pair<const std::string*, KernelParameters> kernels[] = {
      {&kGreater, kGreaterParameters},
      {&kFill, kFillParameters},
      {&kSum, kSumParameters},
      {&kCat, kCatParameters}};
  for (const auto& [symbol, parameters] : kernels) {
    for (int i = 0; i < 2000; ++i) {
      Launch launch = symbol == &kSum ? Sum(4) : Launch(2768);
      const size_t changes = random() % 32;
      for (size_t k = 0; k < changes; ++k) {
        launch.bytes()[random() % launch.bytes().size()] = static_cast<uint8_t>(random());
      }
      launch.grid_y = static_cast<uint32_t>(random());
      Run(*symbol, parameters, launch);
    }
  }
}

}  // namespace
}  // namespace phantora
