// Runs a fuzz target without libFuzzer: on the inputs in a folder, and on so many that are made
// from them by chance.
//
// usage: TARGET [--runs N] [--seed N] [FOLDER OR FILE]...
//
// It does not know what an input reaches; tools/fuzz.sh does. Here it is seen that what has been
// found stays mended, in any build.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Input = std::vector<uint8_t>;
constexpr size_t kLargest = 1 << 16;

class Maker {
 public:
  Maker(uint64_t seed, const std::vector<Input>& known) : random_(seed), known_(known) {}

  Input Make() {
    Input input;
    if (!known_.empty() && Below(4) != 0) input = known_[Below(known_.size())];
    if (input.size() > kLargest) input.resize(kLargest);
    if (input.empty()) {
      input.resize(1 + Below(Below(8) == 0 ? 4096 : 256));
      for (uint8_t& byte : input) byte = static_cast<uint8_t>(random_());
    }
    for (uint64_t left = Below(8); left > 0 && !input.empty(); --left) Change(input);
    return input;
  }

 private:
  uint64_t Below(uint64_t end) { return random_() % end; }

  void Change(Input& input) {
    const size_t at = Below(input.size());
    static constexpr uint64_t kEdges[] = {0,      1,      0x7f,       0xff,
                                          0x7fff, 0xffff, 0x7fffffff, ~uint64_t{0}};
    switch (Below(7)) {
      case 0:
        input[at] = static_cast<uint8_t>(random_());
        break;
      case 1:
        input[at] ^= static_cast<uint8_t>(1U << Below(8));
        break;
      case 2:
        input.erase(input.begin() + static_cast<std::ptrdiff_t>(at),
                    input.begin() +
                        static_cast<std::ptrdiff_t>(std::min(input.size(), at + 1 + Below(16))));
        break;
      case 3: {
        Input part(input.begin() + static_cast<std::ptrdiff_t>(at),
                   input.begin() +
                       static_cast<std::ptrdiff_t>(std::min(input.size(), at + 1 + Below(64))));
        input.insert(input.begin() + static_cast<std::ptrdiff_t>(Below(input.size())), part.begin(),
                     part.end());
        break;
      }
      case 4: {
        const uint64_t edge = kEdges[Below(std::size(kEdges))];
        std::memcpy(&input[at], &edge, std::min<size_t>(input.size() - at, size_t{1} << Below(4)));
        break;
      }
      case 5:
        if (!known_.empty()) {
          const Input& other = known_[Below(known_.size())];
          const size_t from = other.empty() ? 0 : Below(other.size());
          input.resize(at);
          input.insert(input.end(), other.begin() + static_cast<std::ptrdiff_t>(from), other.end());
        }
        break;
      default:
        input.resize(at);
    }
    if (input.size() > kLargest) input.resize(kLargest);
  }

  std::mt19937_64 random_;
  const std::vector<Input>& known_;
};

// The input that is run, in a file that is mapped: what is there after a crash is what did it.
class LastInput {
 public:
  LastInput() {
    const char* const folder = std::getenv("TEST_UNDECLARED_OUTPUTS_DIR");
    if (folder == nullptr) return;
    const int file =
        open((std::string(folder) + "/last_input").c_str(), O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (file < 0 || ftruncate(file, kBytes) != 0) return;
    void* const bytes = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (bytes != MAP_FAILED) bytes_ = static_cast<uint8_t*>(bytes);
    close(file);
  }
  // Its size in the first eight bytes, then itself.
  void Keep(const Input& input) const {
    if (bytes_ == nullptr) return;
    const uint64_t size = input.size();
    std::memcpy(bytes_, &size, sizeof size);
    if (size > 0) std::memcpy(bytes_ + sizeof size, input.data(), size);
  }

 private:
  static constexpr size_t kBytes = kLargest + 8;
  uint8_t* bytes_ = nullptr;
};

void Add(const std::filesystem::path& path, std::vector<Input>* inputs) {
  if (std::filesystem::is_directory(path)) {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(path))
      files.push_back(entry.path());
    std::ranges::sort(files);
    for (const auto& file : files) Add(file, inputs);
    return;
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "cannot read %s\n", path.c_str());
    std::exit(2);
  }
  inputs->emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t runs = 0, seed = 1;
  std::vector<Input> known;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (i + 1 < argc && (word == "--runs" || word == "--seed")) {
      (word == "--runs" ? runs : seed) = std::strtoull(argv[++i], nullptr, 10);
    } else {
      Add(word, &known);
    }
  }
  for (const Input& input : known) LLVMFuzzerTestOneInput(input.data(), input.size());
  Maker maker(seed, known);
  const LastInput last;
  for (uint64_t i = 0; i < runs; ++i) {
    const Input input = maker.Make();
    last.Keep(input);
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  std::printf("%zu inputs of files, %" PRIu64 " made from them\n", known.size(), runs);
  return 0;
}
