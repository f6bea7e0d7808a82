#include "trap/linux/shared_word.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#include "trap/linux/fake_proc.h"

namespace phantora {
namespace {

TEST(SharedWordTest, IsTheFileAndTheOffsetInIt) {
  FakeProc files;
  files.SetText(10, "maps",
                "7f0000000000-7f0000001000 rw-p 00000000 00:00 0\n"
                "7f0000001000-7f0000003000 rw-s 00005000 00:01 77 /dev/zero (deleted)\n");
  files.SetText(11, "maps",
                "7e0000000000-7e0000002000 rw-s 00006000 00:01 77 /dev/zero (deleted)\n");
  const auto word = SharedWord::Of(10, 0x7f0000002008, files);
  ASSERT_TRUE(word.has_value());
  EXPECT_EQ(word->file, "00:01 77");
  EXPECT_EQ(word->offset, 0x6008u);
  EXPECT_EQ(word, SharedWord::Of(11, 0x7e0000000008, files));
  EXPECT_NE(word, SharedWord::Of(11, 0x7e000000000c, files));
  EXPECT_EQ(SharedWord::Of(10, 0x7f0000000008, files), std::nullopt) << "private";
  EXPECT_EQ(SharedWord::Of(10, 0x7f0000003000, files), std::nullopt) << "nothing";
  EXPECT_EQ(SharedWord::Of(12, 0x7f0000002008, files), std::nullopt) << "no such process";
}

TEST(SharedWordTest, OfMemoryThatIsMappedTwice) {
  const int file = memfd_create("words", MFD_CLOEXEC);
  const auto size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  ASSERT_EQ(ftruncate(file, static_cast<off_t>(size)), 0);
  const auto map = [&](int flags) {
    return reinterpret_cast<uint64_t>(mmap(nullptr, size, PROT_READ | PROT_WRITE, flags, file, 0));
  };
  const uint64_t one = map(MAP_SHARED), two = map(MAP_SHARED), own = map(MAP_PRIVATE);
  const auto word = [](uint64_t address) {
    return SharedWord::Of(getpid(), address, Proc::Host());
  };
  ASSERT_TRUE(word(one + 16).has_value());
  EXPECT_EQ(word(one + 16), word(two + 16));
  EXPECT_NE(word(one + 16), word(two + 20));
  EXPECT_EQ(word(own + 16), std::nullopt);
  for (const uint64_t address : {one, two, own}) munmap(reinterpret_cast<void*>(address), size);
  close(file);
}

}  // namespace
}  // namespace phantora
