// A mapping of a process, as /proc tells it, and whether its memory can be shared.
#ifndef PHANTORA_TRAP_MEMORY_MAPPING_H_
#define PHANTORA_TRAP_MEMORY_MAPPING_H_

#include <cstdint>
#include <string>

namespace phantora {

struct Mapping {
  unsigned long begin = 0, end = 0;  // addresses
  unsigned long offset = 0;          // in the file, bytes
  unsigned long anonymous_kib = 0;   // smaps
  bool eligible = false;             // private, and anonymous or a library's
  bool is_pool = false;              // of the pool of shared pages
  bool is_file = false;              // of another file
  bool is_writable = true;

  bool operator==(const Mapping& other) const {
    return begin == other.begin && end == other.end && offset == other.offset;
  }

  // Is so much of it the process's own, and no too small part of it?
  bool Has(uint64_t bytes) const;

  // From a line of maps or smaps that begins a mapping; false for any other.
  bool Parse(const std::string& line);

  // Has the line `VmFlags:` of smaps flags that a new mapping would not have? Locked, huge, of
  // userfaultfd, wiped or not copied by fork, growing downwards, for devices.
  static bool HasFlags(const std::string& line);
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_MEMORY_MAPPING_H_
