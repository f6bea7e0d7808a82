#include "trap/memory/mapping.h"

#include <cstdio>
#include <cstring>

#include "absl/strings/match.h"
#include "trap/memory/page_pool.h"

namespace phantora {
namespace {

// A mapping that has less than this part of itself in memory is left alone: programs reserve
// terabytes, and each page's place has to be looked at.
constexpr uint64_t kSparse = 64;
constexpr uint64_t kSmallestMapping = 64 << 10;

}  // namespace

bool Mapping::Has(uint64_t bytes) const {
  return anonymous_kib * 1024 >= bytes && anonymous_kib >= (end - begin) / 1024 / kSparse;
}

bool Mapping::Parse(const std::string& line) {
  char access[8] = {}, name[128] = {};
  unsigned long inode = 0;
  const int fields = sscanf(line.c_str(), "%lx-%lx %7s %lx %*s %lu %127s", &begin, &end, access,
                            &offset, &inode, name);
  if (fields < 5) return false;
  // Stacks and the like have names.
  const bool is_heap = strcmp(name, "[heap]") == 0;
  const bool is_large = end - begin >= kSmallestMapping;
  const bool is_anonymous = inode == 0 && (fields == 5 || is_heap);
  is_pool = strstr(name, PagePool::kName) != nullptr;
  is_file = inode != 0 && !is_pool;
  is_writable = access[1] == 'w';
  // Libraries' pages with addresses in them are written once, and then often protected.
  const bool is_private = access[0] == 'r' && access[2] == '-' && access[3] == 'p';
  eligible = is_private && (is_writable || !is_anonymous) &&
             (is_pool || ((is_anonymous || is_file) && is_large));
  return true;
}

bool Mapping::HasFlags(const std::string& line) {
  for (const char* flag : {" lo", " ht", " um", " uw", " ui", " wf", " dc", " gd", " io", " pf"}) {
    if (absl::StrContains(line, flag)) return true;
  }
  return false;
}

}  // namespace phantora
