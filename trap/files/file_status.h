// What stat(2) and its like say about made-up files.
#ifndef PHANTORA_TRAP_FILES_FILE_STATUS_H_
#define PHANTORA_TRAP_FILES_FILE_STATUS_H_

#include <sys/stat.h>
#include <sys/vfs.h>

#include <cstdint>
#include <string_view>

#include "trap/files/synthetic_files.h"

namespace phantora {

mode_t ModeOf(const SyntheticFiles::Node& node);
struct stat StatOf(const SyntheticFiles::Node& node);
struct statx StatxOf(const SyntheticFiles::Node& node);
// Of the file system that a file with this name is in.
struct statfs StatFsOf(std::string_view path);
// 0 or an error number: may a file be accessed so (R_OK, W_OK, X_OK)?
int AccessOf(const SyntheticFiles::Node& node, uint64_t wanted);

}  // namespace phantora

#endif  // PHANTORA_TRAP_FILES_FILE_STATUS_H_
