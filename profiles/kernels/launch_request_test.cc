#include "profiles/kernels/launch_request.h"

#include <gtest/gtest.h>

#include <random>

namespace phantora {
namespace {

LaunchRequest Example() {
  LaunchRequest request;
  request.id = 7;
  request.image = 3;
  request.kernel = "gemm \"128x128\"";
  request.symbol = "_Z4gemm\xff";
  request.fingerprint = 0xfedcba9876543210;
  request.grid = {1, 2, 3};
  request.block = {128, 1, 1};
  request.cluster = {2, 1, 1};
  request.shared_bytes = 49152;
  request.parameters = {0, 1, 2, 0xff};
  request.memory = {{0x7f0000000000, 1 << 21}, {0x7f1000000000, 3 << 21}};
  request.row = "gemm\tbf16\tforward\tx\t1x2x3\t12\t34\t5";
  request.modelled_us = 12.5;
  request.source = "modelled";
  request.launches = 12;
  return request;
}

TEST(LaunchRequestTest, ComesBackFromItsLine) {
  const LaunchRequest request = Example();
  const auto line = ParseRequestLine(ToLine(request));
  ASSERT_TRUE(line.ok()) << line.status();
  ASSERT_TRUE(line->request);
  const LaunchRequest& back = *line->request;
  EXPECT_EQ(back.id, request.id);
  EXPECT_EQ(back.image, request.image);
  EXPECT_EQ(back.kernel, request.kernel);
  EXPECT_EQ(back.fingerprint, request.fingerprint);
  EXPECT_EQ(back.grid, request.grid);
  EXPECT_EQ(back.block, request.block);
  EXPECT_EQ(back.cluster, request.cluster);
  EXPECT_EQ(back.shared_bytes, request.shared_bytes);
  EXPECT_EQ(back.parameters, request.parameters);
  EXPECT_EQ(back.memory, request.memory);
  EXPECT_EQ(back.row, request.row);
  EXPECT_EQ(back.modelled_us, request.modelled_us);
  EXPECT_EQ(back.launches, request.launches);
  LaunchRequest unknown = request;
  unknown.image.reset();
  EXPECT_FALSE(ParseRequestLine(ToLine(unknown))->request->image);
}

TEST(LaunchRequestTest, ImagesAndHeader) {
  const std::vector<uint8_t> cubin(100'000, 42);
  const auto image = ParseRequestLine(ImageToLine(5, cubin));
  ASSERT_TRUE(image.ok()) << image.status();
  ASSERT_TRUE(image->image);
  EXPECT_EQ(image->image->id, 5);
  EXPECT_EQ(image->image->cubin, cubin);
  const auto header = ParseRequestLine(ToLine(RequestHeader{"h100", "NVIDIA H100"}));
  ASSERT_TRUE(header.ok() && header->header);
  EXPECT_EQ(header->header->product, "NVIDIA H100");
  EXPECT_FALSE(ParseRequestLine(R"({"phantora_missing": 2, "gpu": "", "product": ""})").ok());
}

TEST(LaunchRequestTest, SurvivesDamage) {
  std::mt19937 random(5);
  const std::string lines[] = {ToLine(Example()), ImageToLine(1, std::vector<uint8_t>(999, 7))};
  for (int i = 0; i < 20000; ++i) {
    std::string line = lines[i % 2];
    for (int damages = 1 + static_cast<int>(random() % 4); damages > 0; --damages) {
      line[random() % line.size()] = static_cast<char>(random());
    }
    if (random() % 8 == 0) line.resize(random() % line.size());
    (void)ParseRequestLine(line);
  }
  EXPECT_FALSE(ParseRequestLine("").ok());
  EXPECT_FALSE(ParseRequestLine("[]").ok());
  EXPECT_FALSE(ParseRequestLine("{}").ok());
}

}  // namespace
}  // namespace phantora
