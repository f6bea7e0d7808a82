// What is known at some points, guessed at others: a linear fit to the nearest points, the nearer
// the heavier (W. S. Cleveland, "Robust Locally Weighted Regression and Smoothing Scatterplots",
// 1979).
#ifndef PHANTORA_PROFILES_SURFACES_LOCAL_REGRESSION_H_
#define PHANTORA_PROFILES_SURFACES_LOCAL_REGRESSION_H_

#include <array>
#include <cstddef>
#include <functional>
#include <vector>

#include "absl/types/span.h"

namespace phantora {

inline constexpr size_t kMostCoordinates = 8;
using Coordinates = std::array<float, kMostCoordinates>;  // 0 where there are fewer

class LocalRegression {
 public:
  // Points, of which the first `dimensions` coordinates count (1 to kMostCoordinates).
  LocalRegression(std::vector<Coordinates> points, size_t dimensions);

  struct Guess {
    double value = 0;
    double spread = 0;    // root mean square of what the nearest points miss the fit by
    double distance = 0;  // to the nearest point
  };
  static constexpr size_t kNone = ~size_t{0};
  // `value(i)`: what is known at point i; asked of the nearest only. `but`: a point that does not
  // count. Nothing is known: a value of 0 at an infinite distance.
  Guess At(const Coordinates& where, const std::function<double(size_t)>& value,
           size_t but = kNone) const;

  size_t size() const { return points_.size(); }

 private:
  struct Near {
    float distance2;
    size_t point;
    bool operator<(const Near& other) const { return distance2 < other.distance2; }
  };
  void Split(size_t begin, size_t end, size_t depth);
  void Search(size_t begin, size_t end, size_t depth, const Coordinates& where, size_t but,
              std::vector<Near>& nearest) const;
  float Distance2(size_t point, const Coordinates& where) const;

  const std::vector<Coordinates> points_;
  const size_t dimensions_;
  std::vector<size_t> order_;  // a k-d tree: the middle of each range divides it
};

}  // namespace phantora

#endif  // PHANTORA_PROFILES_SURFACES_LOCAL_REGRESSION_H_
