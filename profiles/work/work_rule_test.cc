#include "profiles/work/work_rule.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "profiles/gpu/work_price.h"

namespace phantora {
namespace {

using Bytes = std::vector<uint8_t>;
using Parameters = std::vector<CubinKernel::Parameter>;

template <typename T>
void Set(Bytes& bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

// Code that loads and stores so many bytes.
CodeSummary Moving(uint32_t loaded, uint32_t stored) {
  CodeSummary code;
  code.loaded = loaded, code.stored = stored;
  code.parts[0].loaded = loaded, code.parts[0].stored = stored;
  return code;
}

// As cuBLAS launched it for a linear layer of 768 to 2304 features and 12,288 tokens.
constexpr char kAmpereGemm[] = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_relu_f2f_stages_32x5_tn";
Bytes AmpereGemm() {
  Bytes bytes(208);
  Set(bytes, 0x68, 2304);
  Set(bytes, 0x6c, 12288);
  Set(bytes, 0x70, 768);
  Set(bytes, 0x80, 768);
  return bytes;
}

TEST(WorkRuleTest, AMatrixProduct) {
  const Bytes bytes = AmpereGemm();
  const WorkRule rule(kAmpereGemm, Parameters{{0, 208}}, {});
  const KernelWork work = rule.Of({.grid = {18, 96, 1}, .block = {128, 1, 1}, .parameters = bytes});
  EXPECT_EQ(rule.family(), WorkFamily::kGemm);
  EXPECT_TRUE(work.checked);
  EXPECT_EQ(work.precision, MathPrecision::kBf16);
  EXPECT_EQ(work.flops, 2.0 * 2304 * 12288 * 768);
  EXPECT_EQ(work.bytes, 2.0 * (2304.0 * 768 + 768.0 * 12288 + 2304.0 * 12288));
  EXPECT_EQ(work.tiles, 18 * 96);
}

TEST(WorkRuleTest, AGridThatDoesNotFitTheSizesIsNoticed) {
  const Bytes bytes = AmpereGemm();
  const WorkRule rule(kAmpereGemm, Parameters{{0, 208}}, {});
  EXPECT_FALSE(rule.Of({.grid = {2, 3, 1}, .block = {128, 1, 1}, .parameters = bytes}).checked);
  EXPECT_FALSE(rule.Of({.grid = {18, 96, 1}, .block = {128, 1, 1}, .parameters = {}}).checked);
}

// PyTorch 2.10's has as many bytes as 2.3's, at other places.
TEST(WorkRuleTest, MemoryEfficientAttention) {
  Bytes newer(272), older(272), backward(464);
  for (const auto& [bytes, places] :
       {std::pair{&newer, std::vector<size_t>{0xc4, 0xc0, 0x68, 0x6c, 0x60}},
        {&older, {0xcc, 0xc8, 0x6c, 0x70, 0x64}},
        {&backward, {0xa0, 0x178, 0x98, 0x9c, 0x90}}}) {
    const int32_t sizes[] = {5, 3, 72, 88, 64};  // heads, sequences, queries, keys, width
    for (size_t i = 0; i < places.size(); ++i) Set(*bytes, places[i], sizes[i]);
  }
  const double product = 2.0 * 3 * 5 * 72 * 88 * 64;
  const LaunchShape launch = {.grid = {2, 5, 3}, .block = {32, 4, 1}, .parameters = newer};
  const WorkRule forwards("fmha_cutlassF_bf16_aligned_64x64_rf_sm80", Parameters{{0, 272}}, {});
  EXPECT_TRUE(forwards.Of(launch).checked);
  EXPECT_EQ(forwards.Of(launch).flops, 2 * product);
  EXPECT_EQ(forwards.Of({.grid = {2, 5, 3}, .block = {32, 4, 1}, .parameters = older}).flops,
            2 * product);
  EXPECT_FALSE(forwards.Of({.grid = {2, 5, 4}, .block = {32, 4, 1}, .parameters = newer}).checked);
  newer[0x74] = 1;  // causal
  EXPECT_EQ(forwards.Of(launch).flops, product);
  const WorkRule backwards("fmha_cutlassB_bf16_aligned_64x64_k64_sm80", Parameters{{0, 464}}, {});
  const KernelWork work =
      backwards.Of({.grid = {2, 5, 3}, .block = {128, 1, 1}, .parameters = backward});
  EXPECT_TRUE(work.checked);
  EXPECT_TRUE(work.backward);
  EXPECT_EQ(work.flops, 5 * product);
}

// As vLLM 0.8.5 and PyTorch 2.6 launched them: parameters lie 48 bytes after the first's place.
TEST(WorkRuleTest, ProductsOfCutlass3) {
  constexpr uint32_t kOffset = 48;
  Bytes bytes(kOffset + 1216);
  Set(bytes, kOffset + 4, 100);
  Set(bytes, kOffset + 8, 1024);
  Set(bytes, kOffset + 12, 512);
  Set(bytes, kOffset + 16, 2);
  const auto work_of = [&](const char* symbol) {
    const WorkRule rule(symbol, Parameters{{kOffset, 1216}}, {});
    EXPECT_EQ(rule.family(), WorkFamily::kGemm) << symbol;
    return rule.Of({.grid = {16, 1, 1}, .block = {384, 1, 1}, .parameters = bytes});
  };
  const KernelWork vllm = work_of(
      "_ZN7cutlass13device_kernelIN4vllm15cutlass_3x_gemmINS_12float_e4m3_tENS_10bfloat16_tE");
  EXPECT_TRUE(vllm.checked && vllm.cutlass);
  EXPECT_EQ(vllm.precision, MathPrecision::kFp8);
  EXPECT_EQ(vllm.shape, (std::array<double, 5>{1024, 100, 512, 2}));
  EXPECT_EQ(vllm.flops, 2.0 * 100 * 1024 * 512 * 2);
  const KernelWork three = work_of(
      "_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalIN4cute5tupleIJiiiEEENS_10bfloat16_"
      "t");
  EXPECT_EQ(three.shape, (std::array<double, 5>{1024, 100, 512, 1}));
  EXPECT_EQ(three.precision, MathPrecision::kBf16);
  Set(bytes, kOffset + 8, -1);
  EXPECT_FALSE(work_of("_ZN7cutlass13device_kernelIN4vllm15cutlass_3x_gemmIaEE").checked);
}

// As vLLM 0.12.0 launched them on an H200: few tokens are columns, and then there is no mode.
TEST(WorkRuleTest, ScaledProductsOfHopper) {
  constexpr uint32_t kOffset = 48;
  constexpr char kSymbol[] =
      "_ZN7cutlass13device_kernelIN4vllm24cutlass_3x_gemm_sm90_fp8INS_12float_e4m3_tENS_10bfloat16_"
      "tENS1_3c3x14ScaledEpilogueEN4cute5tupleI";
  const auto work_of = [&](const char* swapped, std::vector<int32_t> head) {
    Bytes bytes(kOffset + 1024);
    std::memcpy(bytes.data() + kOffset, head.data(), head.size() * sizeof head[0]);
    const WorkRule rule(std::string(kSymbol) + swapped + "EE10GemmKernelEEEvNT_6ParamsE",
                        Parameters{{kOffset, 1024}}, {});
    EXPECT_EQ(rule.family(), WorkFamily::kGemm);
    return rule.Of({.grid = {96, 1, 1}, .block = {256, 1, 1}, .parameters = bytes});
  };
  const std::array<double, 5> shape = {6144, 16, 4096, 1};
  EXPECT_EQ(work_of("Lb0", {0, 16, 6144, 4096, 1}).shape, shape);
  EXPECT_EQ(work_of("Lb1", {0, 6144, 16, 4096, 1}).shape, shape);
  EXPECT_EQ(work_of("Lb1", {6144, 16, 4096, 1}).shape, shape);
  EXPECT_EQ(work_of("Lb1", {6144, 16, 4096, 1}).beside_bytes, 3.0 * 16 * 4096);
  EXPECT_FALSE(work_of("Lb1", {0, 0, 16, 4096, 1}).checked);
}

TEST(WorkRuleTest, AKernelThatOnlyWaits) {
  constexpr char kSymbol[] = "_ZN2at4cuda40_GLOBAL__N__758183f4_8_Sleep_cu_088d913f11spin_kernelEl";
  const WorkRule rule(kSymbol, Parameters{{0, 8}}, {});
  EXPECT_TRUE(rule.only_waits());
  const auto clocks = [&](int64_t of) {
    Bytes bytes(8);
    std::memcpy(bytes.data(), &of, sizeof of);
    return rule.Of({.parameters = bytes}).clocks;
  };
  EXPECT_EQ(clocks(1'000'000), 1e6);
  EXPECT_EQ(clocks(-5), 0);
  EXPECT_FALSE(WorkRule(kSymbol, Parameters{{0, 8}, {8, 8}}, {}).only_waits());
  EXPECT_FALSE(WorkRule("_Z11spin_kernell", Parameters{{0, 8}}, {}).only_waits());
}

TEST(WorkRuleTest, AnAllReduceOfAnEngine) {
  const Parameters parameters = {{0, 8}, {16, 64}, {80, 8}, {88, 8}, {96, 4}, {100, 4}};
  const auto work_of = [&](const std::string& symbol, int32_t vectors) {
    Bytes bytes(104);
    Set(bytes, 100, vectors);
    const WorkRule rule(symbol, parameters, {});
    EXPECT_EQ(rule.family(), WorkFamily::kPeers) << symbol;
    return rule.Of({.grid = {10, 1, 1}, .block = {512, 1, 1}, .parameters = bytes});
  };
  const std::string one = "_ZN4vllm26cross_device_reduce_1stageI13__nv_bfloat16Li2EEEvPNS_8Rank";
  const KernelWork work = work_of(one, 5120);
  EXPECT_TRUE(work.checked);
  EXPECT_EQ(work.shape, (std::array<double, 5>{2, 81920}));
  EXPECT_EQ(work_of("_ZN4vllm26cross_device_reduce_2stageI6__halfLi8EEEvPN", 64).shape[0], 8);
  EXPECT_FALSE(work_of(one, -1).checked);
  EXPECT_NE(WorkRule("26cross_device_reduce_1stageIfLi99EE", parameters, {}).family(),
            WorkFamily::kPeers);
}

TEST(WorkRuleTest, KernelsOfVllm) {
  Bytes bytes(112);
  Set(bytes, 80, 4), Set(bytes, 84, 128);  // heads, and their width
  Parameters parameters;
  for (uint16_t at = 0; at < 80; at += 8) parameters.push_back({at, 8});
  for (const uint16_t at : {80, 84, 88}) parameters.push_back({at, 4});
  for (const uint16_t at : {96, 104}) parameters.push_back({at, 8});
  const WorkRule rule("_ZN4vllm30reshape_and_cache_flash_kernelI13__nv_bfloat16S1_LNS_18Fp8KV",
                      parameters, {});
  EXPECT_EQ(rule.family(), WorkFamily::kIndex);
  // Keys and values of 8 tokens are read and written, and where to.
  EXPECT_EQ(rule.Of({.grid = {8, 1, 1}, .block = {512, 1, 1}, .parameters = bytes}).bytes,
            8 * (4 * 2 * 4 * 128 + 8));
}

// As PyTorch 2.11 launched them: 4 x 16 heads of 128, 1,024 positions, and 32 x 16 of 64, 196.
TEST(WorkRuleTest, AttentionOfCudnn919) {
  const std::string name = "cudnn_generated_fort_native_sdpa_sm90_flash_";
  Parameters forwards = {{0, 40}, {40, 4}, {44, 12}, {240, 4}, {248, 8}, {256, 200}};
  Bytes bytes(600);
  const int32_t sizes[] = {4, 16, 16, 16, 1024, 1024, 128, 128, 65537, 1};
  for (size_t i = 0; i < std::size(sizes); ++i) Set(bytes, 4 * i, sizes[i]);
  const LaunchShape launch = {.grid = {132, 1, 1}, .block = {384, 1, 1}, .parameters = bytes};
  const double all = 4.0 * 4 * 16 * 1024 * 1024 * 128;
  const WorkRule whole(name + "fprop_wgmma_f16_knob_7_64x128x128_4x1x1_cga1x1x1_kernel0_0",
                       forwards, {});
  EXPECT_EQ(whole.family(), WorkFamily::kAttention);
  EXPECT_TRUE(whole.Of(launch).checked);
  EXPECT_FALSE(whole.Of(launch).guessed);
  EXPECT_EQ(whole.Of(launch).flops, all);
  forwards.push_back({244, 4});
  const WorkRule causal(name + "fprop_wgmma_f16_knob_7_64x128x128_4x1x1_cga1x1x1_kernel0_0",
                        forwards, {});
  EXPECT_EQ(causal.Of(launch).flops, all / 2);
  EXPECT_FALSE(causal.Of(launch).backward);
  const WorkRule backwards(name + "bprop_wgmma_f16_knob_26_64x64x128_1x4x1_cga1x1x1_kernel0_0",
                           forwards, {});
  EXPECT_EQ(backwards.Of(launch).flops, all / 2 * 10 / 4);
  EXPECT_TRUE(backwards.Of(launch).backward);
}

TEST(WorkRuleTest, ElementsByWhatTheCodeMoves) {
  Bytes bytes(32);
  Set(bytes, 0, 1 << 20);
  // Four elements of 4 bytes by two inputs and an output, as vectors and one by one.
  const WorkRule rule("_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEE",
                      Parameters{{0, 4}, {8, 24}}, Moving(64, 32));
  EXPECT_EQ(rule.Of({.grid = {2048, 1, 1}, .block = {128, 1, 1}, .parameters = bytes}).bytes,
            12.0 * (1 << 20));
}

TEST(WorkRuleTest, AnUnknownKernelHasNoFamily) {
  const WorkRule rule("somebody_s_kernel", Parameters{{0, 8}}, Moving(4, 4));
  EXPECT_EQ(rule.family(), WorkFamily::kUnknown);
  EXPECT_EQ(rule.Of({.grid = {10, 1, 1}, .block = {32, 1, 1}, .parameters = {}}).bytes, 8.0 * 320);
}

// As PyTorch 2.15 for CUDA 13.2 has them; each list has room for 448 tensors then, not 64.
TEST(WorkRuleTest, ListsOfTensorsAreLongerFromCuda13On) {
  constexpr size_t kSizes = 2 * 448 * 8, kTensors = kSizes + 448 * 8, kChunks = kTensors + 2240 * 2,
                   kAll = kChunks + 2240 * 4 + 4;
  Bytes bytes(kAll + 12);
  Set<int64_t>(bytes, kSizes + 8 * 300, 1000);
  Set<int64_t>(bytes, kSizes + 8 * 301, 65536 + 500);
  Set<uint16_t>(bytes, kTensors, 300);
  Set<uint16_t>(bytes, kTensors + 2, 301);
  Set<uint16_t>(bytes, kTensors + 4, 301);
  Set<int32_t>(bytes, kChunks + 8, 1);  // the third block has the second chunk
  const WorkRule rule(
      "_ZN2at6native25multi_tensor_apply_kernelINS1_18TensorListMetadataILi2EEENS1_"
      "14UnaryOpFunctorIfLi2ELi1ELi1EEEJNS0_4SqrtIfEEEEEvT_T0_DpT1_",
      Parameters{{0, kAll}, {kAll, 1}}, {});
  const KernelWork work = rule.Of({.grid = {3, 1, 1}, .block = {512, 1, 1}, .parameters = bytes});
  EXPECT_EQ(rule.family(), WorkFamily::kOptimizer);
  EXPECT_TRUE(work.checked);
  EXPECT_EQ(work.bytes, 2.0 * 4 * (1000 + 65536 + 500));
}

TEST(WorkPriceTest, LargeProductsReachWhatIsMeasured) {
  // bf16 8192^3: 711 TFLOP/s on H100 (napkin-math-gpu); within what is said of its error.
  const auto rates = FindGpuRates("h100-sxm5-80gb");
  ASSERT_TRUE(rates.ok()) << rates.status();
  KernelWork work;
  work.precision = MathPrecision::kBf16;
  work.flops = 2.0 * 8192 * 8192 * 8192;
  work.bytes = 3.0 * 2 * 8192 * 8192;
  work.written_bytes = work.bytes / 3;
  work.tiles = 64 * 32;
  const double reached =
      work.flops / EstimateOf(work, WorkFamily::kGemm, *rates, 132).seconds / 1e12;
  EXPECT_NEAR(reached, 711, rates->error[static_cast<size_t>(WorkFamily::kGemm)] * 711);
}

TEST(WorkPriceTest, EveryPriceIsFiniteWhateverTheLaunch) {
  const auto rates = FindGpuRates("a100-sxm4-80gb");
  ASSERT_TRUE(rates.ok());
  const std::vector<std::string> symbols = {
      kAmpereGemm,
      "sm80_xmma_gemm_f32f32_tilesize128x128x8",
      "_ZN7cutlass7Kernel2I44cutlass_80_tensorop_s1688gemm_128x128_16x5_tn",
      "flash_fwd_kernel",
      "flash_bwd_convert_dq",
      "fmha_cutlassB_f32",
      "_Z25multi_tensor_apply_kernelINS_32FusedOptimizerTensorListMetadataILi4EEE",
      "_Z18vectorized_elementwise_kernel",
      "_Z13reduce_kernelILi512EReduceOpIf",
      "GammaBetaBackward",
      "_ZN2at6native18elementwise_kernelILi128ELi",
      "_Z25multi_tensor_apply_kernelMetadataILi",
      "cunn_SoftMaxBackward",
      "splitKreduce_kernel",
      "x"};
  std::mt19937 random(3);
  for (int i = 0; i < 20000; ++i) {
    Bytes bytes(random() % 800);
    for (uint8_t& byte : bytes) byte = random() % 3 == 0 ? 0xff : static_cast<uint8_t>(random());
    const auto size = static_cast<uint16_t>(random() % 5000);
    const WorkRule rule(symbols[random() % symbols.size()], Parameters{{0, size}, {size, size}},
                        Moving(static_cast<uint32_t>(random()), 1));
    const LaunchShape launch = {
        .grid = {static_cast<uint32_t>(random()), static_cast<uint32_t>(random()), 7},
        .block = {static_cast<uint32_t>(random()), 1, 1},
        .parameters = bytes};
    const double seconds = EstimateOf(rule.Of(launch), rule.family(), *rates, 108).seconds;
    EXPECT_GE(seconds, rates->smallest_kernel_s);
    EXPECT_LE(seconds, 3600);
  }
}

}  // namespace
}  // namespace phantora
