#include "trap/files/device_file.h"

#include <fcntl.h>
#include <unistd.h>

namespace phantora {

DeviceFile::Handle DeviceFile::MakeHandle() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {};
  return {.file = UniqueFd(ends[1]), .keeper = UniqueFd(ends[0])};
}

}  // namespace phantora
