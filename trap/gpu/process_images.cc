#include "trap/gpu/process_images.h"

#include <elf.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "trap/supervisor/remote_memory.h"

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

void FindCubinsInMemory(pid_t process, const std::function<void(std::vector<CubinKernel>)>& found) {
  const auto begin = std::chrono::steady_clock::now();
  const RemoteMemory memory(process);
  std::vector<uint8_t> chunk(kChunk);
  uint64_t searched = 0;
  auto mappings = Mappings(process);
  // The heap first: that is where they usually are.
  std::stable_partition(mappings.begin(), mappings.end(),
                        [](const Mapping& mapping) { return mapping.name == "[heap]"; });
  for (const Mapping& mapping : mappings) {
    const bool is_anonymous =
        mapping.inode == 0 && (mapping.name.empty() || mapping.name == "[heap]" ||
                               absl::StartsWith(mapping.name, "[anon"));
    if (!is_anonymous || strncmp(mapping.permissions, "rw", 2) != 0) continue;
    const auto is_over = [&] {
      return searched > kMostMemory || std::chrono::steady_clock::now() - begin > kLongestSearch;
    };
    for (uint64_t at = mapping.begin; at < mapping.end;) {
      if (is_over()) return;
      const uint64_t bytes = std::min(kChunk, mapping.end - at);
      searched += bytes;
      uint64_t next = at + bytes;
      if (memory.Read(RemoteAddress{at}, chunk.data(), bytes)) {
        for (uint64_t offset = 0; offset + 8 <= bytes; offset += 8) {
          if (memcmp(chunk.data() + offset, ELFMAG, SELFMAG) != 0) continue;
          if (is_over()) return;  // memory full of headers means much to read
          const auto image = ReadImage(memory, at + offset, mapping.end - at - offset);
          std::vector<CubinKernel> kernels;
          if (image.empty() || !ReadCubin(image, kernels)) continue;
          if (!kernels.empty()) found(std::move(kernels));
          next = std::max(next, (at + offset + image.size()) & ~uint64_t{7});
          offset += (image.size() & ~uint64_t{7}) - 8;
        }
      }
      at = next;
    }
  }
}

}  // namespace phantora
