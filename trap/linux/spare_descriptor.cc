#include "trap/linux/spare_descriptor.h"

#include <errno.h>
#include <fcntl.h>

#include <utility>

namespace phantora {

void SpareDescriptor::Open(const char* path, int flags, absl::FunctionRef<void(UniqueFd)> use) {
  UniqueFd file(open(path, flags | O_CLOEXEC));
  if (file.valid() || errno != EMFILE) {
    use(std::move(file));
    return;
  }
  const std::lock_guard lock(mutex_);
  spare_.reset();
  use(UniqueFd(open(path, flags | O_CLOEXEC)));
  spare_ = Take();
}

UniqueFd SpareDescriptor::Take() { return UniqueFd(open("/", O_PATH | O_CLOEXEC)); }

}  // namespace phantora
