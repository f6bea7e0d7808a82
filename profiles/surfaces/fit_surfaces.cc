// Fits the models of surfaces to their points:
//
//   bazel run //profiles/surfaces:fit_surfaces -- FILE.surface...
//
// writes FILE.json beside each. The points are those that the importer left for fitting.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "profiles/surfaces/attention_model.h"
#include "profiles/surfaces/experts_model.h"
#include "profiles/surfaces/fitted_surface.h"
#include "profiles/surfaces/product_model.h"

namespace phantora {
namespace {

constexpr size_t kSample = 4000;  // points, evenly among all
constexpr int kRounds = 40;
constexpr double kRobust = 0.05;  // errors beyond it count by their size, not its square
constexpr double kPrior = 0.02;   // pull to the first guess, where points do not tell
constexpr double kStep = 1e-4;    // of a logarithm, for derivatives
// How far a number may go from its first guess, as a logarithm; rates of arithmetic hardly beyond
// the best that was measured of any product.
constexpr double kFarthest = 1.5, kBeyondBest = 0.1;

template <typename Model>
struct Sample {
  typename Model::Shape shape;
  double log_seconds;
};

// From where a number is looked for, and how far up it may go, as a logarithm.
template <typename Model>
struct First {
  Model model;
  std::vector<double> most;
};

// First guesses from the best that any point reaches.
First<ProductModel> FirstGuess(const SurfacePoints& points, double operand_bytes,
                               ProductModel model) {
  model.sms = points.sms();
  model.operand_bytes = operand_bytes;
  double flops = 0, least = 1, bytes_per_s = 0;
  for (size_t i = 0; i < points.rows(); ++i) {
    const auto at = points.Row(i);
    flops = std::max(flops, 2.0 * at[0] * at[1] * at[2] / points.Seconds(i));
    least = std::min(least, points.Seconds(i));
    const double bytes =
        operand_bytes * (1.0 * at[0] * at[2] + 1.0 * at[1] * at[2]) + 2.0 * at[0] * at[1];
    if (bytes > 3e8) bytes_per_s = std::max(bytes_per_s, bytes / points.Seconds(i));
  }
  model.start_s = least * 0.7;
  model.wave_s = 5e-7;
  model.memory_bytes_per_s = bytes_per_s;
  model.cache_bytes = 4e7;
  model.cache_bytes_per_s = 2 * bytes_per_s;
  model.operand_bytes_per_s = 4 * bytes_per_s;
  model.block_bytes_per_s = 3e10;
  model.split_s = 1e-6;
  model.split_bytes_per_s = bytes_per_s;
  constexpr double kPart[] = {.2, .3, .4, .5, .7, .7, .85, .8, .9, 1, 1, .8};
  for (size_t i = 0; i < kProductTiles.size(); ++i) {
    model.sm_flops_per_s[i] = kPart[i] * flops / model.sms;
  }
  std::vector<double> most(ProductModel::Names().size(), kFarthest);
  for (size_t i = 0; i < kProductTiles.size(); ++i) {
    most[most.size() - kProductTiles.size() + i] = kBeyondBest - std::log(kPart[i]);
  }
  return {model, most};
}

First<AttentionModel> FirstGuess(const SurfacePoints& points, double operand_bytes,
                                 AttentionModel model) {
  model.sms = points.sms();
  model.operand_bytes = operand_bytes;
  double least = 1, flops = 0, bytes_per_s = 0;
  for (size_t i = 0; i < points.rows(); ++i) {
    const AttentionShape shape = AttentionModel::ShapeOf(points.Row(i));
    least = std::min(least, points.Seconds(i));
    if (shape.window > 0) continue;
    const double pairs = shape.queries * (shape.keys - (shape.queries - 1) / 2);
    flops =
        std::max(flops, 4 * shape.batch * shape.heads * shape.width * pairs / points.Seconds(i));
    bytes_per_s = std::max(bytes_per_s, 2 * operand_bytes * shape.batch * shape.kv_heads *
                                            shape.keys * shape.width / points.Seconds(i));
  }
  model.start_s = least * 0.7;
  model.tile_s = 5e-7;
  // Of prompts the traffic with memory hardly shows.
  model.memory_bytes_per_s = std::max(bytes_per_s, 2e12);
  model.sm_bytes_per_s = 1e11;
  model.combine_s = 3e-6;
  model.sm_flops_per_s.fill(flops / model.sms);
  return {model, std::vector<double>(AttentionModel::Names().size(), kFarthest)};
}

First<ExpertsModel> FirstGuess(const SurfacePoints& points, double operand_bytes,
                               ExpertsModel model) {
  model.sms = points.sms();
  model.operand_bytes = operand_bytes;
  double least = 1, flops = 0, bytes_per_s = 0;
  for (size_t i = 0; i < points.rows(); ++i) {
    const ExpertsShape shape = ExpertsModel::ShapeOf(points.Row(i));
    const double each = 3 * shape.hidden * shape.inner, seconds = points.Seconds(i);
    least = std::min(least, seconds);
    flops = std::max(flops, 2 * shape.rows * each / seconds);
    bytes_per_s = std::max(bytes_per_s, shape.touched * each * operand_bytes / seconds);
  }
  model.start_s = least * 0.7;
  model.wave_s = 5e-7;
  model.memory_bytes_per_s = bytes_per_s;
  model.block_bytes_per_s = 3e10;
  constexpr double kPart[] = {.15, .3, .6, 1};
  std::vector<double> most(ExpertsModel::Names().size(), kFarthest);
  for (size_t i = 0; i < model.sm_flops_per_s.size(); ++i) {
    model.sm_flops_per_s[i] = kPart[i] * flops / model.sms;
    most[most.size() - model.sm_flops_per_s.size() + i] = kBeyondBest - std::log(kPart[i]);
  }
  return {model, most};
}

double Loss(double error) { return std::sqrt(1 + error * error / (kRobust * kRobust)) - 1; }

// Levenberg and Marquardt's, in the logarithms of the numbers.
template <typename Model>
Model Fit(const std::vector<Sample<Model>>& samples, const First<Model>& from) {
  const size_t numbers = Model::Names().size();
  const Model& first = from.model;
  const auto with = [&](const std::vector<double>& logs) {
    Model model = first;
    for (size_t i = 0; i < numbers; ++i) model.Number(i) *= std::exp(logs[i]);
    return model;
  };
  const auto errors = [&](const std::vector<double>& logs) {
    const Model model = with(logs);
    std::vector<double> all(samples.size());
    for (size_t i = 0; i < all.size(); ++i) {
      all[i] = std::log(model.Seconds(samples[i].shape)) - samples[i].log_seconds;
    }
    return all;
  };
  const auto cost = [&](const std::vector<double>& all, const std::vector<double>& logs) {
    double sum = 0;
    for (const double error : all) sum += Loss(error);
    for (const double log : logs) sum += kPrior * kPrior * log * log / (kRobust * kRobust) / 2;
    return sum;
  };
  std::vector<double> logs(numbers, 0), now = errors(logs);
  double best = cost(now, logs), damping = 1e-2;
  for (int round = 0; round < kRounds && damping < 1e6; ++round) {
    std::vector<std::vector<double>> slopes(numbers);
    for (size_t i = 0; i < numbers; ++i) {
      auto moved = logs;
      moved[i] += kStep;
      slopes[i] = errors(moved);
      for (size_t j = 0; j < now.size(); ++j) slopes[i][j] = (slopes[i][j] - now[j]) / kStep;
    }
    std::vector<std::vector<double>> a(numbers, std::vector<double>(numbers));
    std::vector<double> gradient(numbers);
    for (size_t j = 0; j < now.size(); ++j) {
      const double part = now[j] / kRobust, weight = 1 / std::sqrt(1 + part * part);
      for (size_t i = 0; i < numbers; ++i) {
        gradient[i] += weight * slopes[i][j] * now[j];
        for (size_t k = 0; k <= i; ++k) a[i][k] += weight * slopes[i][j] * slopes[k][j];
      }
    }
    for (size_t i = 0; i < numbers; ++i) {
      a[i][i] += kPrior * kPrior;
      gradient[i] += kPrior * kPrior * logs[i];
      for (size_t k = i + 1; k < numbers; ++k) a[i][k] = a[k][i];
    }
    for (bool better = false; !better && damping < 1e6;) {
      auto left = a;
      auto step = gradient;
      for (size_t i = 0; i < numbers; ++i) left[i][i] += damping * (a[i][i] + 1e-9);
      for (size_t i = 0; i < numbers; ++i) {
        for (size_t j = i + 1; j < numbers; ++j) {
          const double part = left[j][i] / left[i][i];
          for (size_t k = i; k < numbers; ++k) left[j][k] -= part * left[i][k];
          step[j] -= part * step[i];
        }
      }
      for (size_t i = numbers; i-- > 0;) {
        for (size_t k = i + 1; k < numbers; ++k) step[i] -= left[i][k] * step[k];
        step[i] /= left[i][i];
      }
      auto next = logs;
      for (size_t i = 0; i < numbers; ++i) {
        next[i] = std::clamp(next[i] - std::clamp(step[i], -0.5, 0.5), -kFarthest, from.most[i]);
      }
      auto then = errors(next);
      const double costs = cost(then, next);
      better = costs < best;
      if (better) {
        logs = std::move(next), now = std::move(then), best = costs, damping /= 4;
      } else {
        damping *= 4;
      }
    }
  }
  return with(logs);
}

// The part of the bar's measure that nine of ten points, each left out, are within.
template <typename Model>
double BarScale(const FittedSurface<Model>& surface) {
  std::vector<double> parts;
  const size_t step = std::max<size_t>(1, surface.points().rows() / kSample);
  for (size_t i = 0; i < surface.points().rows(); i += step) {
    const SurfacePrice price = surface.Without(i);
    const double missed = std::abs(std::log(surface.points().Seconds(i) / price.seconds));
    parts.push_back(missed / std::log1p(price.bar));
  }
  const auto nine = parts.begin() + static_cast<ptrdiff_t>(parts.size() * 9 / 10);
  std::nth_element(parts.begin(), nine, parts.end());
  return parts.empty() ? 1 : *nine;
}

// Heads of a width that no point has reach what those of the nearest width do that was measured.
void FillGaps(const std::vector<Sample<AttentionModel>>& samples, AttentionModel& model) {
  const std::array<double, 4> fitted = model.sm_flops_per_s;
  std::array<bool, 4> measured{};
  for (const auto& sample : samples)
    measured[AttentionModel::WidthClass(sample.shape.width)] = true;
  const auto distance = [](size_t a, size_t b) { return a < b ? b - a : a - b; };
  for (size_t to = 0; to < fitted.size(); ++to) {
    size_t nearest = fitted.size();
    for (size_t from = 0; from < fitted.size(); ++from) {
      if (!measured[from]) continue;
      if (nearest == fitted.size() || distance(from, to) < distance(nearest, to)) nearest = from;
    }
    if (nearest < fitted.size()) model.sm_flops_per_s[to] = fitted[nearest];
  }
}
void FillGaps(const std::vector<Sample<ProductModel>>&, ProductModel&) {}
void FillGaps(const std::vector<Sample<ExpertsModel>>&, ExpertsModel&) {}

template <typename Model>
std::string FitPoints(const SurfacePoints& points, double operand_bytes) {
  std::vector<Sample<Model>> samples;
  const size_t step = std::max<size_t>(1, points.rows() / kSample);
  for (size_t i = 0; i < points.rows(); i += step) {
    samples.push_back({Model::ShapeOf(points.Row(i)), std::log(points.Seconds(i))});
  }
  Model model = Fit(samples, FirstGuess(points, operand_bytes, Model()));
  FillGaps(samples, model);
  const double scale = BarScale(FittedSurface<Model>(points, model, 1));
  std::cout << points.rows() << " points, bars times " << scale << "\n";
  return WriteFit(model, scale);
}

bool FitFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  const auto points = SurfacePoints::Parse(text);
  if (!points.ok()) {
    std::cerr << path << ": " << points.status().message() << "\n";
    return false;
  }
  const double operand_bytes = path.find("fp8") != std::string::npos ? 1 : 2;
  std::cout << path << ": " << std::flush;
  std::string fit;
  if (points->names() == ProductModel::Columns()) {
    fit = FitPoints<ProductModel>(*points, operand_bytes);
  } else if (points->names() == AttentionModel::Columns()) {
    fit = FitPoints<AttentionModel>(*points, operand_bytes);
  } else if (points->names() == ExpertsModel::Columns()) {
    fit = FitPoints<ExpertsModel>(*points, operand_bytes);
  } else {
    std::cerr << "its columns are no family's\n";
    return false;
  }
  std::ofstream out(path.substr(0, path.rfind('.')) + ".json");
  out << fit;
  return out.good();
}

}  // namespace
}  // namespace phantora

int main(int argc, char** argv) {
  // bazel run starts elsewhere.
  const char* const from = std::getenv("BUILD_WORKING_DIRECTORY");
  bool good = argc > 1;
  for (int i = 1; i < argc; ++i) {
    const std::string path = argv[i];
    good &= phantora::FitFile(from != nullptr && path[0] != '/' ? std::string(from) + "/" + path
                                                                : path);
  }
  if (argc < 2) std::cerr << "usage: fit_surfaces FILE.surface...\n";
  return good ? 0 : 1;
}
