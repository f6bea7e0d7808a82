#include "profiles/gpu_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST(GpuProfileTest, ErrorsSayWhatIsWrong) {
  EXPECT_THAT(std::string(FindGpuProfile("b300").status().message()), HasSubstr("h100-sxm5-80gb"));
  EXPECT_THAT(std::string(ParseGpuProfile("{}").status().message()), HasSubstr("name"));
  EXPECT_THAT(std::string(ParseGpuProfile("{").status().message()), HasSubstr("parse error"));
  EXPECT_FALSE(FindGpuProfile("/nonexistent/gpu.json").ok());
}

}  // namespace
}  // namespace phantora
