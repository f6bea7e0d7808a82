#include "profiles/kernels/kernel_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "profiles/kernels/code_fingerprint.h"
#include "profiles/kernels/cubin_for_test.h"
#include "profiles/kernels/fat_binary.h"

namespace phantora {
namespace {

constexpr int kArchitecture = 90;

// Kernels a to e in every way in which a library may hold them.
const Bytes& CodeOf(char kernel) {
  static const std::vector<Bytes> codes = {CodeForTest(1, 128), CodeForTest(2, 1040),
                                           CodeForTest(3, 16384), CodeForTest(4, 256),
                                           CodeForTest(5, 512)};
  return codes[static_cast<size_t>(kernel - 'a')];
}

Bytes Library() {
  Bytes entries;
  PutEntry(entries, kArchitecture, CubinForTest(kArchitecture, "a", CodeOf('a')), 0);
  PutEntry(entries, kArchitecture, CubinForTest(kArchitecture, "b", CodeOf('b')), 0x2000);
  PutEntry(entries, 80, CubinForTest(80, "another_architecture", CodeForTest(9, 128)), 0);
  PutEntry(entries, kArchitecture, CubinForTest(kArchitecture, "c", CodeOf('c'), ET_REL), 0x8000);
  // Two in one frame among other data.
  Bytes two = CubinForTest(kArchitecture, "d", CodeOf('d'));
  two.resize((two.size() + 7) & ~size_t{7});
  const Bytes second = CubinForTest(kArchitecture, "e", CodeOf('e'));
  two.insert(two.end(), second.begin(), second.end());
  Bytes frame(ZSTD_compressBound(two.size()));
  frame.resize(ZSTD_compress(frame.data(), frame.size(), two.data(), two.size(), 1));
  Bytes data(100, 0x28);
  data.insert(data.end(), frame.begin(), frame.end());
  data.resize(data.size() + 100);
  return ElfForTest(
      EM_X86_64, ET_DYN, 0,
      {{".nv_fatbin", SHT_PROGBITS, ContainerForTest(entries)}, {".data", SHT_PROGBITS, data}});
}

KernelIndex IndexOf(const Bytes& library) {
  auto bytes = std::make_shared<Bytes>(KernelIndex::Build(library, kArchitecture, 2, nullptr));
  auto index = KernelIndex::Open(*bytes, bytes);
  EXPECT_TRUE(index.has_value());
  return *std::move(index);
}

std::string NameOf(const KernelIndex& index, const Bytes& code) {
  const auto found = index.Find(PrefixFingerprint(code), [&code](uint8_t* to, uint64_t bytes) {
    if (bytes > code.size()) return false;
    std::memcpy(to, code.data(), bytes);
    return true;
  });
  return found ? std::string(found->name) : "";
}

// CUDA 13 writes version 8 of the format.
TEST(CubinTest, TheArchitectureIsInTheSecondByteSinceCuda13) {
  auto cubin = CubinForTest(0x6005a04, "kernel", CodeForTest(1, 128));
  std::vector<CubinKernel> kernels;
  ASSERT_TRUE(ReadCubin(cubin, kernels));
  EXPECT_EQ(kernels.at(0).architecture, 4);
  cubin[EI_ABIVERSION] = 8;
  kernels.clear();
  ASSERT_TRUE(ReadCubin(cubin, kernels));
  EXPECT_EQ(kernels.at(0).architecture, 90);
}

TEST(KernelIndexTest, FindsCodeHoweverItIsPacked) {
  const KernelIndex index = IndexOf(Library());
  EXPECT_EQ(index.size(), 5);
  for (char kernel = 'a'; kernel <= 'e'; ++kernel) {
    EXPECT_EQ(NameOf(index, CodeOf(kernel)), std::string(1, kernel));
  }
  EXPECT_EQ(NameOf(index, CodeForTest(9, 128)), "");
}

TEST(KernelIndexTest, KnowsItAgainAfterTheLoader) {
  const KernelIndex index = IndexOf(Library());
  Bytes code = CodeOf('b');
  for (size_t byte = 20; byte < 28; ++byte) code[byte] ^= 0xff;  // an address, relocated
  code[16 + 15] ^= 0x80;                                         // scheduling bits
  EXPECT_EQ(NameOf(index, code), "b");
  code[1030] ^= 1;  // behind the window
  EXPECT_EQ(NameOf(index, code), "");
}

TEST(KernelIndexTest, KeepsTheParameters) {
  const KernelIndex index = IndexOf(Library());
  const Bytes& code = CodeOf('c');
  const auto found = index.Find(PrefixFingerprint(code), [&code](uint8_t* to, uint64_t bytes) {
    std::memcpy(to, code.data(), bytes);
    return true;
  });
  ASSERT_TRUE(found);
  ASSERT_EQ(found->parameters.size(), 3);
  EXPECT_EQ(found->parameters[1].offset, 8);
  EXPECT_EQ(found->parameters[1].size, 4);
  EXPECT_EQ(found->parameters[2].offset, 16);
  EXPECT_EQ(found->parameters[2].size, 24000);
}

// Also of two that lie in one compressed block.
TEST(KernelIndexTest, KnowsWhereTheCubinIs) {
  const Bytes library = Library();
  const KernelIndex index = IndexOf(library);
  for (char kernel = 'a'; kernel <= 'e'; ++kernel) {
    const Bytes& code = CodeOf(kernel);
    const auto found = index.Find(PrefixFingerprint(code), [&code](uint8_t* to, uint64_t bytes) {
      std::memcpy(to, code.data(), std::min<uint64_t>(bytes, code.size()));
      return bytes <= code.size();
    });
    ASSERT_TRUE(found && found->place) << kernel;
    const auto bytes =
        absl::MakeConstSpan(library).subspan(found->place->offset, found->place->bytes);
    const auto cubin = CubinAt(*found->place, bytes, found->name);
    ASSERT_TRUE(cubin) << kernel;
    std::vector<CubinKernel> kernels;
    ASSERT_TRUE(ReadCubin(*cubin, kernels));
    ASSERT_EQ(kernels.size(), 1);
    EXPECT_EQ(Bytes(kernels[0].code.begin(), kernels[0].code.end()), code);
    EXPECT_FALSE(CubinAt(*found->place, bytes, "another"));
    EXPECT_FALSE(CubinAt(*found->place, bytes.subspan(1), found->name));
  }
}

TEST(KernelIndexTest, DoesNotDependOnThreads) {
  const Bytes library = Library();
  EXPECT_EQ(KernelIndex::Build(library, kArchitecture, 1, nullptr),
            KernelIndex::Build(library, kArchitecture, 4, nullptr));
}

// Run it under asan to see more than crashes.
TEST(KernelIndexTest, SurvivesDamagedLibraries) {
  const Bytes whole = Library();
  std::mt19937 random(7);
  for (int i = 0; i < 5000; ++i) {
    Bytes library = whole;
    for (int damages = 1 + static_cast<int>(random() % 8); damages > 0; --damages) {
      // Mostly numbers in headers, which are few.
      const size_t at = random() % 2 == 0 ? random() % library.size() : random() % 0x400;
      const uint8_t values[] = {0, 0xff, 0x7f, static_cast<uint8_t>(random())};
      library[at] = values[random() % 4];
    }
    if (random() % 8 == 0) library.resize(random() % library.size());
    KernelIndex::Build(library, kArchitecture, 1, nullptr);
  }
}

TEST(KernelIndexTest, SurvivesDamagedIndices) {
  const Bytes whole = KernelIndex::Build(Library(), kArchitecture, 1, nullptr);
  std::mt19937 random(8);
  for (int i = 0; i < 20000; ++i) {
    Bytes bytes = whole;
    for (int damages = 1 + static_cast<int>(random() % 4); damages > 0; --damages) {
      bytes[random() % bytes.size()] = random() % 2 == 0 ? 0xff : static_cast<uint8_t>(random());
    }
    if (const auto index = KernelIndex::Open(bytes, nullptr)) {
      for (char kernel = 'a'; kernel <= 'e'; ++kernel) NameOf(*index, CodeOf(kernel));
    }
  }
}

}  // namespace
}  // namespace phantora
