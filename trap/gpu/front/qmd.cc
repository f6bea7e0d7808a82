#include "trap/gpu/front/qmd.h"

#include <cstring>

namespace phantora {
namespace {

// Bit ranges are written as in the headers: MW(high:low).
class Bits {
 public:
  explicit Bits(absl::Span<const uint8_t> bytes) : bytes_(bytes) {}

  uint64_t operator()(int high, int low) const {
    uint64_t word = 0;
    const size_t first = static_cast<size_t>(low) / 8;
    const size_t available = bytes_.size() > first ? bytes_.size() - first : 0;
    std::memcpy(&word, bytes_.data() + first, available < 8 ? available : 8);
    const int width = high - low + 1;
    word >>= low % 8;
    // No field here is wider than 32 bits, so one 64-bit load covers it.
    return word & ((uint64_t{1} << width) - 1);
  }
  bool operator()(int bit) const { return (*this)(bit, bit) != 0; }

 private:
  absl::Span<const uint8_t> bytes_;
};

// What versions 2 and 3 share.
void DecodeCommonBeforeHopper(const Bits& bits, Qmd& qmd) {
  qmd.requires_pcas = bits(140);
  qmd.grid = {static_cast<uint32_t>(bits(415, 384)), static_cast<uint32_t>(bits(431, 416)),
              static_cast<uint32_t>(bits(463, 448))};
  qmd.block = {static_cast<uint32_t>(bits(607, 592)), static_cast<uint32_t>(bits(623, 608)),
               static_cast<uint32_t>(bits(639, 624))};
  qmd.type = qmd.grid.x == 0 ? Qmd::Type::kNull : Qmd::Type::kGrid;
  qmd.shared_bytes = bits(561, 544);
  qmd.group = bits(133, 128);
  qmd.registers = bits(656, 648);
  qmd.program = bits(1567, 1536) | bits(1584, 1568) << 32;
  for (int i = 0; i < 8; ++i) {
    qmd.constants[i] = {
        .valid = bits(640 + i),
        .address = bits(1055 + i * 64, 1024 + i * 64) | bits(1072 + i * 64, 1056 + i * 64) << 32,
        .bytes = static_cast<uint32_t>(bits(1087 + i * 64, 1075 + i * 64) << 4)};
  }
}

// The header has one pointer and calls these bits CIRCULAR_QUEUE_ADDR_LOWER, which
// grids do not use; graphs keep the second dependent's address there.
uint64_t SecondDependent(const Bits& bits) { return bits(319, 288) << 8; }

void DecodeVersion2(const Bits& bits, Qmd& qmd) {
  DecodeCommonBeforeHopper(bits, qmd);
  qmd.barriers = bits(959, 955);
  qmd.dependence_counter = bits(157, 151);
  for (int i = 0; i < 2; ++i) {
    const int base = 736 + i * 96;
    qmd.releases[i] = {.enabled = bits(138 + i),
                       .address = bits(base + 31, base) | bits(base + 39, base + 32) << 32,
                       .payload = bits(base + 95, base + 64),
                       .payload_64bit = false,
                       .with_timestamp = !bits(base + 63),
                       .reduce = bits(base + 58),
                       .reduction = static_cast<uint32_t>(bits(base + 54, base + 52)),
                       .reduction_signed = bits(base + 57, base + 56) == 1,
                       .interrupt = false};
  }
  qmd.dependents[0] = {bits(141), bits(511, 480) << 8, static_cast<uint32_t>(bits(144, 142))};
  qmd.dependents[1] = {bits(146), SecondDependent(bits), static_cast<uint32_t>(bits(149, 147))};
}

void DecodeVersion3(const Bits& bits, Qmd& qmd) {
  DecodeCommonBeforeHopper(bits, qmd);
  qmd.barriers = bits(767, 763);
  qmd.dependence_counter = bits(157, 142);
  static constexpr int kReleaseBase[3] = {768, 896, 1664};
  for (int i = 0; i < 3; ++i) {
    const int base = kReleaseBase[i];
    qmd.releases[i] = {.enabled = bits(base + 55),
                       .address = bits(base + 31, base) | bits(base + 39, base + 32) << 32,
                       .payload = bits(base + 95, base + 64) | bits(base + 127, base + 96) << 32,
                       .payload_64bit = bits(base + 61),
                       .with_timestamp = bits(base + 63, base + 62) == 0,
                       .reduce = bits(base + 58),
                       .reduction = static_cast<uint32_t>(bits(base + 54, base + 52)),
                       .reduction_signed = bits(base + 57, base + 56) == 1,
                       .interrupt = bits(base + 60, base + 59) != 0};
  }
  qmd.dependents[0] = {bits(512), bits(511, 480) << 8, static_cast<uint32_t>(bits(515, 513))};
  qmd.dependents[1] = {bits(517), SecondDependent(bits), static_cast<uint32_t>(bits(520, 518))};
}

void DecodeVersion4(const Bits& bits, Qmd& qmd) {
  const uint64_t type = bits(25, 23);
  qmd.type = type == 0 ? Qmd::Type::kQueue : type == 1 ? Qmd::Type::kNull : Qmd::Type::kGrid;
  qmd.dependence_counter = bits(15, 0);
  // Not in the public header; these bits are all that a stream's priority changes.
  qmd.group = bits(21, 16);
  qmd.requires_pcas = bits(30);
  qmd.grid = {static_cast<uint32_t>(bits(1055, 1024)), static_cast<uint32_t>(bits(1071, 1056)),
              static_cast<uint32_t>(bits(1103, 1088))};
  qmd.block = {static_cast<uint32_t>(bits(1167, 1152)), static_cast<uint32_t>(bits(1183, 1168)),
               static_cast<uint32_t>(bits(1199, 1184))};
  if (type == 4) {
    // Cooperative launches state theirs in what has to run at one time, which is all of it.
    qmd.grid.x *= static_cast<uint32_t>(bits(2223, 2208));
    qmd.grid.y *= static_cast<uint32_t>(bits(2239, 2224));
    qmd.grid.z *= static_cast<uint32_t>(bits(2255, 2240));
  }
  if (type >= 3) {
    // Cluster launches state their grid in clusters.
    qmd.cluster = {static_cast<uint32_t>(bits(2149, 2144)), static_cast<uint32_t>(bits(2157, 2152)),
                   static_cast<uint32_t>(bits(2165, 2160))};
    if (qmd.cluster.count() > 0) {
      qmd.grid.x *= qmd.cluster.x;
      qmd.grid.y *= qmd.cluster.y;
      qmd.grid.z *= qmd.cluster.z;
    }
  }
  qmd.registers = bits(1208, 1200);
  qmd.barriers = bits(1215, 1211);
  qmd.shared_bytes = bits(601, 584);
  qmd.program = bits(1247, 1216) | bits(1272, 1248) << 32;
  for (int i = 0; i < 8; ++i) {
    qmd.constants[i] = {
        .valid = bits(416 + i * 4),
        .address = (bits(1567 + i * 64, 1536 + i * 64) | bits(1586 + i * 64, 1568 + i * 64) << 32)
                   << 6,
        .bytes = static_cast<uint32_t>(bits(1599 + i * 64, 1587 + i * 64) << 4)};
  }
  for (int i = 0; i < 3; ++i) {
    const int flags = 320 + i * 16, base = 640 + i * 128;
    qmd.releases[i] = {.enabled = bits(flags),
                       .address = bits(base + 31, base) | bits(base + 56, base + 32) << 32,
                       .payload = bits(base + 95, base + 64) | bits(base + 127, base + 96) << 32,
                       .payload_64bit = bits(flags + 12),
                       .with_timestamp = bits(flags + 2, flags + 1) == 0,
                       .reduce = bits(flags + 4),
                       .reduction = static_cast<uint32_t>(bits(flags + 7, flags + 5)),
                       .reduction_signed = bits(flags + 9, flags + 8) == 1,
                       .interrupt = bits(flags + 11, flags + 10) != 0};
  }
  for (int i = 0; i < 2; ++i) {
    qmd.dependents[i] = {bits(368 + i * 5), bits(479 + i * 32, 448 + i * 32) << 8,
                         static_cast<uint32_t>(bits(371 + i * 5, 369 + i * 5))};
  }
}

}  // namespace

std::optional<Qmd> DecodeQmd(absl::Span<const uint8_t> bytes) {
  const Bits bits(bytes);
  Qmd qmd;
  qmd.minor = bits(579, 576);
  qmd.major = bits(583, 580);
  if (qmd.major == 2) {
    DecodeVersion2(bits, qmd);
  } else if (qmd.major == 3) {
    DecodeVersion3(bits, qmd);
  } else if (qmd.major == 4 && bytes.size() >= kQmdBytes) {
    DecodeVersion4(bits, qmd);
  } else {
    return std::nullopt;
  }
  return qmd;
}

}  // namespace phantora
