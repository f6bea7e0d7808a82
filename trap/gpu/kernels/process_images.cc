#include "trap/gpu/kernels/process_images.h"

#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "trap/linux/remote_memory.h"
#include "trap/linux/unique_fd.h"

namespace phantora {
namespace {

constexpr uint16_t kMachineCuda = 190;
constexpr uint64_t kChunk = uint64_t{1} << 20, kLargestImage = uint64_t{256} << 20;
constexpr uint64_t kMostMemory = uint64_t{8} << 30;
constexpr std::chrono::seconds kLongestSearch(10);

struct Mapping {
  uint64_t begin = 0, end = 0, inode = 0;
  char permissions[5] = {};
  std::string name;
};

std::vector<Mapping> Mappings(pid_t process) {
  std::vector<Mapping> mappings;
  FILE* file = fopen(absl::StrCat("/proc/", process, "/maps").c_str(), "re");
  if (file == nullptr) return mappings;
  char line[4400];
  while (fgets(line, sizeof line, file) != nullptr) {
    Mapping mapping;
    int name = 0;
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*x %*x:%*x %" SCNu64 " %n", &mapping.begin,
               &mapping.end, mapping.permissions, &mapping.inode, &name) < 4) {
      continue;
    }
    line[strcspn(line, "\n")] = '\0';
    if (name > 0) mapping.name = line + name;
    mappings.push_back(std::move(mapping));
  }
  fclose(file);
  return mappings;
}

// The image at `address`, empty if there is none.
std::vector<uint8_t> ReadImage(const RemoteMemory& memory, uint64_t address, uint64_t limit) {
  const auto header = memory.ReadObject<Elf64_Ehdr>(RemoteAddress{address});
  if (!header || header->e_machine != kMachineCuda || header->e_shoff > kLargestImage) return {};
  // The section table comes after the sections, the program headers may come last.
  const uint64_t tables = uint64_t{header->e_shnum} * sizeof(Elf64_Shdr) +
                          uint64_t{header->e_phnum} * sizeof(Elf64_Phdr);
  const uint64_t bytes = std::min(limit, header->e_shoff + tables);
  std::vector<uint8_t> image(bytes);
  if (!memory.Read(RemoteAddress{address}, image.data(), bytes)) return {};
  return image;
}

}  // namespace

std::vector<std::string> MappedLibraries(pid_t process) {
  std::set<std::string> names;
  for (const Mapping& mapping : Mappings(process)) {
    if (mapping.permissions[2] == 'x' && mapping.inode != 0 && !mapping.name.empty() &&
        mapping.name[0] == '/') {
      names.insert(mapping.name);
    }
  }
  std::vector<std::string> paths;
  for (const std::string& name : names) {
    paths.push_back(absl::StrCat("/proc/", process, "/root", name));
  }
  return paths;
}

namespace {

// One search through a process's memory.
class Search {
 public:
  Search(pid_t process, const ProcessImages::Found& found)
      : memory_(process),
        pagemap_(open(absl::StrCat("/proc/", process, "/pagemap").c_str(), O_RDONLY | O_CLOEXEC)),
        found_(found),
        chunk_(kChunk) {}

  // A part of a mapping, which may end beyond it, as may an image that begins in the part.
  struct Part {
    uint64_t begin, end, mapping_end;
  };

  // Whether to go on: not if it has been found, or takes too long.
  bool Through(const Part& part) {
    const uint64_t end = part.end;
    for (uint64_t at = part.begin; at < end;) {
      if (IsOver()) return false;
      const uint64_t bytes = std::min(kChunk, end - at);
      uint64_t next = at + bytes;
      if (IsTouched(at, bytes) && memory_.Read(RemoteAddress{at}, chunk_.data(), bytes)) {
        searched_ += bytes;
        for (uint64_t offset = 0; offset + 8 <= bytes; offset += 8) {
          if (memcmp(chunk_.data() + offset, ELFMAG, SELFMAG) != 0) continue;
          if (IsOver()) return false;  // memory full of headers means much to read
          const auto image = ReadImage(memory_, at + offset, part.mapping_end - at - offset);
          std::vector<CubinKernel> kernels;
          if (image.empty() || !ReadCubin(image, kernels)) continue;
          last_image_ = at + offset;
          if (!kernels.empty() && found_(std::move(kernels), image)) return false;
          next = std::max(next, (at + offset + image.size()) & ~uint64_t{7});
          // Beyond the chunk if the image is.
          offset += (image.size() & ~uint64_t{7}) - 8;
        }
      }
      at = next;
    }
    return true;
  }

  uint64_t last_image() const { return last_image_; }  // 0: none was found

 private:
  bool IsOver() const {
    return searched_ > kMostMemory || std::chrono::steady_clock::now() - start_ > kLongestSearch;
  }

  // Whether the process has ever written there, as far as can be told. Reading what it has not
  // would make pages of it.
  bool IsTouched(uint64_t at, uint64_t bytes) {
    constexpr uint64_t kPage = 4096, kThere = uint64_t{3} << 62;  // present, or swapped
    std::array<uint64_t, kChunk / kPage + 1> pages;
    const uint64_t count = (at + bytes + kPage - 1) / kPage - at / kPage;
    const ssize_t got = pread(pagemap_.get(), pages.data(), count * sizeof pages[0],
                              static_cast<off_t>(at / kPage * sizeof pages[0]));
    if (got != static_cast<ssize_t>(count * sizeof pages[0])) return true;
    return std::any_of(pages.begin(), pages.begin() + count,
                       [](uint64_t page) { return (page & kThere) != 0; });
  }

  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  const RemoteMemory memory_;
  const UniqueFd pagemap_;
  const ProcessImages::Found& found_;
  std::vector<uint8_t> chunk_;
  uint64_t searched_ = 0, last_image_ = 0;
};

}  // namespace

void ProcessImages::Search(const Found& found) {
  std::vector<phantora::Search::Part> fresh, next, heap, others;
  std::set<std::pair<uint64_t, uint64_t>> all;
  for (const Mapping& mapping : Mappings(process_)) {
    const bool is_anonymous =
        mapping.inode == 0 && (mapping.name.empty() || mapping.name == "[heap]" ||
                               absl::StartsWith(mapping.name, "[anon"));
    if (!is_anonymous || strncmp(mapping.permissions, "rw", 2) != 0) continue;
    const std::pair range(mapping.begin, mapping.end);
    all.insert(range);
    if (mapping.begin <= last_found_ && last_found_ < mapping.end) {
      const uint64_t from = last_found_ & ~uint64_t{7};
      next.push_back({from, mapping.end, mapping.end});
      others.push_back({mapping.begin, from, mapping.end});
    } else {
      (mapping.name == "[heap]"      ? heap
       : known_.contains(range) ? others
                                : fresh)
          .push_back({mapping.begin, mapping.end, mapping.end});
    }
  }
  known_ = std::move(all);
  phantora::Search search(process_, found);
  // At first everything is fresh: the heap is where images usually are.
  if (last_found_ == 0) std::swap(fresh, heap);
  for (const auto& ranges : {fresh, next, heap, others}) {
    for (const auto& part : ranges) {
      const bool go_on = search.Through(part);
      if (search.last_image() != 0) last_found_ = search.last_image();
      if (!go_on) return;
    }
  }
}

}  // namespace phantora
