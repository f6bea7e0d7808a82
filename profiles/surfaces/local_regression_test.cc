#include "profiles/surfaces/local_regression.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace phantora {
namespace {

std::vector<Coordinates> Grid() {
  std::vector<Coordinates> points;
  for (int x = 0; x < 20; ++x) {
    for (int y = 0; y < 20; ++y) points.push_back({x * 0.5F, y * 0.5F});
  }
  return points;
}

double Plane(const Coordinates& at) { return 1 + 0.3 * at[0] - 0.2 * at[1]; }

TEST(LocalRegressionTest, FollowsAPlane) {
  const auto points = Grid();
  const LocalRegression regression(points, 2);
  const auto value = [&](size_t i) { return Plane(points[i]); };
  const Coordinates where = {3.3F, 4.1F};
  const auto guess = regression.At(where, value);
  EXPECT_NEAR(guess.value, Plane(where), 0.01);
  EXPECT_LT(guess.spread, 0.02);
  EXPECT_NEAR(guess.distance, std::hypot(0.2, 0.1), 1e-3);
}

TEST(LocalRegressionTest, LeavesAPointOut) {
  auto points = Grid();
  const LocalRegression regression(points, 2);
  const size_t odd = 210;
  const auto value = [&](size_t i) { return Plane(points[i]) + (i == odd ? 1 : 0); };
  EXPECT_NEAR(regression.At(points[odd], value, odd).value, Plane(points[odd]), 0.01);
  EXPECT_GT(regression.At(points[odd], value).value, Plane(points[odd]) + 0.1);
  EXPECT_GT(regression.At(points[odd], value).spread, 0.2);
}

TEST(LocalRegressionTest, FollowsNoSlopeOutside) {
  const auto points = Grid();
  const LocalRegression regression(points, 2);
  const auto value = [&](size_t i) { return Plane(points[i]); };
  const auto guess = regression.At({100, 5}, value);
  EXPECT_NEAR(guess.value, Plane({9.5F, 5}), 0.2);  // the level at the edge
  EXPECT_GT(guess.distance, 90);
}

TEST(LocalRegressionTest, FindsTheNearest) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> place(0, 10);
  std::vector<Coordinates> points(3000);
  for (auto& point : points) point = {place(random), place(random), place(random)};
  const LocalRegression regression(points, 3);
  for (int i = 0; i < 200; ++i) {
    const Coordinates where = {place(random), place(random), place(random)};
    double nearest = 1e9;
    for (const auto& point : points) {
      nearest = std::min<double>(
          nearest, std::hypot(point[0] - where[0], point[1] - where[1], point[2] - where[2]));
    }
    EXPECT_NEAR(regression.At(where, [](size_t) { return 0.0; }).distance, nearest, 1e-4);
  }
}

TEST(LocalRegressionTest, KnowsNothingOfNothing) {
  const auto guess = LocalRegression({}, 2).At({}, [](size_t) { return 1.0; });
  EXPECT_EQ(guess.value, 0);
  EXPECT_TRUE(std::isinf(guess.distance));
}

}  // namespace
}  // namespace phantora
