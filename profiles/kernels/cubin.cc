#include "profiles/kernels/cubin.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>
#include <unordered_map>

namespace phantora {
namespace {

constexpr uint16_t kMachineCuda = 190;  // EM_CUDA
// Sections without file data, besides SHT_NOBITS (e.g. .nv.shared.reserved).
constexpr uint32_t kCudaNoBits = 0x7000000a;
constexpr unsigned char kCudaObject = 13;  // type of variables' symbols in relocatable ones
constexpr uint8_t kSymbolEntry = 0x10;     // STO_CUDA_ENTRY in st_other
constexpr uint8_t kAttributeFormatSized = 4;
constexpr uint8_t kAttributeParameterInfo = 0x17;  // EIATTR_KPARAM_INFO
// EIATTR_KPARAM_INFO_V2, of kernels with more than 4 KiB of parameters.
constexpr uint8_t kAttributeLargeParameterInfo = 0x45;
constexpr uint16_t kMostParameters = 4096;

template <typename T>
std::optional<T> ReadAt(absl::Span<const uint8_t> data, uint64_t offset) {
  if (offset > data.size() || sizeof(T) > data.size() - offset) return std::nullopt;
  T value;
  std::memcpy(&value, data.data() + offset, sizeof value);
  return value;
}

class Image {
 public:
  static std::optional<Image> Parse(absl::Span<const uint8_t> data) {
    auto header = ReadAt<Elf64_Ehdr>(data, 0);
    if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_machine != kMachineCuda ||
        // Relocatable ones are linked when they are loaded (libcublasLt, libnccl).
        (header->e_type != ET_EXEC && header->e_type != ET_REL) ||
        header->e_shentsize != sizeof(Elf64_Shdr) || header->e_shstrndx >= header->e_shnum) {
      return std::nullopt;
    }
    Image image(data, *header);
    uint64_t section_bytes = 0;
    for (uint32_t i = 0; i < header->e_shnum; ++i) {
      auto section = ReadAt<Elf64_Shdr>(data, header->e_shoff + i * sizeof(Elf64_Shdr));
      if (header->e_shoff > data.size() || !section) return std::nullopt;
      if (HasData(*section) && (section->sh_offset > data.size() ||
                                section->sh_size > data.size() - section->sh_offset)) {
        return std::nullopt;
      }
      // Sections do not overlap; if they did, a small image could mean much work.
      if (HasData(*section)) section_bytes += section->sh_size;
      if (section_bytes > data.size()) return std::nullopt;
      image.sections_.push_back(*section);
    }
    return image;
  }

  static bool HasData(const Elf64_Shdr& section) {
    return section.sh_type != SHT_NOBITS && section.sh_type != kCudaNoBits;
  }
  const std::vector<Elf64_Shdr>& sections() const { return sections_; }
  // Since CUDA 13 (version 8 of the format) in the second byte: what images of both say, and what
  // they are for.
  int architecture() const {
    constexpr uint8_t kSecondByteSince = 8;
    const bool second = header_.e_ident[EI_ABIVERSION] >= kSecondByteSince;
    return header_.e_flags >> (second ? 8 : 0) & 0xff;
  }

  absl::Span<const uint8_t> Data(const Elf64_Shdr& section) const {
    return HasData(section) ? data_.subspan(section.sh_offset, section.sh_size)
                            : absl::Span<const uint8_t>();
  }
  std::string_view String(const Elf64_Shdr& table, uint64_t offset) const {
    const auto bytes = Data(table);
    if (offset >= bytes.size()) return {};
    const char* start = reinterpret_cast<const char*>(bytes.data()) + offset;
    return {start, strnlen(start, bytes.size() - offset)};
  }
  std::string_view Name(const Elf64_Shdr& section) const {
    return String(sections_[header_.e_shstrndx], section.sh_name);
  }
  uint64_t Size() const {
    uint64_t end = header_.e_shoff + sections_.size() * sizeof(Elf64_Shdr);
    end =
        std::max<uint64_t>(end, header_.e_phoff + uint64_t{header_.e_phnum} * header_.e_phentsize);
    for (const Elf64_Shdr& section : sections_) {
      if (HasData(section)) end = std::max(end, section.sh_offset + section.sh_size);
    }
    return std::min<uint64_t>(end, data_.size());
  }

 private:
  Image(absl::Span<const uint8_t> data, const Elf64_Ehdr& header) : data_(data), header_(header) {}
  absl::Span<const uint8_t> data_;
  Elf64_Ehdr header_;
  std::vector<Elf64_Shdr> sections_;
};

void ReadParameters(absl::Span<const uint8_t> info, CubinKernel& kernel) {
  uint64_t at = 0;
  while (auto head = ReadAt<uint32_t>(info, at)) {
    const uint8_t format = *head & 0xff, attribute = *head >> 8 & 0xff;
    const uint32_t size = format == kAttributeFormatSized ? *head >> 16 : 0;
    const bool large = attribute == kAttributeLargeParameterInfo;
    if ((attribute == kAttributeParameterInfo || large) && size >= 12) {
      // {index, ordinal:16 offset:16, flags and size in bits 31:18}, or {..., size:16 flags:16}
      auto place = ReadAt<uint32_t>(info, at + 8);
      auto shape = ReadAt<uint32_t>(info, at + 12);
      if (place && shape && (*place & 0xffff) < kMostParameters) {
        const size_t ordinal = *place & 0xffff;
        if (kernel.parameters.size() <= ordinal) kernel.parameters.resize(ordinal + 1);
        kernel.parameters[ordinal] = {static_cast<uint16_t>(*place >> 16),
                                      static_cast<uint16_t>(large ? *shape : *shape >> 18)};
      }
    }
    at += 4 + size;
  }
}

void ReadRelocations(absl::Span<const uint8_t> table, bool with_addend, CubinKernel& kernel) {
  const uint64_t step = with_addend ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel);
  for (uint64_t at = 0; at + step <= table.size(); at += step) {
    kernel.relocated_instructions.push_back(
        static_cast<uint32_t>(*ReadAt<uint64_t>(table, at) / 16));
  }
  auto& list = kernel.relocated_instructions;
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

}  // namespace

uint64_t CubinSize(absl::Span<const uint8_t> data) {
  auto image = Image::Parse(data);
  return image ? image->Size() : 0;
}

bool ReadCubin(absl::Span<const uint8_t> data, std::vector<CubinKernel>& kernels) {
  auto image = Image::Parse(data);
  if (!image) return false;
  const auto& sections = image->sections();
  // Section index of a kernel's code -> the kernel.
  std::unordered_map<uint32_t, CubinKernel> found;
  uint64_t name_bytes = 0;  // of different symbols, which could share a long one
  for (const Elf64_Shdr& table : sections) {
    if (table.sh_type != SHT_SYMTAB) continue;
    if (table.sh_link >= sections.size()) return false;
    const auto symbols = image->Data(table);
    for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= symbols.size(); at += sizeof(Elf64_Sym)) {
      const auto symbol = *ReadAt<Elf64_Sym>(symbols, at);
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || (symbol.st_other & kSymbolEntry) == 0 ||
          symbol.st_shndx >= sections.size() || sections[symbol.st_shndx].sh_type != SHT_PROGBITS) {
        continue;
      }
      if (found.contains(symbol.st_shndx)) continue;
      const std::string_view name = image->String(sections[table.sh_link], symbol.st_name);
      name_bytes += name.size();
      if (name_bytes > data.size()) return false;
      CubinKernel kernel;
      kernel.name = name;
      kernel.architecture = image->architecture();
      kernel.code = image->Data(sections[symbol.st_shndx]);
      found.emplace(symbol.st_shndx, std::move(kernel));
    }
  }
  for (const Elf64_Shdr& section : sections) {
    auto it = found.find(section.sh_info);
    if (it == found.end()) continue;
    if (section.sh_type == SHT_REL || section.sh_type == SHT_RELA) {
      ReadRelocations(image->Data(section), section.sh_type == SHT_RELA, it->second);
    } else if (image->Name(section).substr(0, 9) == ".nv.info.") {
      ReadParameters(image->Data(section), it->second);
    }
  }
  for (auto& [index, kernel] : found) kernels.push_back(std::move(kernel));
  return true;
}

namespace {

// Which words of the code refer to a bank of constants, by the forms that all operations have whose
// source is one (3: the third is, 5: the second is; trap/gpu/sass/instruction.h): the offset in
// bytes, or kAnywhere if a register says it.
constexpr uint64_t kAnywhere = UINT64_MAX;
constexpr size_t kMostFunctions = 1024;  // that a kernel refers to
// Relocations and sections looked at in all: functions that lead to each other could make it many.
constexpr uint64_t kMostLooks = uint64_t{1} << 26;
template <typename Each>
void ForConstants(absl::Span<const uint8_t> code, uint64_t bank, const Each& each) {
  constexpr uint64_t kLoad = 0x182;  // LDC
  constexpr uint64_t kNoRegister = 255;
  for (uint64_t at = 0; at + 16 <= code.size(); at += 16) {
    const uint64_t low = *ReadAt<uint64_t>(code, at);
    const uint64_t form = low >> 9 & 7;
    // (Products of four warps and barriers have these forms, and no constants.)
    const bool has_none = (low & 0x1fc) == 0x1f0 || (low & 0x1ff) == 0x11d;
    if ((form != 3 && form != 5) || has_none || (low >> 54 & 31) != bank) continue;
    const bool indexed = (low & 0x1ff) == kLoad && (low >> 24 & 255) != kNoRegister;
    each(indexed ? kAnywhere : low >> 38 & 0xffff);
  }
}

bool IsText(std::string_view name) {  // as nvcc names them
  return name.substr(0, 4) == "$str" || name.substr(0, 9) == "__unnamed" ||
         name.find("__PRETTY_FUNCTION__") != std::string_view::npos ||
         name.find("__func__") != std::string_view::npos;
}

}  // namespace

bool ReadKernelData(absl::Span<const uint8_t> data, const std::string& kernel, KernelData& found) {
  const auto image = Image::Parse(data);
  if (!image) return false;
  found = {};
  const auto& sections = image->sections();
  const std::string text = ".text." + kernel;
  uint32_t code_at = 0, addresses_at = 0;
  const Elf64_Shdr* table = nullptr;
  absl::Span<const uint8_t> constants;
  for (uint32_t i = 0; i < sections.size(); ++i) {
    const std::string_view name = image->Name(sections[i]);
    if (name == text) code_at = i;
    if (name == ".nv.constant3") constants = image->Data(sections[i]);
    if (name == ".nv.constant4") addresses_at = i;
    if (sections[i].sh_type == SHT_SYMTAB && sections[i].sh_link < sections.size()) {
      table = &sections[i];
    }
  }
  if (code_at == 0 || table == nullptr) return false;
  const auto symbols = image->Data(*table);

  // The kernel's code, and that of the functions that it refers to.
  std::vector<uint32_t> codes = {code_at};
  std::vector<uint64_t> slots;  // of the bank that has addresses
  const auto consider = [&](uint64_t info) {
    const auto symbol = ReadAt<Elf64_Sym>(symbols, ELF64_R_SYM(info) * sizeof(Elf64_Sym));
    if (!symbol || symbol->st_shndx == SHN_UNDEF || symbol->st_shndx >= sections.size()) return;
    const std::string_view name = image->String(sections[table->sh_link], symbol->st_name);
    const std::string_view place = image->Name(sections[symbol->st_shndx]);
    if (place.substr(0, 6) == ".text.") {
      if (std::find(codes.begin(), codes.end(), symbol->st_shndx) == codes.end()) {
        codes.push_back(symbol->st_shndx);
      }
    } else if (place.substr(0, 10) == ".nv.global" && !IsText(name) && symbol->st_size > 1 &&
               found.variable.empty()) {
      found.variable = std::string(name);
    }
  };
  uint64_t looks = 0;
  const auto for_relocations = [&](uint32_t of, const auto& each) {
    for (const Elf64_Shdr& section : sections) {
      ++looks;
      if ((section.sh_type != SHT_REL && section.sh_type != SHT_RELA) || section.sh_info != of) {
        continue;
      }
      const auto relocations = image->Data(section);
      const uint64_t step = section.sh_type == SHT_RELA ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel);
      looks += relocations.size() / step;
      for (uint64_t entry = 0; entry + step <= relocations.size(); entry += step) {
        each(*ReadAt<Elf64_Rel>(relocations, entry));
      }
    }
  };
  // What addresses lead to may be code, which refers to more of them.
  for (size_t done = 0, known = 0; done < codes.size() || known < slots.size();) {
    if (codes.size() > kMostFunctions || looks > kMostLooks) {
      found.variable = "of more functions than are looked through";
      return true;
    }
    if (done < codes.size()) {
      const auto code = image->Data(sections[codes[done]]);
      ForConstants(code, 3, [&](uint64_t) { found.constants = constants; });
      ForConstants(code, 4, [&](uint64_t offset) { slots.push_back(offset); });
      for_relocations(codes[done++], [&](const Elf64_Rel& of) { consider(of.r_info); });
      continue;
    }
    std::sort(slots.begin(), slots.end());
    slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
    known = slots.size();
    const bool any = !slots.empty() && slots.back() == kAnywhere;
    if (addresses_at == 0) continue;
    for_relocations(addresses_at, [&](const Elf64_Rel& of) {
      if (any || std::binary_search(slots.begin(), slots.end(), of.r_offset)) consider(of.r_info);
    });
  }
  return true;
}

std::vector<std::string> ReadPointerTable(absl::Span<const uint8_t> data,
                                          const std::string& variable) {
  const auto image = Image::Parse(data);
  if (!image) return {};
  const auto& sections = image->sections();
  for (const Elf64_Shdr& header : sections) {
    if (header.sh_type != SHT_SYMTAB || header.sh_link >= sections.size()) continue;
    const auto symbols = image->Data(header);
    const auto name_of = [&](const Elf64_Sym& symbol) {
      return image->String(sections[header.sh_link], symbol.st_name);
    };
    for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= symbols.size(); at += sizeof(Elf64_Sym)) {
      const auto symbol = *ReadAt<Elf64_Sym>(symbols, at);
      if ((ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT &&
           ELF64_ST_TYPE(symbol.st_info) != kCudaObject) ||
          symbol.st_shndx == SHN_UNDEF || symbol.st_shndx >= sections.size() ||
          name_of(symbol) != variable ||
          symbol.st_size > image->Data(sections[symbol.st_shndx]).size()) {
        continue;
      }
      std::vector<std::string> names(symbol.st_size / sizeof(uint64_t));
      bool any = false;
      uint64_t name_bytes = 0;  // of symbols that could share a long name
      // Their sh_link is not always that of the symbol table.
      for (const Elf64_Shdr& section : sections) {
        if ((section.sh_type != SHT_REL && section.sh_type != SHT_RELA) ||
            section.sh_info != symbol.st_shndx) {
          continue;
        }
        const auto relocations = image->Data(section);
        const uint64_t step = section.sh_type == SHT_RELA ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel);
        for (uint64_t entry = 0; entry + step <= relocations.size(); entry += step) {
          const auto relocation = *ReadAt<Elf64_Rel>(relocations, entry);
          const uint64_t slot = (relocation.r_offset - symbol.st_value) / sizeof(uint64_t);
          const auto target =
              ReadAt<Elf64_Sym>(symbols, ELF64_R_SYM(relocation.r_info) * sizeof(Elf64_Sym));
          if (relocation.r_offset < symbol.st_value || slot >= names.size() || !target) continue;
          names[slot] = name_of(*target);
          name_bytes += names[slot].size();
          if (name_bytes > data.size()) return {};
          any = true;
        }
      }
      if (any) return names;
    }
  }
  return {};
}

std::vector<uint64_t> FindCubins(absl::Span<const uint8_t> file) {
  std::vector<uint64_t> found;
  for (uint64_t at = 8; at + sizeof(Elf64_Ehdr) <= file.size(); at += 8) {
    if (std::memcmp(file.data() + at, ELFMAG, SELFMAG) != 0) continue;
    if (CubinSize(file.subspan(at)) > 0) found.push_back(at);
  }
  return found;
}

}  // namespace phantora
