#include "profiles/surfaces/surface_points.h"

#include <gtest/gtest.h>
#include <zstd.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace phantora {
namespace {

constexpr char kHead[] =
    "phantora surface 1\n"
    R"({"columns":[{"name":"m","values":[1,16]},{"name":"k","values":[64]}],"rows":2,)"
    R"("source":{"path":"x"},"sms":132})"
    "\n";

std::string Packed(const std::vector<uint16_t>& numbers) {
  std::string bytes;
  for (const uint16_t number : numbers) {
    bytes += static_cast<char>(number & 0xff);
    bytes += static_cast<char>(number >> 8);
  }
  std::string packed(ZSTD_compressBound(bytes.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), bytes.data(), bytes.size(), 3));
  return packed;
}

TEST(SurfacePointsTest, ReadsRows) {
  const auto points = SurfacePoints::Parse(kHead + Packed({0, 1, 0, 0, 14147, 18863}));
  ASSERT_TRUE(points.ok()) << points.status();
  EXPECT_EQ(points->rows(), 2u);
  EXPECT_EQ(points->names(), (std::vector<std::string>{"m", "k"}));
  EXPECT_EQ(points->sms(), 132);
  EXPECT_EQ(points->Row(1)[0], 16);
  EXPECT_EQ(points->Row(1)[1], 64);
  EXPECT_NEAR(points->Seconds(0), 1e-6, 1e-9);
  EXPECT_NEAR(points->Seconds(1), 1e-5, 1e-8);
}

TEST(SurfacePointsTest, SaysWhatIsWrong) {
  const auto message = [](const std::string& file) {
    return std::string(SurfacePoints::Parse(file).status().message());
  };
  EXPECT_NE(message("").find("does not begin"), std::string::npos);
  EXPECT_NE(message("phantora surface 1\n{}").find("does not end"), std::string::npos);
  EXPECT_NE(message("phantora surface 1\n{}\n").find("rows"), std::string::npos);
  EXPECT_NE(message("phantora surface 1\n{\n").find("parse error"), std::string::npos);
  EXPECT_FALSE(SurfacePoints::Parse(std::string(kHead) + "not zstd").ok());
  // Too few numbers; a value that is not among its column's.
  EXPECT_NE(message(kHead + Packed({0, 1, 0, 0, 1})).find("bytes"), std::string::npos);
  EXPECT_NE(message(kHead + Packed({0, 2, 0, 0, 1, 1})).find("row 1 has no value in m"),
            std::string::npos);
}

}  // namespace
}  // namespace phantora
