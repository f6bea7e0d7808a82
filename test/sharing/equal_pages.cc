// A rank whose memory is the same as the others', but for a page now and then, and which looks
// whether it still is what it wrote: what page sharing takes away and gives back.
//   equal_pages MIB ROUNDS
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

constexpr size_t kWordsInPage = 4096 / sizeof(uint64_t);

uint64_t WordOf(size_t page, uint64_t version) {
  return (page + 1) * 0x9e3779b97f4a7c15 ^ version << 32;
}

void Fill(uint64_t* page, uint64_t word) {
  for (size_t i = 0; i < kWordsInPage; ++i) page[i] = word;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const size_t pages = strtoull(argv[1], nullptr, 0) << 8;
  const uint64_t rounds = strtoull(argv[2], nullptr, 0);
  std::vector<uint64_t> memory(pages * kWordsInPage), versions(pages);
  for (size_t page = 0; page < pages; ++page) {
    Fill(&memory[page * kWordsInPage], WordOf(page, 0));
  }
  // Sharing takes a thread whose call nobody holds; libcuda has some.
  std::thread([] { pause(); }).detach();
  const char* name = getenv("RANK");
  uint64_t random = name == nullptr ? 1 : strtoull(name, nullptr, 0) + 1;
  for (uint64_t round = 1; round <= rounds; ++round) {
    const timespec pause{0, 1000000};
    nanosleep(&pause, nullptr);
    random = random * 6364136223846793005 + 1442695040888963407;
    const size_t written = (random >> 33) % pages;
    versions[written] = round;
    Fill(&memory[written * kWordsInPage], WordOf(written, round));
    for (size_t page = 0; page < pages; ++page) {
      for (size_t i = 0; i < kWordsInPage; ++i) {
        if (memory[page * kWordsInPage + i] == WordOf(page, versions[page])) continue;
        std::fprintf(stderr, "equal_pages: page %zu is not what was written in round %llu\n", page,
                     static_cast<unsigned long long>(versions[page]));
        return 1;
      }
    }
  }
  return 0;
}
