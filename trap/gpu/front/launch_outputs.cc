#include "trap/gpu/front/launch_outputs.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

namespace phantora {
namespace {

using Range = std::pair<uint64_t, uint64_t>;
using Ranges = std::vector<Range>;

constexpr uint64_t kElementBytes[] = {2, 4, 1, 8};
// Of one launch: optimizers write hundreds of tensors.
constexpr size_t kMostRegions = 1024;

// The distance at which rows that one block writes follow each other most often, 0 if there are
// none.
uint64_t StrideOf(absl::Span<const Range> of_one) {
  std::map<uint64_t, size_t> count;
  for (size_t i = 1; i < of_one.size(); ++i) ++count[of_one[i].first - of_one[i - 1].first];
  const auto most = std::max_element(
      count.begin(), count.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == count.end() ? 0 : most->first;
}

// Those that begin in [begin, end).
absl::Span<const Range> Within(absl::Span<const Range> ranges, uint64_t begin, uint64_t end) {
  const auto index = [&](uint64_t address) {
    const auto lies_before = [](const Range& range, uint64_t at) { return range.first < at; };
    return static_cast<size_t>(
        std::lower_bound(ranges.begin(), ranges.end(), address, lies_before) - ranges.begin());
  };
  return ranges.subspan(index(begin), index(end) - index(begin));
}

uint64_t BytesOf(absl::Span<const Range> ranges) {
  uint64_t bytes = 0;
  for (const auto& [begin, end] : ranges) bytes += end - begin;
  return bytes;
}

// All between the first and the last, or rows, if the stride of one block's is that of all.
// `bytes`: how many are written of it at most, as far as one can tell; if they are fewer than it
// has, some of it is not.
OutputRegion RegionOf(absl::Span<const Range> ranges, uint64_t stride, uint64_t base,
                      uint64_t bytes) {
  const uint64_t begin = ranges.front().first, length = ranges.back().second - begin;
  OutputRegion region = {.begin = begin - base, .width = length, .stride = length};
  uint64_t width = 0;
  bool fits = stride > 0;
  for (const auto& [from, to] : ranges) {
    if (!fits) break;
    const uint64_t into = (from - begin) % stride;
    width = std::max(width, into + (to - from));
    fits = into + (to - from) <= stride;
  }
  if (fits && width < stride) {
    region.width = width, region.stride = stride;
    region.rows = (length + stride - width) / stride;
    if (region.end() < ranges.back().second - base) ++region.rows;
  }
  region.is_exact = bytes >= region.rows * region.width;
  return region;
}

// The work is made from what a program has among its parameters.
bool IsCount(double number) { return number >= 1 && number <= 1e13; }

// How a product may say how far rows and matrices of its result are apart: in elements, in bytes,
// in units of a tensor map (16 bytes). By their number in LaunchOutputs::sizes.
std::array<uint64_t, 4> SizesOf(const KernelWork& work, uint64_t bytes) {
  const auto row = static_cast<uint64_t>(work.shape[0]);
  const auto matrix = row * static_cast<uint64_t>(work.shape[1]);
  const uint64_t matrices = static_cast<uint64_t>(std::max(work.shape[3], 1.0));
  const uint64_t element = bytes / std::max<uint64_t>(matrix * matrices, 1);
  return {row, row * element, row * element / 16, matrix};
}

uint32_t WordAt(absl::Span<const uint8_t> parameters, uint32_t at) {
  uint32_t word = 0;
  if (at + sizeof word <= parameters.size()) {
    std::memcpy(&word, parameters.data() + at, sizeof word);
  }
  return word;
}

// As many bytes as the work says, all in one piece: what the products' blocks write agrees with it.
std::optional<OutputRegion> RegionOfWork(const OutputRegion& seen, uint64_t stride,
                                         WorkFamily family, const KernelWork& work) {
  if (!work.checked) return std::nullopt;
  double row = 0, elements = 0;
  if (family == WorkFamily::kGemm) {
    row = work.shape[0];  // of m elements, n times, for each of the batch
    elements = work.shape[0] * work.shape[1] * std::max(work.shape[3], 1.0);
  } else if (family == WorkFamily::kAttention && !work.backward) {
    row = work.shape[1] * work.shape[4];  // of a token: heads times their width
    elements = work.shape[0] * work.shape[1] * work.shape[2] * work.shape[4];
  }
  if (!IsCount(row) || !IsCount(elements)) return std::nullopt;
  for (const uint64_t size : kElementBytes) {
    const auto bytes = static_cast<uint64_t>(elements) * size;
    const auto row_bytes = static_cast<uint64_t>(row) * size;
    // Rows of a tile, or rows as a whole. Rows as far apart as those of a wider type may be rows of
    // a wider matrix, if the work says nothing of so many bytes.
    const bool is_exact = work.written_bytes == static_cast<double>(bytes);
    const bool agrees =
        stride == row_bytes || (seen.rows == 1 && seen.width % row_bytes == 0 && is_exact);
    if (agrees && seen.end() <= bytes) {
      return OutputRegion{.width = bytes, .stride = bytes, .is_exact = is_exact};
    }
  }
  return std::nullopt;
}

}  // namespace

uint64_t PointerAt(absl::Span<const uint8_t> parameters, uint32_t at) {
  uint64_t pointer = 0;
  if (at + sizeof pointer <= parameters.size()) {
    std::memcpy(&pointer, parameters.data() + at, sizeof pointer);
  }
  return pointer;
}

std::vector<uint32_t> PointersAmong(absl::Span<const uint8_t> parameters, AddressSpace& memory) {
  std::vector<uint32_t> pointers;
  for (uint32_t at = 0; at + 8 <= parameters.size(); at += 8) {
    const uint64_t value = PointerAt(parameters, at);
    // Nothing is mapped below, and small numbers are many.
    if (value >> 32 != 0 && memory.Find(value)) pointers.push_back(at);
  }
  return pointers;
}

LaunchOutputs OutputsOf(const sass::Sample& sample, absl::Span<const uint8_t> parameters,
                        absl::Span<const uint32_t> pointers, AddressSpace& memory,
                        WorkFamily family, const KernelWork& work) {
  LaunchOutputs outputs;
  outputs.known = sample.is_complete || sample.is_all;
  outputs.precision = work.precision;
  std::map<uint64_t, uint32_t> bases;  // address, where it is
  for (const uint32_t at : pointers) bases.emplace(PointerAt(parameters, at), at);
  std::map<uint64_t, Ranges> written;  // by base
  uint64_t last = 0, last_end = 0;     // of the last base, where the memory around it ends
  for (auto [begin, end] : sample.written) {
    while (begin < end) {
      // What lies on both sides of a pointer belongs to two.
      const auto above = bases.upper_bound(begin);
      const uint64_t until = above == bases.end() ? end : std::min(end, above->first);
      const uint64_t base = above == bases.begin() ? 0 : std::prev(above)->first;
      if (base != last) {
        const auto around = memory.RangeAround(base);
        last = base, last_end = around ? around->first + around->second : 0;
      }
      if (base == 0 || last_end < until) {
        outputs.known = false;
      } else {
        written[base].emplace_back(begin, until);
      }
      begin = until;
    }
  }
  if (written.size() > kMostRegions) return {};
  uint64_t most = 0;
  uint64_t largest = 0;  // bytes of the region that most of the sample is in
  bool by_work = false, is_sized = false;
  for (const auto& [base, ranges] : written) {
    const auto of_one = Within(sample.of_one, ranges.front().first, ranges.back().second);
    const uint64_t stride = StrideOf(of_one);
    const uint64_t own = BytesOf(ranges);
    uint64_t bytes = own;
    if (!sample.is_all) {
      const double of_all =
          static_cast<double>(BytesOf(of_one)) * static_cast<double>(sample.clusters);
      bytes = std::max(bytes, static_cast<uint64_t>(std::min(of_all, 1e15)));
    }
    OutputRegion region = RegionOf(ranges, stride, base, bytes);
    bool is_of_work = false;
    if (const auto of_work = RegionOfWork(region, stride, family, work);
        of_work && !sample.is_all && (of_work->is_exact || !sample.is_complete)) {
      region = *of_work;
      is_of_work = true;
    } else if (!sample.is_all && region.is_exact) {
      // The one that writes furthest may not have been tried.
      const uint64_t rows = (bytes + region.width - 1) / region.width;
      if (region.rows == 1) {
        region.is_exact = bytes <= region.width;
        region.width = region.stride = std::max(region.width, bytes);
      } else {
        region.is_exact = rows <= region.rows;
        region.rows = std::max(region.rows, rows);
      }
    }
    // Where blocks were given up, they may write more.
    if (!sample.is_all && !sample.is_complete && !is_of_work) region.is_exact = false;
    region.parameter = bases[base];
    outputs.regions.push_back(region);
    if (own > most) {
      most = own;
      largest = region.width;
      by_work = is_of_work;
      is_sized = is_of_work && region.is_exact;
    }
  }
  // Not as they happen to lie in memory.
  std::sort(outputs.regions.begin(), outputs.regions.end(),
            [](const OutputRegion& a, const OutputRegion& b) { return a.parameter < b.parameter; });
  // Blocks that take what is next have not come to their end, alone; what else they write, flags
  // and sums of rows, is seen before.
  if (by_work) outputs.known = true;
  if (is_sized && family == WorkFamily::kGemm) {
    outputs.bytes_of_work = largest;
    const auto sizes = SizesOf(work, largest);
    for (uint32_t at = 0; at + 4 <= parameters.size(); at += 4) {
      const uint32_t word = WordAt(parameters, at);
      for (uint32_t which = 0; which < sizes.size(); ++which) {
        if (word > 1 && word == sizes[which]) outputs.sizes.emplace_back(at, which);
      }
    }
  }
  return outputs;
}

std::optional<LaunchOutputs> OutputsOfProduct(const LaunchOutputs& other,
                                              absl::Span<const uint8_t> parameters,
                                              AddressSpace& memory, const KernelWork& work) {
  const double elements = work.shape[0] * work.shape[1] * std::max(work.shape[3], 1.0);
  if (!work.checked || !IsCount(elements) || !IsCount(work.written_bytes) ||
      other.bytes_of_work == 0) {
    return std::nullopt;
  }
  const auto bytes = static_cast<uint64_t>(work.written_bytes);
  // Parts that another kernel adds up are no results.
  if (std::find(std::begin(kElementBytes), std::end(kElementBytes),
                bytes / static_cast<uint64_t>(elements)) == std::end(kElementBytes) ||
      bytes % static_cast<uint64_t>(elements) != 0) {
    return std::nullopt;
  }
  const auto sizes = SizesOf(work, bytes);
  for (const auto& [at, which] : other.sizes) {
    if (WordAt(parameters, at) != sizes[which]) return std::nullopt;
  }
  LaunchOutputs outputs = other;
  outputs.bytes_of_work = bytes;
  outputs.precision = work.precision;
  for (OutputRegion& region : outputs.regions) {
    if (region.width != other.bytes_of_work) {
      region.is_exact = false;  // it may have another size, too
      continue;
    }
    region.width = region.stride = bytes;
    if (memory.Check(PointerAt(parameters, region.parameter), bytes)) return std::nullopt;
  }
  return outputs;
}

}  // namespace phantora
