#include "trap/gpu/front/expert_routing.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <numeric>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "trap/log.h"

namespace phantora {
namespace {

constexpr uint64_t kMostExperts = 1 << 12, kMostLogits = 1 << 24, kMostLayers = 1 << 12;
// A logit that is never chosen, in every type.
constexpr float kNever = -30000;
// Where parameters are: csrc/moe/topk_softmax_kernels.cu. The logits come first, then two pointers;
// topkGatingSoftmax has rows next, moeSoftmax experts, and a block for each row.
constexpr uint32_t kCount = 24;

enum class LogitType { kFloat, kHalf, kBfloat };
struct Router {
  uint64_t logits = 0, rows = 0, experts = 0;
  LogitType type = LogitType::kFloat;
};

template <typename T>
T At(absl::Span<const uint8_t> parameters, uint32_t at) {
  T value{};
  if (at + sizeof value <= parameters.size()) {
    std::memcpy(&value, &parameters[at], sizeof value);
  }
  return value;
}

// Integers among a template's arguments.
std::vector<uint64_t> Literals(absl::string_view arguments) {
  std::vector<uint64_t> literals;
  for (size_t at = arguments.find("Li"); at != arguments.npos; at = arguments.find("Li", at + 1)) {
    const size_t end = arguments.find('E', at);
    uint64_t value;
    if (end == arguments.npos) break;
    if (absl::SimpleAtoi(arguments.substr(at + 2, end - at - 2), &value)) literals.push_back(value);
  }
  return literals;
}

std::optional<Router> RouterOf(absl::string_view symbol, absl::Span<const uint8_t> parameters,
                               uint64_t blocks) {
  constexpr absl::string_view kGating = "topkGatingSoftmaxI", kSoftmax = "moeSoftmaxI";
  Router router = {.logits = At<uint64_t>(parameters, 0)};
  const int32_t count = At<int32_t>(parameters, kCount);
  if (count <= 0) return std::nullopt;
  size_t at = symbol.find(kGating);
  if (at != symbol.npos) {
    symbol.remove_prefix(at + kGating.size());
    symbol = symbol.substr(0, symbol.find("EEv"));
    // Values of a thread, experts, ...
    const auto literals = Literals(symbol);
    if (literals.size() < 2) return std::nullopt;
    router.rows = static_cast<uint64_t>(count), router.experts = literals[1];
  } else if (at = symbol.find(kSoftmax); at != symbol.npos) {
    symbol.remove_prefix(at + kSoftmax.size());
    symbol = symbol.substr(0, symbol.find("EEv"));
    router.rows = blocks, router.experts = static_cast<uint64_t>(count);
  } else {
    return std::nullopt;
  }
  if (symbol.find("6__half") != symbol.npos) router.type = LogitType::kHalf;
  if (symbol.find("nv_bfloat16") != symbol.npos) router.type = LogitType::kBfloat;
  if (router.experts < 2 || router.experts > kMostExperts ||
      router.rows > kMostLogits / router.experts) {
    return std::nullopt;
  }
  return router;
}

// SplitMix64's mixing (G. Steele and others, "Fast splittable pseudorandom number generators",
// 2014).
uint64_t Mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}
// Between 0 and 1, neither of them.
double Uniform(uint64_t x) { return (static_cast<double>(Mixed(x) >> 11) + 0.5) * 0x1p-53; }

// What the logits' bits are; of halves, which have no larger exponents here, without rounding.
uint32_t BitsOf(LogitType type, float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (type == LogitType::kFloat) return bits;
  if (type == LogitType::kBfloat) return bits >> 16;
  const auto exponent = static_cast<int>(bits >> 23 & 0xff) - 127 + 15;
  if (exponent <= 0) return bits >> 16 & 0x8000;
  return (bits >> 16 & 0x8000) | static_cast<uint32_t>(exponent) << 10 | (bits >> 13 & 0x3ff);
}

}  // namespace

absl::StatusOr<std::vector<double>> RoutingWeights::Of(uint64_t layer, uint64_t experts) const {
  std::vector<double> weights(experts, 1);
  if (kind == Kind::kZipf) {
    // Which expert has which rank: hot ones are not neighbours, and the same in every layer.
    std::vector<uint64_t> order(experts);
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(),
              [](uint64_t a, uint64_t b) { return Mixed(a) < Mixed(b); });
    for (uint64_t rank = 0; rank < experts; ++rank) {
      weights[order[rank]] = std::pow(static_cast<double>(rank + 1), -exponent);
    }
  } else if (kind == Kind::kRecorded) {
    const auto& recorded = layers[layer % layers.size()];
    if (recorded.size() != experts) {
      return absl::InvalidArgumentError(absl::StrCat("the file of --routing has ", recorded.size(),
                                                     " experts in layer ", layer % layers.size(),
                                                     ", the model has ", experts));
    }
    weights = recorded;
  }
  return weights;
}

absl::StatusOr<RoutingWeights> ReadRoutingWeights(const std::string& text) {
  RoutingWeights weights;
  if (text == "balanced") return weights;
  absl::string_view rest = text;
  if (absl::ConsumePrefix(&rest, "zipf")) {
    weights.kind = RoutingWeights::Kind::kZipf;
    if (rest.empty()) return weights;
    if (absl::ConsumePrefix(&rest, ":") && absl::SimpleAtod(rest, &weights.exponent) &&
        weights.exponent >= 0 && weights.exponent <= 10) {
      return weights;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is no zipf:EXPONENT, with an exponent between 0 and 10"));
  }
  weights.kind = RoutingWeights::Kind::kRecorded;
  std::ifstream file(text);
  if (!file) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is neither balanced nor zipf nor a file that can be read"));
  }
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const auto error = [&](const char* what) {
      return absl::InvalidArgumentError(absl::StrCat(text, ", line ", number, ": ", what));
    };
    if (line.empty() || line[0] == '#') continue;
    std::vector<double> layer;
    for (const absl::string_view word :
         absl::StrSplit(line, absl::ByAnyChar(" \t,\r"), absl::SkipEmpty())) {
      double value;
      if (!absl::SimpleAtod(word, &value) || !(value >= 0) || !std::isfinite(value)) {
        return error("not a number that is at least 0");
      }
      if (layer.size() == kMostExperts) return error("more than 4,096 experts");
      layer.push_back(value);
    }
    if (std::count_if(layer.begin(), layer.end(), [](double x) { return x > 0; }) == 0) {
      return error("no expert of a layer is ever chosen");
    }
    if (weights.layers.size() == kMostLayers) return error("more than 4,096 layers");
    weights.layers.push_back(std::move(layer));
  }
  if (weights.layers.empty()) return absl::InvalidArgumentError(text + " has no lines");
  return weights;
}

bool ExpertRouting::IsPartOfRouting(absl::string_view symbol) {
  for (const absl::string_view name : {"topkGatingSoftmax", "moeSoftmax", "moeTopK",
                                       "moe_align_block_size", "count_and_sort_expert_tokens"}) {
    if (symbol.find(name) != symbol.npos) return true;
  }
  return false;
}

bool ExpertRouting::Prepare(pid_t process, absl::string_view symbol,
                            absl::Span<const uint8_t> parameters, uint64_t blocks,
                            AddressSpace& memory) {
  const auto router = RouterOf(symbol, parameters, blocks);
  if (!router) return false;
  const uint64_t launch = launches_[process]++;
  const auto weights = weights_.Of(launch, router->experts);
  if (!weights.ok()) {
    if (!told_) LogWarning(std::string(weights.status().message()));
    told_ = true;
    return false;
  }
  std::vector<float> logarithms;
  for (const double weight : *weights) {
    logarithms.push_back(weight > 0 ? static_cast<float>(std::log(weight)) : kNever);
  }
  const uint64_t size = router->type == LogitType::kFloat ? 4 : 2;
  std::vector<uint8_t> row(router->experts * size);
  for (uint64_t at = 0; at < router->rows; ++at) {
    const uint64_t seed = Mixed(launch ^ Mixed(at));
    for (uint64_t expert = 0; expert < router->experts; ++expert) {
      const double noise = -std::log(-std::log(Uniform(seed + expert)));
      const float logit =
          logarithms[expert] == kNever ? kNever : logarithms[expert] + static_cast<float>(noise);
      const uint32_t bits = BitsOf(router->type, logit);
      std::memcpy(&row[expert * size], &bits, size);
    }
    if (memory.Write(router->logits + at * row.size(), row.data(), row.size())) return false;
  }
  ++prepared_;
  return true;
}

}  // namespace phantora
