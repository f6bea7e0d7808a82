#include "profiles/gpu/gpu_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "profiles/data/embedded_data.h"

namespace phantora {
namespace {

using testing::HasSubstr;

TEST(GpuProfileTest, ShippedPersonalitiesHaveTheCardsNumbers) {
  struct Expected {
    const char* name;
    uint32_t sms;
    int sm;
    uint64_t total_mib;
  };
  for (const Expected& card :
       {Expected{"a100-sxm4-80gb", 108, 80, 81920}, Expected{"h100-sxm5-80gb", 132, 90, 81559},
        Expected{"h100-sxm5-96gb", 132, 90, 97871}, Expected{"h200-sxm5-141gb", 132, 90, 143771}}) {
    auto profile = FindGpuProfile(card.name);
    ASSERT_TRUE(profile.ok()) << profile.status();
    EXPECT_EQ(profile->name, card.name);
    EXPECT_EQ(profile->sms(), card.sms);
    EXPECT_EQ(profile->sm_architecture(), card.sm);
    EXPECT_EQ(profile->memory.total_mib, card.total_mib);
  }
  EXPECT_EQ(GpuProfileNames().size(), 4u);
}

TEST(GpuProfileTest, AFileMayGiveWhatPricesAreMadeFrom) {
  std::string text;
  for (const EmbeddedFile& file : EmbeddedData()) {
    if (file.name == "profiles/data/h100-sxm5-80gb/personality.json") text = file.content;
  }
  EXPECT_FALSE(ParseGpuProfile(text)->rated.given);
  const auto with = [&text](const std::string& rates) {
    return ParseGpuProfile(text.substr(0, text.rfind('}')) + R"(, "rates": )" + rates + "}");
  };
  const auto given =
      with(R"({"from": "a100-sxm4-80gb", "peak_tflops": {"bf16": 500}, "memory_tb_per_s": 2})");
  ASSERT_TRUE(given.ok()) << given.status();
  EXPECT_TRUE(given->rated.given);
  EXPECT_EQ(given->rated.from, "a100-sxm4-80gb");
  EXPECT_EQ(given->rated.peak_flops_per_s[static_cast<size_t>(MathPrecision::kBf16)], 500e12);
  EXPECT_EQ(given->rated.peak_flops_per_s[static_cast<size_t>(MathPrecision::kFp8)], 0);
  EXPECT_EQ(given->rated.memory_bytes_per_s, 2e12);
  for (const char* wrong : {R"({"memory_tb": 2})", R"({"memory_tb_per_s": 0})", "2", "[1]",
                            R"({"memory_tb_per_s": "2"})", R"({"peak_tflops": {"fp5": 1}})",
                            R"({"peak_tflops": {"fp8": -1}})", R"({"from": 1})"}) {
    EXPECT_FALSE(with(wrong).ok()) << wrong;
  }
}

TEST(GpuProfileTest, ErrorsSayWhatIsWrong) {
  EXPECT_THAT(std::string(FindGpuProfile("b300").status().message()), HasSubstr("h100-sxm5-80gb"));
  EXPECT_THAT(std::string(ParseGpuProfile("{}").status().message()), HasSubstr("name"));
  EXPECT_THAT(std::string(ParseGpuProfile("{").status().message()), HasSubstr("parse error"));
  EXPECT_FALSE(FindGpuProfile("/nonexistent/gpu.json").ok());
  // What the JSON library would convert to some other number.
  for (const char* wrong : {"1e28", "-1", "2.5", "4294967296"}) {
    const std::string text = std::string("{\"memory\": {\"clock_mhz\": ") + wrong + "}}";
    EXPECT_THAT(std::string(ParseGpuProfile(text).status().message()),
                HasSubstr("memory.clock_mhz must be a whole number"));
  }
}

}  // namespace
}  // namespace phantora
