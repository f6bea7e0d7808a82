// Mutated images for the cubin reader.
#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "profiles/kernels/cubin.h"

namespace phantora {
namespace {

using Bytes = std::vector<uint8_t>;

template <typename T>
uint64_t Append(Bytes& bytes, const T& value) {
  const uint64_t at = bytes.size();
  bytes.resize(at + sizeof value);
  std::memcpy(bytes.data() + at, &value, sizeof value);
  return at;
}

// One kernel with two parameters and one relocated instruction, as cuobjdump would
// show it.
Bytes SmallCubin() {
  Bytes image(sizeof(Elf64_Ehdr));
  static constexpr char kNames[] = "\0.text.k\0.nv.info.k\0.rel.text.k\0.symtab\0.strtab\0kernel";
  const std::string names(kNames, sizeof kNames);
  const auto name = [&names](const char* text) {
    return static_cast<Elf64_Word>(names.find(text, 0, std::strlen(text) + 1));
  };
  const uint64_t strings = image.size();
  image.insert(image.end(), names.begin(), names.end());
  image.resize((image.size() + 15) / 16 * 16);
  const uint64_t code = image.size();
  for (uint32_t i = 0; i < 16 * 4; ++i) Append(image, i * 0x01010101);
  const uint64_t info = image.size();
  for (uint16_t ordinal = 0; ordinal < 2; ++ordinal) {
    Append(image, uint32_t{12 << 16 | 0x17 << 8 | 4});
    Append(image, uint32_t{0});
    Append(image, static_cast<uint32_t>(ordinal | ordinal * 8 << 16));
    Append(image, uint32_t{8 << 18});
  }
  const uint64_t relocations = image.size();
  Append(image, Elf64_Rel{.r_offset = 0x20, .r_info = 0});
  const uint64_t symbols = image.size();
  Append(image, Elf64_Sym{});
  Append(image, Elf64_Sym{.st_name = name("kernel"),
                          .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                          .st_other = 0x10,
                          .st_shndx = 1,
                          .st_value = 0,
                          .st_size = 256});
  const uint64_t table = image.size();
  const auto section = [&](const char* text, Elf64_Word type, uint64_t offset, uint64_t size,
                           Elf64_Word link, Elf64_Word info_field) {
    Append(image, Elf64_Shdr{.sh_name = *text == 0 ? 0 : name(text),
                             .sh_type = type,
                             .sh_flags = 0,
                             .sh_addr = 0,
                             .sh_offset = offset,
                             .sh_size = size,
                             .sh_link = link,
                             .sh_info = info_field,
                             .sh_addralign = 16,
                             .sh_entsize = 0});
  };
  section("", SHT_NULL, 0, 0, 0, 0);
  section(".text.k", SHT_PROGBITS, code, 256, 0, 0);
  section(".nv.info.k", 0x70000000, info, relocations - info, 0, 1);
  section(".rel.text.k", SHT_REL, relocations, sizeof(Elf64_Rel), 4, 1);
  section(".symtab", SHT_SYMTAB, symbols, 2 * sizeof(Elf64_Sym), 5, 0);
  section(".strtab", SHT_STRTAB, strings, names.size(), 0, 0);
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_type = ET_EXEC;
  header.e_machine = 190;  // EM_CUDA
  header.e_shoff = table;
  header.e_flags = 90;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 6;
  header.e_shstrndx = 5;
  std::memcpy(image.data(), &header, sizeof header);
  return image;
}

// Every span must lie inside the bytes that were given.
void Check(const Bytes& image) {
  // A copy of just this size, so that AddressSanitizer sees the end.
  const std::unique_ptr<uint8_t[]> copy(new uint8_t[image.size()]);
  if (!image.empty()) std::memcpy(copy.get(), image.data(), image.size());
  const absl::Span<const uint8_t> data(copy.get(), image.size());
  EXPECT_LE(CubinSize(data), image.size());
  std::vector<CubinKernel> kernels;
  if (!ReadCubin(data, kernels)) {
    EXPECT_TRUE(kernels.empty());
  }
  uint64_t bytes = 0;
  for (const CubinKernel& kernel : kernels) {
    bytes += kernel.name.size();
    if (!kernel.code.empty()) {
      EXPECT_GE(kernel.code.data(), copy.get());
      EXPECT_LE(kernel.code.data() + kernel.code.size(), copy.get() + image.size());
    }
    EXPECT_LE(kernel.parameters.size(), 4096u);
    EXPECT_LE(kernel.relocated_instructions.size(), image.size() / sizeof(Elf64_Rel));
  }
  EXPECT_LE(bytes, image.size());
  FindCubins(data);
}

TEST(CubinFuzzTest, TheValidImageIsRead) {
  std::vector<CubinKernel> kernels;
  const Bytes image = SmallCubin();
  EXPECT_EQ(CubinSize(image), image.size());
  ASSERT_TRUE(ReadCubin(image, kernels));
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].name, "kernel");
  EXPECT_EQ(kernels[0].architecture, 90);
  EXPECT_EQ(kernels[0].code.size(), 256u);
  ASSERT_EQ(kernels[0].parameters.size(), 2u);
  EXPECT_EQ(kernels[0].parameters[1].offset, 8);
  EXPECT_EQ(kernels[0].parameters[1].size, 8);
  EXPECT_EQ(kernels[0].relocated_instructions, std::vector<uint32_t>{2});
}

TEST(CubinFuzzTest, TruncatedImages) {
  const Bytes image = SmallCubin();
  for (size_t size = 0; size < image.size(); ++size) {
    Check(Bytes(image.begin(), image.begin() + static_cast<ptrdiff_t>(size)));
  }
}

TEST(CubinFuzzTest, MutatedImages) {
  std::mt19937_64 random(1);
  const Bytes image = SmallCubin();
  static constexpr uint64_t kEdges[] = {0,
                                        1,
                                        0x7f,
                                        0xff,
                                        0xffff,
                                        0x7fffffff,
                                        0xffffffff,
                                        0x7fffffffffffffff,
                                        0xffffffffffffffc0,
                                        0xffffffffffffffff};
  for (int round = 0; round < 100000 && !testing::Test::HasFailure(); ++round) {
    Bytes mutant = image;
    const uint64_t changes = 1 + random() % 6;
    for (uint64_t i = 0; i < changes; ++i) {
      const uint64_t at = random() % (mutant.size() - 8);
      if (random() % 2 == 0) {
        mutant[at] ^= static_cast<uint8_t>(1 << random() % 8);
      } else {
        std::memcpy(&mutant[at & ~uint64_t{3}], &kEdges[random() % std::size(kEdges)],
                    random() % 2 == 0 ? 4 : 8);
      }
    }
    if (random() % 8 == 0) mutant.resize(random() % mutant.size());
    Check(mutant);
  }
}

// A small image whose sections all share the same bytes must not mean much work.
TEST(CubinFuzzTest, OverlappingSectionsAreRefused) {
  Bytes image = SmallCubin();
  Elf64_Ehdr header;
  std::memcpy(&header, image.data(), sizeof header);
  Elf64_Shdr relocations;
  std::memcpy(&relocations, image.data() + header.e_shoff + 3 * sizeof relocations,
              sizeof relocations);
  relocations.sh_offset = 0;
  relocations.sh_size = image.size();
  for (int i = 0; i < 1000; ++i) Append(image, relocations);
  header.e_shnum += 1000;
  std::memcpy(image.data(), &header, sizeof header);
  EXPECT_EQ(CubinSize(image), 0u);
}

}  // namespace
}  // namespace phantora
