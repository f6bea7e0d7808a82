#include "trap/linux/shared_word.h"

#include <cinttypes>
#include <cstdio>
#include <sstream>

namespace phantora {

std::optional<SharedWord> SharedWord::Of(pid_t process, uint64_t address, const Proc& files) {
  std::istringstream maps(files.Text(process, "maps"));
  for (std::string line; std::getline(maps, line);) {
    uint64_t begin, end, offset;
    char permissions[5], device[16], inode[24];
    if (sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %15s %23s", &begin, &end,
               permissions, &offset, device, inode) != 6) {
      continue;
    }
    if (address < begin || address >= end) continue;
    if (permissions[3] != 's') return std::nullopt;
    return SharedWord{.file = std::string(device) + " " + inode,
                      .offset = offset + (address - begin)};
  }
  return std::nullopt;
}

}  // namespace phantora
