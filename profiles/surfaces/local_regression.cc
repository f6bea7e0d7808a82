#include "profiles/surfaces/local_regression.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace phantora {
namespace {

// Chosen by leaving out each measured point in turn: bf16 products of H100.
constexpr size_t kNeighbours = 16;
constexpr double kRidge = 0.01;  // of slopes, per weight
// Farther away than this slopes are not followed.
constexpr double kFar = 1.0;
constexpr size_t kLeaf = 8;

constexpr size_t kTerms = kMostCoordinates + 1;

// Solves the first `terms` of the symmetric, positive definite a x = b; b becomes x.
void Solve(std::array<std::array<double, kTerms>, kTerms>& a, std::array<double, kTerms>& b,
           size_t terms) {
  for (size_t i = 0; i < terms; ++i) {
    for (size_t j = i + 1; j < terms; ++j) {
      const double part = a[j][i] / a[i][i];
      for (size_t k = i; k < terms; ++k) a[j][k] -= part * a[i][k];
      b[j] -= part * b[i];
    }
  }
  for (size_t i = terms; i-- > 0;) {
    for (size_t k = i + 1; k < terms; ++k) b[i] -= a[i][k] * b[k];
    b[i] /= a[i][i];
  }
}

}  // namespace

LocalRegression::LocalRegression(std::vector<Coordinates> points, size_t dimensions)
    : points_(std::move(points)), dimensions_(dimensions), order_(points_.size()) {
  std::iota(order_.begin(), order_.end(), size_t{0});
  Split(0, order_.size(), 0);
}

void LocalRegression::Split(size_t begin, size_t end, size_t depth) {
  if (end - begin <= kLeaf) return;
  const size_t middle = begin + (end - begin) / 2, axis = depth % dimensions_;
  std::nth_element(order_.begin() + begin, order_.begin() + middle, order_.begin() + end,
                   [&](size_t a, size_t b) { return points_[a][axis] < points_[b][axis]; });
  Split(begin, middle, depth + 1);
  Split(middle + 1, end, depth + 1);
}

float LocalRegression::Distance2(size_t point, const Coordinates& where) const {
  float sum = 0;
  for (size_t i = 0; i < dimensions_; ++i) {
    const float by = points_[point][i] - where[i];
    sum += by * by;
  }
  return sum;
}

void LocalRegression::Search(size_t begin, size_t end, size_t depth, const Coordinates& where,
                             size_t but, std::vector<Near>& nearest) const {
  const auto consider = [&](size_t point) {
    if (point == but) return;
    const Near near = {Distance2(point, where), point};
    if (nearest.size() == kNeighbours) {
      if (!(near < nearest.front())) return;
      std::pop_heap(nearest.begin(), nearest.end());
      nearest.pop_back();
    }
    nearest.push_back(near);
    std::push_heap(nearest.begin(), nearest.end());
  };
  if (end - begin <= kLeaf) {
    for (size_t i = begin; i < end; ++i) consider(order_[i]);
    return;
  }
  const size_t middle = begin + (end - begin) / 2, axis = depth % dimensions_;
  const float by = where[axis] - points_[order_[middle]][axis];
  consider(order_[middle]);
  const bool lower = by < 0;
  const auto half = [&](bool first) {
    if (first) {
      Search(begin, middle, depth + 1, where, but, nearest);
    } else {
      Search(middle + 1, end, depth + 1, where, but, nearest);
    }
  };
  half(lower);
  if (nearest.size() < kNeighbours || by * by <= nearest.front().distance2) half(!lower);
}

LocalRegression::Guess LocalRegression::At(const Coordinates& where,
                                           const std::function<double(size_t)>& value,
                                           size_t but) const {
  std::vector<Near> nearest;
  nearest.reserve(kNeighbours);
  Search(0, order_.size(), 0, where, but, nearest);
  Guess guess;
  if (nearest.empty()) {
    guess.distance = std::numeric_limits<double>::infinity();
    return guess;
  }
  std::sort_heap(nearest.begin(), nearest.end());
  guess.distance = std::sqrt(nearest.front().distance2);
  const double reach = std::sqrt(nearest.back().distance2) * 1.01 + 1e-9;
  // Outside of what was measured the level counts, and no slope is followed.
  const size_t terms = guess.distance > kFar ? 1 : dimensions_ + 1;
  std::array<std::array<double, kTerms>, kTerms> a{};
  std::array<double, kTerms> b{};
  std::array<double, kNeighbours> weights{}, values{};
  std::array<std::array<double, kTerms>, kNeighbours> at{};
  double sum = 0;
  for (size_t i = 0; i < nearest.size(); ++i) {
    const double part = std::sqrt(nearest[i].distance2) / reach;
    const double cube = 1 - part * part * part;
    weights[i] = cube * cube;
    values[i] = value(nearest[i].point);
    sum += weights[i];
    at[i][0] = 1;
    for (size_t j = 1; j < terms; ++j) at[i][j] = points_[nearest[i].point][j - 1] - where[j - 1];
    for (size_t j = 0; j < terms; ++j) {
      b[j] += weights[i] * at[i][j] * values[i];
      for (size_t k = 0; k < terms; ++k) a[j][k] += weights[i] * at[i][j] * at[i][k];
    }
  }
  for (size_t j = 1; j < terms; ++j) a[j][j] += kRidge * sum;
  Solve(a, b, terms);
  guess.value = b[0];
  double missed = 0;
  for (size_t i = 0; i < nearest.size(); ++i) {
    double fit = 0;
    for (size_t j = 0; j < terms; ++j) fit += b[j] * at[i][j];
    missed += weights[i] * (values[i] - fit) * (values[i] - fit);
  }
  guess.spread = std::sqrt(missed / sum);
  return guess;
}

}  // namespace phantora
