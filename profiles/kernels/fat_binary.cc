#include "profiles/kernels/fat_binary.h"

#include <elf.h>
#include <lz4.h>
#include <string.h>
#include <zstd.h>

#include <algorithm>
#include <string_view>

#include "profiles/kernels/cubin.h"

namespace phantora {
namespace {

constexpr uint32_t kContainerMagic = 0xba55ed50, kContainerHeader = 16;
constexpr uint32_t kEntryHeader = 64, kLongestEntryHeader = 4096;
constexpr uint16_t kCubinEntry = 2;  // 1 is PTX
constexpr uint64_t kFlagLz4 = 0x2000, kFlagZstd = 0x8000;
constexpr uint8_t kZstdMagic[] = {0x28, 0xb5, 0x2f, 0xfd};

using Bytes = absl::Span<const uint8_t>;

template <typename T>
std::optional<T> ReadAt(Bytes data, uint64_t offset) {
  if (offset > data.size() || sizeof(T) > data.size() - offset) return std::nullopt;
  T value;
  memcpy(&value, data.data() + offset, sizeof value);
  return value;
}

struct Section {
  std::string_view name;
  Bytes bytes;
};

std::vector<Section> Sections(Bytes file) {
  std::vector<Section> sections;
  const auto header = ReadAt<Elf64_Ehdr>(file, 0);
  if (!header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_shentsize != sizeof(Elf64_Shdr)) {
    return {};
  }
  const auto at = [&](uint64_t index) {
    return ReadAt<Elf64_Shdr>(file, header->e_shoff + index * sizeof(Elf64_Shdr));
  };
  const auto data = [&](const Elf64_Shdr& section) {
    const bool inside = section.sh_type != SHT_NOBITS && section.sh_offset <= file.size() &&
                        section.sh_size <= file.size() - section.sh_offset;
    return inside ? file.subspan(section.sh_offset, section.sh_size) : Bytes();
  };
  const auto strings = at(header->e_shstrndx);
  if (header->e_shoff > file.size() || !strings) return {};
  const Bytes names = data(*strings);
  for (uint32_t i = 0; i < header->e_shnum; ++i) {
    const auto section = at(i);
    if (!section || section->sh_name >= names.size()) continue;
    const auto* name = reinterpret_cast<const char*>(names.data()) + section->sh_name;
    sections.push_back({{name, strnlen(name, names.size() - section->sh_name)}, data(*section)});
  }
  return sections;
}

bool IsFatBinary(const Section& section) {
  return section.name == ".nv_fatbin" || section.name == "__nv_relfatbin";
}

// The entries of the container at the start of `bytes`; returns where it ends.
uint64_t ReadContainer(Bytes bytes, int architecture, std::vector<PackedCubin>& found) {
  const auto header_bytes = ReadAt<uint16_t>(bytes, 6);
  const auto size = ReadAt<uint64_t>(bytes, 8);
  if (!header_bytes || !size || *header_bytes < kContainerHeader) return kContainerHeader;
  const uint64_t end = *header_bytes + std::min<uint64_t>(*size, bytes.size());
  uint64_t at = *header_bytes;
  while (at + kEntryHeader <= std::min<uint64_t>(end, bytes.size())) {
    const uint16_t kind = *ReadAt<uint16_t>(bytes, at);
    const uint32_t entry_header = *ReadAt<uint32_t>(bytes, at + 4);
    const uint64_t payload = *ReadAt<uint64_t>(bytes, at + 8);
    const uint32_t compressed = *ReadAt<uint32_t>(bytes, at + 16);
    const uint32_t entry_architecture = *ReadAt<uint32_t>(bytes, at + 28);
    const uint64_t flags = *ReadAt<uint64_t>(bytes, at + 40);
    const uint64_t unpacked = *ReadAt<uint64_t>(bytes, at + 56);
    if (entry_header < kEntryHeader || entry_header > kLongestEntryHeader ||
        entry_header > bytes.size() - at || payload > bytes.size() - at - entry_header) {
      break;
    }
    if (kind == kCubinEntry && entry_architecture == static_cast<uint32_t>(architecture)) {
      PackedCubin cubin;
      cubin.architecture = architecture;
      cubin.bytes = bytes.subspan(at + entry_header, payload);
      if ((flags & (kFlagLz4 | kFlagZstd)) != 0) {
        cubin.packing =
            (flags & kFlagLz4) != 0 ? PackedCubin::Packing::kLz4 : PackedCubin::Packing::kZstd;
        cubin.bytes = cubin.bytes.subspan(0, compressed);
        cubin.unpacked_bytes = unpacked;
      } else {
        cubin.unpacked_bytes = payload;
      }
      found.push_back(cubin);
    }
    at += entry_header + payload;
  }
  return std::max<uint64_t>(kContainerHeader, std::min<uint64_t>(end, bytes.size()));
}

void FindContainers(Bytes bytes, int architecture, std::vector<PackedCubin>& found) {
  uint64_t at = 0;
  while (const auto magic = ReadAt<uint32_t>(bytes, at)) {
    if (*magic == kContainerMagic) {
      at += ReadContainer(bytes.subspan(at), architecture, found);
      at = (at + 7) & ~uint64_t{7};
    } else {
      at += 8;
    }
  }
}

void FindFrames(Bytes bytes, std::vector<PackedCubin>& found) {
  for (uint64_t at = 0; at + sizeof kZstdMagic <= bytes.size();) {
    const void* next = memmem(bytes.data() + at, bytes.size() - at, kZstdMagic, sizeof kZstdMagic);
    if (next == nullptr) return;
    at = static_cast<uint64_t>(static_cast<const uint8_t*>(next) - bytes.data());
    const Bytes rest = bytes.subspan(at);
    const size_t frame = ZSTD_findFrameCompressedSize(rest.data(), rest.size());
    const auto size = ZSTD_getFrameContentSize(rest.data(), rest.size());
    if (ZSTD_isError(frame) != 0 || size == ZSTD_CONTENTSIZE_ERROR ||
        size == ZSTD_CONTENTSIZE_UNKNOWN || size < sizeof(Elf64_Ehdr) || size > kLargestCubin) {
      at += sizeof kZstdMagic;
      continue;
    }
    found.push_back({.bytes = rest.subspan(0, frame),
                     .packing = PackedCubin::Packing::kZstd,
                     .unpacked_bytes = size,
                     .architecture = 0});
    at += frame;
  }
}

}  // namespace

std::vector<PackedCubin> FindPackedCubins(Bytes file, int architecture) {
  std::vector<PackedCubin> found;
  bool fat = false;
  for (const Section& section : Sections(file)) {
    if (IsFatBinary(section)) {
      fat = true;
      FindContainers(section.bytes, architecture, found);
    } else if (section.name == ".data" || section.name == ".rodata" ||
               section.name == ".data.rel.ro") {
      FindFrames(section.bytes, found);
    }
  }
  if (fat) return found;
  for (const uint64_t offset : FindCubins(file)) {
    const Bytes image = file.subspan(offset, CubinSize(file.subspan(offset)));
    found.push_back({.bytes = image,
                     .packing = PackedCubin::Packing::kNone,
                     .unpacked_bytes = image.size(),
                     .architecture = 0});
  }
  return found;
}

std::optional<Bytes> Unpack(const PackedCubin& packed, std::vector<uint8_t>& buffer) {
  if (packed.packing == PackedCubin::Packing::kNone) return packed.bytes;
  if (packed.unpacked_bytes > kLargestCubin || packed.bytes.size() > LZ4_MAX_INPUT_SIZE) {
    return std::nullopt;
  }
  buffer.resize(packed.unpacked_bytes);
  if (packed.packing == PackedCubin::Packing::kLz4) {
    const int size = LZ4_decompress_safe(
        reinterpret_cast<const char*>(packed.bytes.data()), reinterpret_cast<char*>(buffer.data()),
        static_cast<int>(packed.bytes.size()), static_cast<int>(buffer.size()));
    if (size < 0) return std::nullopt;
    return Bytes(buffer).subspan(0, static_cast<size_t>(size));
  }
  const size_t size =
      ZSTD_decompress(buffer.data(), buffer.size(), packed.bytes.data(), packed.bytes.size());
  if (ZSTD_isError(size) != 0) return std::nullopt;
  return Bytes(buffer).subspan(0, size);
}

CubinPlace PlaceOf(const PackedCubin& packed, Bytes file) {
  return {.offset = static_cast<uint64_t>(packed.bytes.data() - file.data()),
          .bytes = packed.bytes.size(),
          .unpacked_bytes = packed.unpacked_bytes,
          .packing = static_cast<uint64_t>(packed.packing)};
}

std::optional<std::vector<uint8_t>> CubinAt(const CubinPlace& place, Bytes bytes,
                                            std::string_view kernel) {
  if (place.packing > static_cast<uint64_t>(PackedCubin::Packing::kZstd)) return std::nullopt;
  const PackedCubin packed = {.bytes = bytes,
                              .packing = static_cast<PackedCubin::Packing>(place.packing),
                              .unpacked_bytes = place.unpacked_bytes};
  std::vector<uint8_t> buffer;
  const auto unpacked = Unpack(packed, buffer);
  for (uint64_t at = 0; unpacked && at < unpacked->size();) {
    const Bytes rest = unpacked->subspan(at);
    const uint64_t size = CubinSize(rest);
    if (size == 0) break;
    std::vector<CubinKernel> kernels;
    ReadCubin(rest.subspan(0, size), kernels);
    for (const CubinKernel& found : kernels) {
      if (found.name == kernel) return std::vector<uint8_t>(rest.begin(), rest.begin() + size);
    }
    at += (size + 7) & ~uint64_t{7};
  }
  return std::nullopt;
}

}  // namespace phantora
