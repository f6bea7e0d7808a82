#include "trap/memory/mapping.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "trap/memory/page_pool.h"

namespace phantora {
namespace {

Mapping Of(const std::string& line) {
  Mapping mapping;
  EXPECT_TRUE(mapping.Parse(line)) << line;
  return mapping;
}

TEST(MappingTest, WhatCanBeShared) {
  EXPECT_TRUE(Of("7f0000000000-7f0000100000 rw-p 00000000 00:00 0").eligible);
  EXPECT_TRUE(Of("7f0000000000-7f0000100000 rw-p 00000000 00:00 0   [heap]").eligible);
  EXPECT_TRUE(Of("7f0000000000-7f0000100000 rw-p 00003000 fe:00 77   /lib/libc.so").eligible);
  EXPECT_TRUE(Of("7f0000000000-7f0000100000 r--p 00003000 fe:00 77   /lib/libc.so").eligible);
  // Small, protected, shared, executable, a stack.
  EXPECT_FALSE(Of("7f0000000000-7f0000008000 rw-p 00000000 00:00 0").eligible);
  EXPECT_FALSE(Of("7f0000000000-7f0000100000 r--p 00000000 00:00 0").eligible);
  EXPECT_FALSE(Of("7f0000000000-7f0000100000 rw-s 00000000 00:01 9   /dev/zero").eligible);
  EXPECT_FALSE(Of("7f0000000000-7f0000100000 rwxp 00000000 00:00 0").eligible);
  EXPECT_FALSE(Of("7f0000000000-7f0000100000 rw-p 00000000 00:00 0   [stack]").eligible);
}

TEST(MappingTest, WhatIsOfThePool) {
  const Mapping mapping = Of(absl::StrCat(
      "7f0000000000-7f0000001000 rw-p 00003000 00:01 9   /memfd:", PagePool::kName, " (deleted)"));
  EXPECT_TRUE(mapping.is_pool && mapping.eligible);
  EXPECT_FALSE(mapping.is_file);
  EXPECT_EQ(mapping.offset, 0x3000u);
}

TEST(MappingTest, OtherLinesAreNone) {
  Mapping mapping;
  EXPECT_FALSE(mapping.Parse("Anonymous:          64 kB"));
  EXPECT_FALSE(mapping.Parse(""));
}

TEST(MappingTest, WhoReservesMuchHasLittle) {
  Mapping mapping = Of("7f0000000000-7f0040000000 rw-p 00000000 00:00 0");  // 1 GiB
  mapping.anonymous_kib = 16 << 10;
  EXPECT_TRUE(mapping.Has(1 << 20));
  EXPECT_FALSE(mapping.Has(32 << 20));
  mapping.anonymous_kib = (16 << 10) - 1;
  EXPECT_FALSE(mapping.Has(1 << 20));
}

TEST(MappingTest, FlagsThatANewMappingWouldNotHave) {
  EXPECT_FALSE(Mapping::HasFlags("VmFlags: rd wr mr mw me ac sd"));
  EXPECT_TRUE(Mapping::HasFlags("VmFlags: rd wr mr mw me lo ac sd"));
}

}  // namespace
}  // namespace phantora
