#include "trap/gpu/products/product_form.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"

namespace phantora {
namespace {

using Range = std::pair<uint64_t, uint64_t>;
using Ranges = std::vector<Range>;

// Results of each watched cluster that are computed here, and how many must tell something.
constexpr size_t kElements = 24, kLeastTelling = 8;
// Of several deviations one is no accident: how much larger than what rounding may do a value is
// that tells.
constexpr double kTelling = 8;
// Larger ones are not for here; products of these fit into 64 bits.
constexpr uint64_t kMostSide = 1 << 20, kMostBatch = 1 << 16, kMostStride = 1 << 27,
                   kMostParts = 1 << 10;

// What another order of sums, and tensor cores' way of adding, may do to a sum: as a part of the
// sum of all magnitudes. Of tf32 kernels may round factors or cut them off.
double SumError(Number factors) {
  switch (factors) {
    case Number::kHalf:
    case Number::kBfloat:
      return std::ldexp(1, -14);
    case Number::kTf32:
    case Number::kTf32Even:
    case Number::kTf32Away:
      return std::ldexp(1, -10);
    case Number::kFloat:
      return std::ldexp(1, -18);
    default:
      return std::ldexp(1, -44);
  }
}

struct Group {
  uint32_t parameter = 0;
  uint64_t base = 0, bytes = 0;
  std::vector<Ranges> by_cluster;
};

// The pointer that is nearest below each range. False: there is none.
bool GroupsOf(const ProductLaunch& launch, absl::Span<const sass::Watched> watched, bool read,
              AddressSpace& memory, std::vector<Group>& groups) {
  std::map<uint64_t, Group> by_base;
  for (const uint32_t at : launch.pointers) {
    uint64_t address;
    std::memcpy(&address, &launch.parameters[at], sizeof address);
    by_base.try_emplace(
        address,
        Group{.parameter = at, .base = address, .by_cluster = std::vector<Ranges>(watched.size())});
  }
  for (size_t cluster = 0; cluster < watched.size(); ++cluster) {
    for (auto [begin, end] : read ? watched[cluster].read : watched[cluster].written) {
      while (begin < end) {
        const auto above = by_base.upper_bound(begin);
        if (above == by_base.begin()) return false;
        const uint64_t until = above == by_base.end() ? end : std::min(end, above->first);
        Group& group = std::prev(above)->second;
        group.by_cluster[cluster].emplace_back(begin, until);
        group.bytes += until - begin;
        begin = until;
      }
    }
  }
  for (auto& [base, group] : by_base) {
    if (group.bytes == 0) continue;
    const auto around = memory.RangeAround(base);
    for (const Ranges& ranges : group.by_cluster) {
      if (!ranges.empty() && (!around || ranges.back().second > around->first + around->second)) {
        return false;
      }
    }
    groups.push_back(std::move(group));
  }
  return true;
}

// Distances at which rows may follow each other: as if there were nothing between, and the most
// frequent one of each cluster.
std::vector<uint64_t> StridesOf(const Group& group, uint64_t width) {
  std::vector<uint64_t> strides = {width};
  for (const Ranges& ranges : group.by_cluster) {
    std::map<uint64_t, size_t> count;
    for (size_t i = 1; i < ranges.size(); ++i) ++count[ranges[i].first - ranges[i - 1].first];
    const auto most =
        std::max_element(count.begin(), count.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most == count.end() || most->first < width || most->first > kMostStride) continue;
    if (std::find(strides.begin(), strides.end(), most->first) == strides.end()) {
      strides.push_back(most->first);
    }
  }
  return strides;
}

// Of matrices of such rows: one behind the other, rows of all beside each other, all the same.
std::vector<uint64_t> BatchStridesOf(uint64_t batch, uint64_t rows, uint64_t width, uint64_t stride,
                                     bool may_be_one) {
  if (batch == 1) return {0};
  std::vector<uint64_t> strides = {rows * stride};
  if (stride >= batch * width) strides.push_back(width);
  if (may_be_one) strides.push_back(0);
  return strides;
}

struct Position {
  uint64_t batch = 0, row = 0, into = 0;  // into: bytes from the row's begin
};
Position PositionOf(uint64_t offset, uint64_t rows, const MatrixPlace& place) {
  Position position;
  if (place.batch_stride >= rows * place.stride) {
    position.batch = offset / place.batch_stride;
    offset %= place.batch_stride;
  }
  position.row = offset / place.stride;
  position.into = offset % place.stride;
  if (place.batch_stride > 0 && place.batch_stride < place.stride) {
    position.batch = position.into / place.batch_stride;
    position.into %= place.batch_stride;
  }
  return position;
}

// Is all of a group's in a matrix?
bool IsWithin(const Group& group, uint64_t batch, uint64_t rows, uint64_t width,
              const MatrixPlace& place) {
  const bool stacked = place.batch_stride >= rows * place.stride;
  const bool beside = !stacked && place.batch_stride > 0;
  const uint64_t row_bytes = beside ? batch * width : width;
  // Without gaps ranges may go on in the next row.
  const bool gaps = place.stride > row_bytes;
  const uint64_t all = (stacked ? (batch - 1) * place.batch_stride : 0) + rows * place.stride;
  for (const Ranges& ranges : group.by_cluster) {
    for (const auto& [begin, end] : ranges) {
      if (end - group.base > all) return false;
      uint64_t offset = begin - group.base;
      if (stacked) offset %= place.batch_stride;
      if (offset / place.stride >= rows) return false;
      if (gaps && offset % place.stride + (end - begin) > row_bytes) return false;
    }
  }
  return true;
}

// Places of a factor with such a side in which all that was read lies.
std::vector<MatrixPlace> PlacesOf(const Group& group, const ProductForm& form, uint64_t side) {
  std::vector<MatrixPlace> places;
  for (const bool by_depth : {true, false}) {
    MatrixPlace place = {.parameter = group.parameter, .by_depth = by_depth};
    const uint64_t rows = form.Rows(place, side), width = form.Width(place, side);
    for (const uint64_t stride : StridesOf(group, width)) {
      place.stride = stride;
      for (const uint64_t batch_stride : BatchStridesOf(form.batch, rows, width, stride, true)) {
        place.batch_stride = batch_stride;
        if (IsWithin(group, form.batch, rows, width, place)) places.push_back(place);
      }
    }
  }
  return places;
}

// Which terms a cluster has read of a factor in that place: the first, and the one behind the last.
Range TermsRead(const Ranges& ranges, const Group& group, const ProductForm& form, uint64_t side,
                const MatrixPlace& place) {
  const uint64_t rows = form.Rows(place, side), size = BytesOf(form.factors);
  Range terms = {form.depth, 0};
  for (const auto& [begin, end] : ranges) {
    const Position first = PositionOf(begin - group.base, rows, place),
                   last = PositionOf(end - 1 - group.base, rows, place);
    uint64_t from = place.by_depth ? first.into / size : first.row,
             to = (place.by_depth ? last.into / size : last.row) + 1;
    // What goes on in the next row, or matrix, has the end of one and the begin of the other.
    if (first.batch != last.batch || (place.by_depth && first.row != last.row)) {
      from = 0, to = form.depth;
    }
    terms = {std::min(terms.first, from), std::max(terms.second, to)};
  }
  return terms;
}

// One number that a cluster has written.
struct Element {
  uint64_t address = 0;
  double value = 0;
};

std::vector<Element> ElementsOf(absl::Span<const sass::Watched> watched, Number number) {
  const uint64_t size = BytesOf(number);
  std::vector<Element> elements;
  for (const sass::Watched& each : watched) {
    const uint64_t count = each.bytes.size() / size;
    for (size_t i = 0; i < kElements && count > 0; ++i) {
      // Spread over rows and columns: the golden ratio's multiples.
      const double part = static_cast<double>(i + 1) * 0.6180339887498949;
      uint64_t at = static_cast<uint64_t>((part - std::floor(part)) * static_cast<double>(count));
      at = std::min(at, count - 1) * size;
      uint64_t before = 0;
      for (const auto& [begin, end] : each.written) {
        if (at < before + (end - begin)) {
          elements.push_back({begin + (at - before), ToDouble(number, &each.bytes[at])});
          break;
        }
        before += end - begin;
      }
    }
  }
  return elements;
}

// Whether values agree with a form, which gets its factor from the first of them.
class Comparison {
 public:
  Comparison(const ProductLaunch& launch, absl::Span<const Element> elements, AddressSpace& memory)
      : launch_(launch), elements_(elements), memory_(memory) {}

  // The root of what it is off by, squared, in all: as parts of the sums' magnitudes.
  double Misses(const ProductForm& form) {
    double all = 0;
    for (const Element& element : elements_) {
      Sum sum;
      if (!SumOf(form, element, sum) || sum.magnitude == 0) continue;
      all += std::pow((element.value - sum.beside - form.factor * sum.value) / sum.magnitude, 2);
    }
    return std::sqrt(all);
  }

  enum class Verdict { kWrong, kSaysNothing, kRight };
  Verdict Of(ProductForm& form) {
    const double kept = SumError(form.factors), rounding = 1.01 * RoundingOf(form.result);
    size_t telling = 0;
    double first_sum = 0;
    bool differs = false, has_factor = false;
    for (const Element& element : elements_) {
      Sum sum;
      if (!SumOf(form, element, sum)) return Verdict::kWrong;
      const auto error = [&](double factor) {
        return rounding * std::abs(element.value) + kept * std::abs(factor) * sum.magnitude +
               2 * RoundingOf(Number::kFloat) * std::abs(sum.beside);
      };
      const double rest = element.value - sum.beside;
      if (!has_factor && std::abs(sum.value) > kTelling * error(1)) {
        has_factor = true;
        form.factor = FactorOf(form.factors, rest / sum.value, error(1) / std::abs(sum.value));
      }
      const double may = error(form.factor);
      if (!(std::abs(rest - form.factor * sum.value) <= may)) return Verdict::kWrong;
      telling += std::abs(form.factor * sum.value) > kTelling * may;
      if (first_sum == 0) first_sum = sum.value;
      differs |= std::abs(sum.value - first_sum) > kTelling * may;
    }
    return telling >= kLeastTelling && telling >= elements_.size() / 2 && differs
               ? Verdict::kRight
               : Verdict::kSaysNothing;
  }

 private:
  struct Sum {
    double value = 0, magnitude = 0;
    double beside = 0;  // what is added to it
  };

  uint64_t BaseOf(uint32_t parameter) const {
    uint64_t address;
    std::memcpy(&address, &launch_.parameters[parameter], sizeof address);
    return address;
  }

  bool SumOf(const ProductForm& form, const Element& element, Sum& sum) {
    const MatrixPlace& results = form.results;
    const Position position =
        PositionOf(element.address - BaseOf(results.parameter), form.y, results);
    const uint64_t x = position.into / BytesOf(form.result), y = position.row;
    if (x >= form.x || y >= form.y || position.batch >= form.Matrices()) return false;
    const uint64_t batch = position.batch / form.parts;
    if (!ReadRow(form, form.a, batch, x, a_) || !ReadRow(form, form.b, batch, y, b_)) return false;
    const auto [first, count] = form.TermsOf(position.batch);
    for (uint64_t k = first; k < first + count; ++k) {
      sum.value += a_[k] * b_[k];
      sum.magnitude += std::abs(a_[k] * b_[k]);
    }
    if (form.adds && !Add(element.address, form.result, sum)) return false;
    if (form.bias && !Add(BaseOf(*form.bias) + x * BytesOf(form.result), form.result, sum)) {
      return false;
    }
    return true;
  }
  bool Add(uint64_t address, Number number, Sum& sum) {
    uint8_t bytes[8];
    if (memory_.Read(address, bytes, BytesOf(number))) return false;
    sum.beside += ToDouble(number, bytes);
    return true;
  }
  // Numbers by depth of one of the factor's side.
  bool ReadRow(const ProductForm& form, const MatrixPlace& place, uint64_t batch, uint64_t at,
               std::vector<double>& to) {
    const uint64_t size = BytesOf(form.factors);
    const uint64_t base = BaseOf(place.parameter) + batch * place.batch_stride;
    bytes_.resize(form.depth * size);
    if (place.by_depth) {
      if (memory_.Read(base + at * place.stride, bytes_.data(), bytes_.size())) return false;
    } else {
      for (uint64_t k = 0; k < form.depth; ++k) {
        if (memory_.Read(base + k * place.stride + at * size, &bytes_[k * size], size)) {
          return false;
        }
      }
    }
    to.resize(form.depth);
    for (uint64_t k = 0; k < form.depth; ++k) to[k] = ToDouble(form.factors, &bytes_[k * size]);
    return true;
  }

  // A number among the parameters that a ratio may be.
  double FactorOf(Number factors, double ratio, double may) const {
    if (std::abs(ratio - 1) <= may) return 1;
    const size_t size = factors == Number::kDouble ? 8 : 4;
    for (size_t at = 0; at + size <= launch_.parameters.size(); at += size) {
      const double value =
          ToDouble(size == 8 ? Number::kDouble : Number::kFloat, &launch_.parameters[at]);
      if (std::abs(ratio - value) <= 2 * may) return value;
    }
    return 1;
  }

  const ProductLaunch& launch_;
  const absl::Span<const Element> elements_;
  AddressSpace& memory_;
  std::vector<uint8_t> bytes_;
  std::vector<double> a_, b_;
};

class Finder {
 public:
  Finder(const ProductLaunch& launch, absl::Span<const sass::Watched> watched, AddressSpace& memory)
      : launch_(launch), watched_(watched), memory_(memory) {}

  std::optional<ProductForm> Find(std::string& why) {
    std::vector<Group> read, written;
    if (!GroupsOf(launch_, watched_, true, memory_, read) ||
        !GroupsOf(launch_, watched_, false, memory_, written)) {
      why = "it uses memory to which no parameter points";
      return std::nullopt;
    }
    std::sort(written.begin(), written.end(),
              [](const Group& a, const Group& b) { return a.bytes > b.bytes; });
    std::optional<uint32_t> counter;
    if (written.size() == 2 && IsCounter(written[1])) {
      counter = written[1].parameter;
      std::erase_if(read, [&](const Group& group) { return group.base == written[1].base; });
      written.pop_back();
    }
    if (written.size() != 1) {
      why = absl::StrCat("it writes to ", written.size(), " places");
      return std::nullopt;
    }
    ProductForm form = {.depth = launch_.sizes.k,
                        .batch = std::max<uint64_t>(launch_.sizes.batch, 1),
                        .factors = launch_.factors,
                        .counter = counter};
    form.adds =
        std::erase_if(read, [&](const Group& group) { return group.base == written[0].base; }) > 0;
    std::sort(read.begin(), read.end(),
              [](const Group& a, const Group& b) { return a.bytes > b.bytes; });
    if (read.size() != 2 && read.size() != 3) {
      why = absl::StrCat("it reads ", read.size(), " matrices");
      return std::nullopt;
    }
    const ProductSizes& sizes = launch_.sizes;
    form.x = sizes.m, form.y = sizes.n;
    for (const Number result : ResultsOf(form.factors)) {
      form.result = result;
      elements_ = ElementsOf(watched_, result);
      TryResults(form, written[0], read);
    }
    if (right_.size() == 1 && !says_nothing_) {
      if (!IsTf32(form.factors) || FindRounding(right_[0])) return right_[0];
      why = "its values do not say how it rounds them";
      return std::nullopt;
    }
    why = right_.size() > 1 ? "there are several explanations"
          : says_nothing_   ? "its values say nothing"
                            : "no explanation holds";
    return std::nullopt;
  }

 private:
  // What blocks ask for which part is next.
  static bool IsCounter(const Group& group) {
    return std::all_of(group.by_cluster.begin(), group.by_cluster.end(), [&](const Ranges& ranges) {
      return ranges.empty() || ranges.back().second <= group.base + ProductForm::kCounterBytes;
    });
  }
  static std::vector<Number> ResultsOf(Number factors) {
    if (IsTf32(factors)) return {Number::kFloat};
    if (BytesOf(factors) > 2) return {factors};
    return {factors, Number::kFloat};
  }

  void TryResults(ProductForm form, const Group& written, const std::vector<Group>& read) {
    form.results.parameter = written.parameter;
    const uint64_t width = form.ResultWidth();
    if (read.size() == 3) {
      for (const Ranges& ranges : read[2].by_cluster) {
        if (!ranges.empty() && ranges.back().second > read[2].base + width) return;
      }
      form.bias = read[2].parameter;
    }
    for (const uint64_t stride : StridesOf(written, width)) {
      form.results.stride = stride;
      TryFactors(form, written, read[0], read[1]);
      TryFactors(form, written, read[1], read[0]);
    }
  }

  void TryFactors(ProductForm form, const Group& written, const Group& a, const Group& b) {
    for (const MatrixPlace& place_a : PlacesOf(a, form, form.x)) {
      for (const MatrixPlace& place_b : PlacesOf(b, form, form.y)) {
        form.a = place_a, form.b = place_b;
        if (!CutDepth(form, a, b)) continue;
        const uint64_t width = form.ResultWidth();
        for (const uint64_t batch_stride :
             BatchStridesOf(form.Matrices(), form.y, width, form.results.stride, false)) {
          form.results.batch_stride = batch_stride;
          if (IsWithin(written, form.Matrices(), form.y, width, form.results)) Try(form);
        }
      }
    }
  }

  // Into the parts that the watched clusters have read, of which the first's is the first. False:
  // what they read are no such parts, or no others than that were seen.
  bool CutDepth(ProductForm& form, const Group& a, const Group& b) const {
    form.parts = 1, form.part_depth = form.depth;
    uint64_t last_seen = 0;
    for (size_t cluster = 0; cluster < watched_.size(); ++cluster) {
      const Range terms = TermsRead(a.by_cluster[cluster], a, form, form.x, form.a);
      if (terms != TermsRead(b.by_cluster[cluster], b, form, form.y, form.b)) return false;
      // Grids may have more blocks than there are tiles.
      if (cluster > 0 && terms == Range{form.depth, 0}) continue;
      if (cluster == 0) {
        if (terms.first != 0 || terms.second == 0) return false;
        form.part_depth = terms.second;
        form.parts = (form.depth + form.part_depth - 1) / form.part_depth;
        if (form.parts > 1 && (form.batch > 1 || form.parts > kMostParts)) return false;
      }
      const uint64_t part = terms.first / form.part_depth;
      if (part >= form.parts) return false;
      const auto [first, count] = form.TermsOf(part);
      if (terms != Range{first, first + count}) return false;
      last_seen = std::max(last_seen, part);
    }
    if (form.parts == 1) form.part_depth = 0;
    return form.parts == 1 || last_seen > 0;
  }

  // How the factors of a form that is right become tf32: cutting off or rounding has to fit far
  // better than the other. The two ways of rounding differ by one number in thousands.
  bool FindRounding(ProductForm& form) const {
    constexpr double kFar = 4;
    Comparison comparison(launch_, elements_, memory_);
    const auto misses = [&](Number way) {
      form.factors = way;
      return comparison.Misses(form);
    };
    const double cut = misses(Number::kTf32), even = misses(Number::kTf32Even),
                 away = misses(Number::kTf32Away), rounded = std::min(even, away);
    form.factors = cut < rounded  ? Number::kTf32
                   : even <= away ? Number::kTf32Even
                                  : Number::kTf32Away;
    return std::min(cut, rounded) * kFar < std::max(cut, rounded);
  }

  void Try(ProductForm form) {
    form.factor = 1;
    switch (Comparison(launch_, elements_, memory_).Of(form)) {
      case Comparison::Verdict::kRight:
        right_.push_back(form);
        break;
      case Comparison::Verdict::kSaysNothing:
        says_nothing_ = true;
        break;
      default:
        break;
    }
  }

  const ProductLaunch& launch_;
  const absl::Span<const sass::Watched> watched_;
  AddressSpace& memory_;
  std::vector<Element> elements_;
  std::vector<ProductForm> right_;
  bool says_nothing_ = false;
};

}  // namespace

std::optional<ProductForm> FindProductForm(const ProductLaunch& launch,
                                           absl::Span<const sass::Watched> watched,
                                           AddressSpace& memory, std::string& why) {
  const ProductSizes& sizes = launch.sizes;
  if (std::min({sizes.m, sizes.n, sizes.k}) < 2 ||
      std::max({sizes.m, sizes.n, sizes.k}) > kMostSide || sizes.batch > kMostBatch) {
    why = "it is no product of matrices, or of such that are too large";
    return std::nullopt;
  }
  return Finder(launch, watched, memory).Find(why);
}

}  // namespace phantora
