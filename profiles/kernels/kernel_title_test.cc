#include "profiles/kernels/kernel_title.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace phantora {
namespace {

TEST(KernelTitleTest, NamesTheFunctionAndWhatTellsItApart) {
  EXPECT_EQ(
      KernelTitle("_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEES"
                  "t5arrayIPcLm3EEEEviT0_T1_"),
      "vectorized_elementwise_kernel<CUDAFunctor_add>");
  EXPECT_EQ(KernelTitle("_ZN7cutlass7Kernel2I57cutlass_80_tensorop_s16816gemm_bf16_64x128_64x6_tt_"
                        "align2EEvNT_6ParamsE"),
            "Kernel2<cutlass_80_tensorop_s16816gemm_bf16_64x128_64x6_tt_align2>");
  EXPECT_EQ(KernelTitle("_Z3addPfS_i"), "add");
  EXPECT_EQ(KernelTitle("_Z24fmha_cutlassF_f32_a_sm80N22PyTorchMemEffAttention15AttentionKernelI"
                        "fE6ParamsE"),
            "fmha_cutlassF_f32_a_sm80");
  EXPECT_EQ(KernelTitle("triton_poi_fused_add_0"), "triton_poi_fused_add_0");
}

TEST(KernelTitleTest, IsBoundedAndPrintableWhateverTheNameIs) {
  std::mt19937 random(1);
  const std::string alphabet = "_ZNSTILE0123456789abi\x01\"\\";
  for (int i = 0; i < 20000; ++i) {
    std::string name = "_Z";
    for (int length = static_cast<int>(random() % 400); length > 0; --length) {
      name += alphabet[random() % alphabet.size()];
    }
    const std::string title = KernelTitle(name);
    EXPECT_LE(title.size(), 200);
    for (const char c : title) EXPECT_TRUE(c >= ' ' && c <= '~' && c != '"') << title;
  }
  EXPECT_EQ(KernelTitle(""), "");
  EXPECT_EQ(KernelTitle("_Z"), "_Z");
}

}  // namespace
}  // namespace phantora
