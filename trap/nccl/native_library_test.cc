#include "trap/nccl/native_library.h"

#include <gtest/gtest.h>

#include <random>

#include "profiles/kernels/cubin.h"
#include "profiles/kernels/cubin_for_test.h"

namespace phantora {
namespace {

TEST(ParseNcclFunction, NamesOfFunctionsAndKernels) {
  const auto tree =
      ParseNcclFunction("_Z54ncclDevFunc_AllReduce_MinMax_bf16_COLLNET_CHAIN_SIMPLEv");
  ASSERT_TRUE(tree);
  EXPECT_FALSE(tree->message);
  EXPECT_EQ(tree->operation, nccl::Operation::kAllReduce);
  EXPECT_EQ(tree->reduction, NcclFunction::Reduction::kMinMax);
  EXPECT_EQ(tree->type, 9);
  EXPECT_EQ(tree->algorithm, NcclAlgorithm::kCollNetChain);
  EXPECT_EQ(tree->protocol, NcclProtocol::kSimple);

  const auto gather = ParseNcclFunction("_Z32ncclDevFunc_AllGather_RING_LL128v");
  ASSERT_TRUE(gather);
  EXPECT_EQ(gather->operation, nccl::Operation::kAllGather);
  EXPECT_EQ(gather->reduction, NcclFunction::Reduction::kNone);
  EXPECT_EQ(gather->algorithm, NcclAlgorithm::kRing);
  EXPECT_EQ(gather->protocol, NcclProtocol::kLl128);

  EXPECT_TRUE(ParseNcclFunction("_Z20ncclDevFunc_SendRecvv")->message);
  // Before and since 2.22.
  for (const char* symbol :
       {"_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LLP11ncclDevCommmP8ncclWork",
        "_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE"}) {
    const auto kernel = ParseNcclFunction(symbol);
    ASSERT_TRUE(kernel) << symbol;
    EXPECT_EQ(kernel->operation, nccl::Operation::kAllReduce);
    EXPECT_EQ(kernel->type, 7);
    EXPECT_EQ(kernel->protocol, NcclProtocol::kLl);
  }
}

TEST(ParseNcclFunction, RefusesOthers) {
  for (const char* symbol :
       {"", "_Z15ncclDevFunc_Nopv", "_Z21ncclDevKernel_GenericP11ncclDevCommmP8ncclWork",
        "ncclDevFunc_", "ncclDevFunc_AllReduce", "ncclDevFunc_AllReduce_Sum_f32",
        "ncclDevFunc_AllReduce_Sum_f33_RING_LL", "ncclDevFunc_AllReduce_Sum_f32_RING_LL7",
        "ncclDevFunc_AllReduce_Sum_f32_KING_LL", "ncclDevFunc_Broadcast_LL",
        "_Z9ncclDevFunc_Broadcast_RING_LLv", "_Z99999999999ncclDevFunc_Broadcast_RING_LLv",
        "_Z900ncclDevFunc_Broadcast_RING_LLv", "gemm"}) {
    EXPECT_FALSE(ParseNcclFunction(symbol)) << symbol;
  }
}

// A cubin with a table of three functions, of which the second is null. nvlink's output has another
// type of symbol than its input, and sometimes a sh_link that means nothing.
Bytes CubinWithTable(unsigned char type = 13, uint32_t link = 2) {
  Bytes strings(1);
  const auto name = [&strings](const std::string& text) {
    const auto at = static_cast<uint32_t>(strings.size());
    strings.insert(strings.end(), text.begin(), text.end());
    strings.push_back(0);
    return at;
  };
  const auto symbol = [](uint32_t at, unsigned char kind, uint16_t section, uint64_t value,
                         uint64_t size) {
    return Elf64_Sym{.st_name = at,
                     .st_info = static_cast<unsigned char>(ELF64_ST_INFO(STB_GLOBAL, kind)),
                     .st_other = 0,
                     .st_shndx = section,
                     .st_value = value,
                     .st_size = size};
  };
  Bytes symbols(sizeof(Elf64_Sym));
  Put(symbols, symbol(name("ncclDevFuncTable"), type, 3, 16, 24));
  Put(symbols, symbol(name("_Z33ncclDevFunc_AllGather_RING_SIMPLEv"), STT_FUNC, 0, 0, 0));
  Put(symbols, symbol(name("_Z20ncclDevFunc_SendRecvv"), STT_FUNC, 0, 0, 0));
  Bytes relocations;
  Put(relocations, Elf64_Rela{.r_offset = 16, .r_info = ELF64_R_INFO(2, 2), .r_addend = 0});
  Put(relocations, Elf64_Rela{.r_offset = 32, .r_info = ELF64_R_INFO(3, 2), .r_addend = 0});
  // Of something else in the section, and of a symbol that is not there.
  Put(relocations, Elf64_Rela{.r_offset = 0, .r_info = ELF64_R_INFO(2, 2), .r_addend = 0});
  Put(relocations, Elf64_Rela{.r_offset = 24, .r_info = ELF64_R_INFO(77, 2), .r_addend = 0});
  return ElfForTest(190, ET_REL, 90,
                    {{".strtab", SHT_STRTAB, strings},
                     {".symtab", SHT_SYMTAB, symbols, 1},
                     {".nv.global.init", SHT_PROGBITS, Bytes(40)},
                     {".rela.nv.global.init", SHT_RELA, relocations, link, 3}});
}

Bytes Library() {
  Bytes entries;
  PutEntry(entries, 90, CubinForTest(90, "kernel", CodeForTest(1, 256)), 0);
  PutEntry(entries, 90, CubinWithTable(), 0x2000);
  Bytes text;
  for (const char* part : {"NCCL version ", "NCCL version 2.21.5+cuda12.4"}) {
    text.insert(text.end(), part, part + std::strlen(part) + 1);
  }
  return ElfForTest(
      62, ET_DYN, 0,
      {{".rodata", SHT_PROGBITS, text}, {".nv_fatbin", SHT_PROGBITS, ContainerForTest(entries)}});
}

TEST(ReadNativeNccl, FunctionsByNumber) {
  EXPECT_EQ(ReadPointerTable(CubinWithTable(), "ncclDevFuncTable"),
            (std::vector<std::string>{"_Z33ncclDevFunc_AllGather_RING_SIMPLEv", "",
                                      "_Z20ncclDevFunc_SendRecvv"}));
  EXPECT_EQ(ReadPointerTable(CubinWithTable(STT_OBJECT, 4), "ncclDevFuncTable").size(), 3u);
  EXPECT_TRUE(ReadPointerTable(CubinWithTable(STT_FUNC), "ncclDevFuncTable").empty());
  EXPECT_TRUE(ReadPointerTable(CubinWithTable(), "other").empty());
  const auto library = ReadNativeNccl(Library(), 90);
  ASSERT_TRUE(library);
  EXPECT_EQ(library->version, 22105);
  ASSERT_EQ(library->functions.size(), 3u);
  EXPECT_EQ(library->functions[0]->operation, nccl::Operation::kAllGather);
  EXPECT_FALSE(library->functions[1]);
  EXPECT_TRUE(library->functions[2]->message);
  EXPECT_FALSE(ReadNativeNccl(Library(), 80)) << "code for another GPU";
}

TEST(ReadNativeNccl, SurvivesDamage) {
  const Bytes whole = CubinWithTable();
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    Bytes damaged = whole;
    for (int i = 0; i < 4; ++i) {
      damaged[random() % damaged.size()] = static_cast<uint8_t>(random());
    }
    if (round % 3 == 0) damaged.resize(random() % damaged.size());
    EXPECT_LE(ReadPointerTable(damaged, "ncclDevFuncTable").size(), whole.size());
  }
}

}  // namespace
}  // namespace phantora
