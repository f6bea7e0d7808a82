#include <gtest/gtest.h>

#include "profiles/kernels/cubin.h"
#include "profiles/kernels/cubin_for_test.h"

namespace phantora {
namespace {

// A word whose second source is in a bank of constants (LDC if `load`, which a register may index).
void PutWord(Bytes& code, uint64_t bank, uint64_t offset, bool load = false, uint64_t index = 255) {
  Put(code, uint64_t{load ? 0x182u : 0x010u} | uint64_t{5} << 9 | index << 24 | offset << 38 |
                bank << 54);
  Put(code, uint64_t{0});
}

// An image with the kernel "k", the function "f", variables, and a bank of addresses of all of
// them.
class Image {
 public:
  // The sections' numbers, from 1 on.
  enum Section : uint16_t {
    kStrings = 1,
    kSymbols,
    kKernel,
    kFunction,
    kGlobal,
    kInitial,
    kAddresses
  };
  enum Symbol : uint32_t { kNone, kKernelSymbol, kFunctionSymbol, kVariable, kTag, kText, kTable };

  Image() {
    Add("k", kKernel, STT_FUNC, 0);
    Add("f", kFunction, STT_FUNC, 0);
    Add("counter", kGlobal, STT_OBJECT, 4);
    Add("_ZN6thrust3seqE", kGlobal, STT_OBJECT, 1);
    Add("$str$3", kInitial, STT_OBJECT, 40);
    Add("table", kInitial, STT_OBJECT, 400);
  }
  void Relocate(Bytes& of, uint64_t at, Symbol symbol) {
    Put(of, Elf64_Rel{.r_offset = at, .r_info = ELF64_R_INFO(uint64_t{symbol}, 2)});
  }
  KernelData Read() {
    if (code.empty()) PutWord(code, 0, 0x210);
    if (function.empty()) PutWord(function, 0, 0x210);
    const Bytes cubin = ElfForTest(190, ET_EXEC, 90,
                                   {{".strtab", SHT_STRTAB, strings_},
                                    {".symtab", SHT_SYMTAB, symbols_, 1},
                                    {".text.k", SHT_PROGBITS, code},
                                    {".text.f", SHT_PROGBITS, function},
                                    {".nv.global", SHT_NOBITS, {}},
                                    {".nv.global.init", SHT_PROGBITS, Bytes(440)},
                                    {".nv.constant4", SHT_PROGBITS, Bytes(64)},
                                    {".nv.constant3", SHT_PROGBITS, Bytes(12, 7)},
                                    {".rel.text.k", SHT_REL, of_code, 2, kKernel},
                                    {".rel.text.f", SHT_REL, of_function, 2, kFunction},
                                    {".rel.nv.constant4", SHT_REL, of_addresses, 2, kAddresses}});
    KernelData data;
    EXPECT_TRUE(ReadKernelData(cubin, "k", data));
    EXPECT_FALSE(ReadKernelData(cubin, "another", data));
    EXPECT_TRUE(ReadKernelData(cubin, "k", data));
    constants = data.constants.size();
    return data;
  }
  std::string Variable() { return Read().variable; }

  Bytes code, function, of_code, of_function, of_addresses;
  size_t constants = 0;

 private:
  void Add(const std::string& name, uint16_t section, unsigned char type, uint64_t size) {
    Elf64_Sym symbol{};
    symbol.st_name = static_cast<uint32_t>(strings_.size());
    symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, type);
    symbol.st_other = section == kKernel ? 0x10 : 0;
    symbol.st_shndx = section;
    symbol.st_size = size;
    Put(symbols_, symbol);
    strings_.insert(strings_.end(), name.begin(), name.end());
    strings_.push_back(0);
  }
  Bytes strings_ = Bytes(1), symbols_ = Bytes(sizeof(Elf64_Sym));
};

TEST(KernelDataTest, WhatTheModuleHasAndTheKernelDoesNotUseDoesNotCount) {
  Image image;
  image.Relocate(image.of_addresses, 8, Image::kVariable);
  EXPECT_EQ(image.Variable(), "");
  EXPECT_EQ(image.constants, 0);
}

TEST(KernelDataTest, VariablesThatItsCodeNames) {
  Image image;
  image.Relocate(image.of_code, 16, Image::kVariable);
  EXPECT_EQ(image.Variable(), "counter");
}

TEST(KernelDataTest, VariablesWhoseAddressesItLoads) {
  Image image;
  PutWord(image.code, 4, 8);
  image.Relocate(image.of_addresses, 0, Image::kVariable);
  image.Relocate(image.of_addresses, 8, Image::kTable);
  EXPECT_EQ(image.Variable(), "table");
}

TEST(KernelDataTest, AnIndexMayLeadToAnyOfThem) {
  Image image;
  PutWord(image.code, 4, 8, true, 3);
  image.Relocate(image.of_addresses, 0, Image::kVariable);
  EXPECT_EQ(image.Variable(), "counter");
}

TEST(KernelDataTest, TextsAndEmptyObjectsAreNoVariables) {
  Image image;
  PutWord(image.code, 4, 0, true);
  PutWord(image.code, 4, 8);
  image.Relocate(image.of_addresses, 0, Image::kText);
  image.Relocate(image.of_addresses, 8, Image::kTag);
  EXPECT_EQ(image.Variable(), "");
}

TEST(KernelDataTest, FunctionsAreLookedThrough) {
  Image image;
  image.Relocate(image.of_code, 16, Image::kFunctionSymbol);
  EXPECT_EQ(image.Variable(), "");
  PutWord(image.function, 3, 4);
  EXPECT_EQ(image.Read().constants.size(), 12);
  image.Relocate(image.of_function, 0, Image::kTable);
  EXPECT_EQ(image.Variable(), "table");
}

TEST(KernelDataTest, AddressesOfFunctionsLeadToWhatThoseUse) {
  Image image;
  PutWord(image.code, 4, 16);
  PutWord(image.function, 4, 24);
  image.Relocate(image.of_addresses, 16, Image::kFunctionSymbol);
  image.Relocate(image.of_addresses, 24, Image::kVariable);
  EXPECT_EQ(image.Variable(), "counter");
}

// As in cuDNN's attention, whose modules have hundreds of constants as variables.
TEST(KernelDataTest, BarriersAndProductsOfFourWarpsHaveNoConstants) {
  Image image;
  Put(image.code, uint64_t{0x104000000007b1d});  // BAR.SYNC
  Put(image.code, uint64_t{0xfe20000010000});
  Put(image.code, uint64_t{0x7f0} | uint64_t{4} << 54);  // HGMMA
  Put(image.code, uint64_t{0});
  image.Relocate(image.of_addresses, 0, Image::kVariable);
  image.Relocate(image.of_addresses, 0x1000, Image::kVariable);
  EXPECT_EQ(image.Variable(), "");
}

TEST(KernelDataTest, ConstantsThatItUses) {
  Image image;
  PutWord(image.code, 3, 4);
  EXPECT_EQ(image.Read().variable, "");
  EXPECT_EQ(image.constants, 12);
}

}  // namespace
}  // namespace phantora
