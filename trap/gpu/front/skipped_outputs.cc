#include "trap/gpu/front/skipped_outputs.h"

#include <algorithm>
#include <vector>

#include "uvm_model/device_memory.h"

namespace phantora {
namespace {

// Each costs this machine up to a microsecond.
constexpr uint64_t kMostRows = 4096;
constexpr uint64_t kPage = 4096;
// A prime number of pages, so that rows of matrices differ.
constexpr uint64_t kNoiseBytes = 257 * kPage;
constexpr uint64_t kNoiseAt = uint64_t{1} << 32, kHalfNoiseAt = uint64_t{1} << 33;

// What kernels of these write depends on their parameters alone.
bool HasKnownExtent(WorkFamily family) {
  switch (family) {
    case WorkFamily::kUnknown:
    case WorkFamily::kOptimizer:
    case WorkFamily::kIndex:
    case WorkFamily::kScan:
    case WorkFamily::kGenerated:
    case WorkFamily::kOther:
      return false;
    default:
      return true;
  }
}
// And are numbers with a point, mostly: of others small ones may be anything.
bool MakesNumbers(WorkFamily family) {
  return family == WorkFamily::kGemm || family == WorkFamily::kAttention ||
         family == WorkFamily::kConvolution;
}

}  // namespace

SkippedOutputs::Left SkippedOutputs::Leave(AddressSpace& memory,
                                           absl::Span<const uint8_t> parameters,
                                           const LaunchOutputs& outputs, WorkFamily family) {
  Left left;
  for (const OutputRegion& region : outputs.regions) {
    const uint64_t at = PointerAt(parameters, region.parameter) + region.begin;
    Lines lines = {at, region.width, region.rows, region.stride};
    if (region.rows > kMostRows) {
      lines = {at, region.end() - region.begin, 1, 0};
    } else if (region.is_exact && HasKnownExtent(family) && skipped_ != Skipped::kStale) {
      if (skipped_ == Skipped::kNoise && MakesNumbers(family)) {
        MakeNoise(memory, lines, outputs.precision == MathPrecision::kFp16);
        left.made += lines.bytes * lines.count;
      } else {
        MakeZeros(memory, lines);
      }
    }
    for (uint64_t row = 0; row < lines.count; ++row) {
      left.seen += memory.SetTaint(lines.address + row * lines.stride, lines.bytes, true);
    }
  }
  return left;
}

void SkippedOutputs::MakeZeros(AddressSpace& memory, const Lines& lines) {
  for (uint64_t row = 0; row < lines.count; ++row) {
    const uint64_t at = lines.address + row * lines.stride;
    const MemoryObject::Run run = memory.RunAt(at, lines.bytes);
    if (run.empty && run.length >= lines.bytes) continue;
    if (memory.Zero(at, lines.bytes, AddressSpace::OnTaint::kKeep)) return;
  }
}

void SkippedOutputs::MakeNoise(AddressSpace& memory, const Lines& lines, bool fp16) {
  // Two bytes each, of either sign: from 2^-8 to 2^-6 as bf16, and as float32 or double what the
  // upper bytes are; or the same as fp16.
  const uint64_t noise = fp16 ? kHalfNoiseAt : kNoiseAt;
  FillNoise(noise, fp16 ? 0x1c00 : 0x3b80, fp16 ? 0x800 : 0x100);
  const uint64_t pages = ++filled_ * 37;
  for (uint64_t row = 0; row < lines.count; ++row) {
    const uint64_t begin = lines.address + row * lines.stride, end = begin + lines.bytes;
    // As far into pages as the noise is, whole pages are the same and take no memory.
    uint64_t from =
        (pages * kPage + begin % kPage + row * lines.bytes / kPage * kPage) % (kNoiseBytes - kPage);
    for (uint64_t at = begin; at < end;) {
      const uint64_t step = std::min(end - at, kNoiseBytes - from);
      if (memory.Copy(at, noise_, noise + from, step)) return;
      at += step, from = (from + step) % kNoiseBytes;
    }
  }
}

void SkippedOutputs::FillNoise(uint64_t at, uint32_t least, uint32_t kinds) {
  if (noise_.Find(at)) return;
  std::vector<uint16_t> words(kNoiseBytes / sizeof(uint16_t));
  uint64_t state = 1;
  for (uint16_t& word : words) {
    state = state * 6364136223846793005 + 1442695040888963407;
    const auto random = static_cast<uint32_t>(state >> 33);
    word = static_cast<uint16_t>(least + random % kinds + (random >> 16 & 1) * 0x8000);
  }
  const auto memory = std::make_shared<DeviceMemory>(store_, kNoiseBytes);
  memory->Write(0, words.data(), kNoiseBytes);
  noise_.Map(at, kNoiseBytes, memory, 0);
}

}  // namespace phantora
