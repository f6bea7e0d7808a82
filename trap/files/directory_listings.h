// Lists directories that only the ranks see.
#ifndef PHANTORA_TRAP_FILES_DIRECTORY_LISTINGS_H_
#define PHANTORA_TRAP_FILES_DIRECTORY_LISTINGS_H_

#include <map>
#include <optional>
#include <string>

#include "trap/files/synthetic_files.h"
#include "trap/linux/unique_fd.h"

namespace phantora {

// A rank reads a directory with getdents on a descriptor, so it needs a real one: a
// temporary directory with entries of the same names. What they hold is only looked up by
// absolute path, which the supervisor answers, so that they can be empty.
class DirectoryListings {
 public:
  explicit DirectoryListings(const SyntheticFiles* files) : files_(files) {}
  ~DirectoryListings();
  DirectoryListings(const DirectoryListings&) = delete;
  DirectoryListings& operator=(const DirectoryListings&) = delete;

  // Opens the listing of the synthetic directory `path`: its synthetic entries, and those
  // of the host that are not hidden. Invalid if that fails.
  UniqueFd Open(const std::string& path);

  // What a path below a listing, as an open directory's name shows it, stands for; nullopt if it
  // is below none.
  std::optional<std::string> BehindListing(const std::string& path) const;

 private:
  bool Fill(const std::string& path, const std::string& directory);

  const SyntheticFiles* const files_;
  std::string root_;                             // of all listings; "" until one is needed
  std::map<std::string, std::string> listings_;  // by path
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_FILES_DIRECTORY_LISTINGS_H_
