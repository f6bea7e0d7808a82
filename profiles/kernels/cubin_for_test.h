// A small cubin, and a library around it, for tests.
#ifndef PHANTORA_PROFILES_KERNELS_CUBIN_FOR_TEST_H_
#define PHANTORA_PROFILES_KERNELS_CUBIN_FOR_TEST_H_

#include <elf.h>
#include <lz4.h>
#include <zstd.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace phantora {

using Bytes = std::vector<uint8_t>;

template <typename T>
void Put(Bytes& out, const T& value) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
  out.insert(out.end(), bytes, bytes + sizeof value);
}

// An ELF file of these sections; the first is behind the header.
struct SectionForTest {
  std::string name;
  uint32_t type;
  Bytes bytes;
  uint32_t link = 0, info = 0;
};
inline Bytes ElfForTest(uint16_t machine, uint16_t type, uint32_t flags,
                        std::vector<SectionForTest> sections) {
  Bytes names(1);
  sections.push_back({".shstrtab", SHT_STRTAB, {}});
  std::vector<Elf64_Shdr> headers(1);
  for (const SectionForTest& section : sections) {
    Elf64_Shdr header{};
    header.sh_name = static_cast<uint32_t>(names.size());
    header.sh_type = section.type;
    header.sh_link = section.link;
    header.sh_info = section.info;
    headers.push_back(header);
    names.insert(names.end(), section.name.begin(), section.name.end());
    names.push_back(0);
  }
  sections.back().bytes = names;
  Bytes out(sizeof(Elf64_Ehdr));
  for (size_t i = 0; i < sections.size(); ++i) {
    out.resize((out.size() + 15) & ~size_t{15});
    headers[i + 1].sh_offset = out.size();
    headers[i + 1].sh_size = sections[i].bytes.size();
    out.insert(out.end(), sections[i].bytes.begin(), sections[i].bytes.end());
  }
  out.resize((out.size() + 15) & ~size_t{15});
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_machine = machine;
  header.e_type = type;
  header.e_flags = flags;
  header.e_shoff = out.size();
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = static_cast<uint16_t>(headers.size());
  header.e_shstrndx = static_cast<uint16_t>(headers.size() - 1);
  for (const Elf64_Shdr& section : headers) Put(out, section);
  std::memcpy(out.data(), &header, sizeof header);
  return out;
}

inline Bytes CodeForTest(uint32_t seed, size_t bytes) {
  std::mt19937 random(seed);
  Bytes code(bytes);
  for (uint8_t& byte : code) byte = static_cast<uint8_t>(random());
  return code;
}

// One kernel with parameters of 8, 4 and 24,000 bytes, the third as compilers of CUDA 13 say it; its
// second instruction is relocated.
inline Bytes CubinForTest(int architecture, const std::string& name, const Bytes& code,
                          uint16_t type = ET_EXEC) {
  Bytes strings(1);
  strings.insert(strings.end(), name.begin(), name.end());
  strings.push_back(0);
  Elf64_Sym symbol{};
  symbol.st_name = 1;
  symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
  symbol.st_other = 0x10;
  symbol.st_shndx = 3;
  symbol.st_size = code.size();
  Bytes symbols(sizeof(Elf64_Sym)), relocations, info;
  Put(symbols, symbol);
  Put(relocations, Elf64_Rel{.r_offset = 16, .r_info = 0});
  for (const auto& [place, size] : {std::pair<uint32_t, uint32_t>{0, 8}, {1 | 8 << 16, 4}}) {
    Put(info, uint32_t{4 | 0x17 << 8 | 12 << 16});
    Put(info, uint32_t{0});
    Put(info, place);
    Put(info, uint32_t{size << 18});
  }
  Put(info, uint32_t{4 | 0x45 << 8 | 12 << 16});
  Put(info, uint32_t{0});
  Put(info, uint32_t{2 | 16 << 16});
  Put(info, uint32_t{24000});
  return ElfForTest(190, type, static_cast<uint32_t>(architecture),
                    {{".strtab", SHT_STRTAB, strings},
                     {".symtab", SHT_SYMTAB, symbols, 1},
                     {".text." + name, SHT_PROGBITS, code},
                     {".rel.text." + name, SHT_REL, relocations, 2, 3},
                     {".nv.info." + name, SHT_PROGBITS, info, 0, 3}});
}

// An entry of a fat binary; `flags` say how it is compressed.
inline void PutEntry(Bytes& out, int architecture, const Bytes& cubin, uint64_t flags) {
  Bytes payload = cubin;
  if (flags == 0x2000) {
    payload.resize(static_cast<size_t>(LZ4_compressBound(static_cast<int>(cubin.size()))));
    payload.resize(static_cast<size_t>(LZ4_compress_default(
        reinterpret_cast<const char*>(cubin.data()), reinterpret_cast<char*>(payload.data()),
        static_cast<int>(cubin.size()), static_cast<int>(payload.size()))));
  } else if (flags == 0x8000) {
    payload.resize(ZSTD_compressBound(cubin.size()));
    payload.resize(ZSTD_compress(payload.data(), payload.size(), cubin.data(), cubin.size(), 1));
  }
  const auto compressed = static_cast<uint32_t>(payload.size());
  payload.resize((payload.size() + 7) & ~size_t{7});
  Put(out, uint32_t{2 | 0x101 << 16});
  Put(out, uint32_t{64});
  Put(out, uint64_t{payload.size()});
  Put(out, flags == 0 ? 0 : compressed);
  Put(out, uint64_t{0});
  Put(out, static_cast<uint32_t>(architecture));
  Put(out, uint64_t{0});
  Put(out, flags);
  Put(out, uint64_t{0});
  Put(out, uint64_t{flags == 0 ? 0 : cubin.size()});
  out.insert(out.end(), payload.begin(), payload.end());
}

inline Bytes ContainerForTest(const Bytes& entries) {
  Bytes out;
  Put(out, uint32_t{0xba55ed50});
  Put(out, uint32_t{1 | 16 << 16});
  Put(out, uint64_t{entries.size()});
  out.insert(out.end(), entries.begin(), entries.end());
  return out;
}

}  // namespace phantora

#endif  // PHANTORA_PROFILES_KERNELS_CUBIN_FOR_TEST_H_
